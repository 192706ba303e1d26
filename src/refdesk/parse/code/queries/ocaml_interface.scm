; definitions
(value_specification (value_name) @name) @def.function
(external (value_name) @name) @def.function
(type_binding name: (_) @name) @def.type
(constructor_declaration (constructor_name) @name) @def.case
(module_binding (module_name) @name body: (_)? @body) @def.module
(module_type_definition (module_type_name) @name body: (_)? @body) @def.interface
(comment) @comment

(ERROR) @error
