; definitions
([(compilation_unit (value_definition (let_binding pattern: (value_name) @name (parameter) body: (_)? @body) @def.function))
  (structure (value_definition (let_binding pattern: (value_name) @name (parameter) body: (_)? @body) @def.function))])
([(compilation_unit (value_definition (let_binding pattern: (value_name) @name . body: [(function_expression) (fun_expression)] @body) @def.function))
  (structure (value_definition (let_binding pattern: (value_name) @name . body: [(function_expression) (fun_expression)] @body) @def.function))])
([(compilation_unit (value_definition (let_binding pattern: (value_name) @name . body: (_) @body) @def.constant))
  (structure (value_definition (let_binding pattern: (value_name) @name . body: (_) @body) @def.constant))])
(value_specification (value_name) @name) @def.function
(external (value_name) @name) @def.function
(type_binding name: (_) @name) @def.type
(constructor_declaration (constructor_name) @name) @def.case
(module_binding (module_name) @name body: (_)? @body) @def.module
(module_type_definition (module_type_name) @name body: (_)? @body) @def.interface
(class_binding (class_name) @name body: (_)? @body) @def.class
(method_definition (method_name) @name body: (_)? @body) @def.method
(comment) @comment

; mentions
(open_module) @import
(application_expression function: (value_path) @call)
(ERROR) @error
