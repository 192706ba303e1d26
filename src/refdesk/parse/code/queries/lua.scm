(function_declaration name: (_) @name body: (_)? @body) @def.function
(assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition body: (_)? @body))) @def.function
(chunk (variable_declaration (assignment_statement (variable_list name: (identifier) @name))) @def.variable)
(chunk (assignment_statement (variable_list name: [(identifier) (dot_index_expression)] @name)) @def.variable)
(field name: (identifier) @name value: (function_definition body: (_)? @body)) @def.function
(comment) @comment

((variable_declaration (assignment_statement (expression_list value: (function_call name: (identifier) @_r)))) @import (#eq? @_r "require"))
(function_call name: [(identifier) (dot_index_expression) (method_index_expression)] @call)
(arguments [(identifier) (dot_index_expression)] @value)
(ERROR) @error

; facts
(assignment_statement (variable_list name: (_) @var) (expression_list value: (function_call name: (_) @var.call))) @fact
