(class_definition name: (identifier) @name body: (_) @body) @def.class
(mixin_declaration (identifier) @name (class_body) @body) @def.trait
(extension_declaration name: (identifier) @name body: (_) @body) @def.extension
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(enum_constant name: (identifier) @name) @def.case
(function_signature name: (identifier) @name) @def.function
(getter_signature name: (identifier) @name) @def.property
(constructor_signature name: (identifier) @name) @def.constructor
(initialized_identifier (identifier) @name) @def.property
(function_body) @tail
[(comment) (documentation_comment)] @comment
(annotation) @lead

(import_or_export) @import
(superclass (type_identifier) @inherits)
(interfaces (type_identifier) @conforms)
(mixins (type_identifier) @inherits)
(type_identifier) @type
(ERROR) @error
