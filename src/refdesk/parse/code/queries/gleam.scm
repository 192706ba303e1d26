; definitions
(function name: (identifier) @name body: (_)? @body) @def.function
(type_definition (type_name name: (_) @name)) @def.type
(data_constructor name: (_) @name) @def.case
(type_alias (type_name name: (_) @name)) @def.type
(constant name: (_) @name) @def.constant
[(comment) (statement_comment)] @comment
(attribute) @lead

; mentions
(import) @import
(function_call function: (_) @call)
(type name: (_) @type)
(ERROR) @error
