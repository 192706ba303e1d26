; definitions
(class_declaration declaration_kind: "class" name: (type_identifier) @name body: (_) @body) @def.class
(class_declaration declaration_kind: "struct" name: (type_identifier) @name body: (_) @body) @def.struct
(class_declaration declaration_kind: "enum" name: (type_identifier) @name body: (_) @body) @def.enum
(class_declaration declaration_kind: "actor" name: (type_identifier) @name body: (_) @body) @def.actor
(class_declaration declaration_kind: "extension" name: (_) @name body: (_) @body) @def.extension
(protocol_declaration name: (type_identifier) @name body: (_) @body) @def.protocol
(function_declaration name: [(simple_identifier) (custom_operator)] @name body: (_)? @body) @def.function
(function_declaration name: ["+" "-" "*" "/" "%" "==" "!=" "<" ">" "<=" ">=" "!"] @name body: (_)? @body) @def.function
(protocol_function_declaration name: [(simple_identifier) (custom_operator)] @name) @def.function
(init_declaration "init" @name body: (_)? @body) @def.constructor
(deinit_declaration "deinit" @name body: (_) @body) @def.destructor
(subscript_declaration "subscript" @name (computed_property)? @body) @def.subscript
(property_declaration name: (pattern bound_identifier: (simple_identifier) @name) computed_value: (_)? @body) @def.property
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.property
(enum_entry name: (simple_identifier) @name) @def.case
(typealias_declaration name: (type_identifier) @name) @def.type
(associatedtype_declaration name: (type_identifier) @name) @def.type
(operator_declaration (custom_operator) @name) @def.operator
(macro_declaration (simple_identifier) @name definition: (_)? @body) @def.macro
[(comment) (multiline_comment)] @comment

; mentions
(import_declaration) @import
(inheritance_specifier inherits_from: (_) @base)
(call_expression . (_) @invoke (call_suffix))
(macro_invocation (simple_identifier) @call)
(user_type) @type
(value_argument value: [(simple_identifier) (navigation_expression)] @value)
(navigation_expression target: (simple_identifier) @value)
(ERROR) @error
