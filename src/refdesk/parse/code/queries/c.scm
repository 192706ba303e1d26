; definitions
(function_definition declarator: (function_declarator declarator: (_) @name) body: (_)? @body) @def.function
(function_definition declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name)) body: (_)? @body) @def.function
(function_definition declarator: (pointer_declarator declarator: (pointer_declarator declarator: (function_declarator declarator: (_) @name))) body: (_)? @body) @def.function
(declaration declarator: (function_declarator declarator: (identifier) @name)) @def.prototype
(declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (identifier) @name))) @def.prototype
(struct_specifier name: (_) @name body: (_) @body) @def.struct
(union_specifier name: (_) @name body: (_) @body) @def.union
(enum_specifier name: (_) @name body: (_) @body) @def.enum
(type_definition type: (struct_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.struct
(type_definition type: (union_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.union
(type_definition type: (enum_specifier !name body: (_) @body) declarator: (type_identifier) @name) @def.enum
(type_definition type: [(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_)) (enum_specifier name: (_) body: (_))]) @wrap
(type_definition type: [(struct_specifier name: (_)) (union_specifier name: (_)) (enum_specifier name: (_))] declarator: (type_identifier) @name @def.type)
(type_definition type: [(primitive_type) (type_identifier) (sized_type_specifier)] declarator: (type_identifier) @name) @def.type
(type_definition declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (type_identifier) @name)))) @def.type
(field_declaration declarator: (field_identifier) @name) @def.field
(field_declaration declarator: (pointer_declarator declarator: (field_identifier) @name)) @def.field
(field_declaration declarator: (array_declarator declarator: (field_identifier) @name)) @def.field
(field_declaration declarator: (function_declarator declarator: (parenthesized_declarator (pointer_declarator declarator: (field_identifier) @name)))) @def.field
(enumerator name: (identifier) @name) @def.case
(preproc_def name: (identifier) @name) @def.constant
(preproc_function_def name: (identifier) @name value: (_)? @body) @def.macro
(declaration declarator: (init_declarator declarator: [
  (identifier) @name
  (pointer_declarator declarator: (identifier) @name)
  (array_declarator declarator: (identifier) @name)])) @def.variable
(declaration declarator: (identifier) @name) @def.variable
(comment) @comment

; mentions
(preproc_include) @import
(call_expression function: [(identifier) (field_expression)] @call)
(type_identifier) @type
(argument_list [(identifier) (pointer_expression argument: (identifier) @value)] @value)
(initializer_list (identifier) @value)
(initializer_pair value: (identifier) @value)
(assignment_expression right: (identifier) @value)
(init_declarator value: (identifier) @value)
(ERROR) @error

; facts
(parameter_declaration type: (_) @var.type declarator: (_) @var) @fact
(field_declaration type: (_) @var.type declarator: (_) @var) @fact
(declaration type: (_) @var.type declarator: [
  (identifier) @var (pointer_declarator) @var (init_declarator declarator: (_) @var)]) @fact
(declaration declarator: (init_declarator declarator: (_) @var value: (call_expression function: (_) @var.call))) @fact
(function_definition type: (_) @returns)
