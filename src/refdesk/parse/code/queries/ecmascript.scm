; definitions
(function_declaration name: (identifier) @name body: (_) @body) @def.function
(generator_function_declaration name: (identifier) @name body: (_) @body) @def.function
(method_definition name: (_) @name body: (_) @body) @def.method
(lexical_declaration (variable_declarator name: (identifier) @name value: (arrow_function body: (_) @body))) @def.function
(lexical_declaration (variable_declarator name: (identifier) @name value: (function_expression body: (_) @body))) @def.function
(lexical_declaration (variable_declarator name: (identifier) @name value: (call_expression arguments: (arguments . [(arrow_function body: (_) @body) (function_expression body: (_) @body)])))) @def.function
(variable_declaration (variable_declarator name: (identifier) @name value: (arrow_function body: (_) @body))) @def.function
(variable_declaration (variable_declarator name: (identifier) @name value: (function_expression body: (_) @body))) @def.function
(lexical_declaration (variable_declarator name: (identifier) @name value: (class body: (_) @body))) @def.class
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @def.constant)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @def.variable)
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @def.constant)
(expression_statement (assignment_expression left: (member_expression) @name right: [(function_expression body: (_) @body) (arrow_function body: (_) @body)])) @def.function
(expression_statement (assignment_expression left: (member_expression) @name right: (class body: (_) @body))) @def.class
(export_statement "default" @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.function
(export_statement "default" @name value: (class body: (_) @body)) @def.class
(expression_statement (call_expression
  function: [(identifier) @_f (member_expression object: (identifier) @_f)]
  arguments: (arguments . [(string) (template_string)] @name [(arrow_function body: (_) @body) (function_expression body: (_) @body)]))
  (#any-of? @_f "describe" "it" "test" "suite" "context" "bench")) @def.test
(export_statement) @wrap
(comment) @comment

; mentions
(import_statement) @import
(export_statement source: (_)) @import
(lexical_declaration (variable_declarator value: (call_expression function: (identifier) @_r (#eq? @_r "require")))) @import
(variable_declaration (variable_declarator value: (call_expression function: (identifier) @_r (#eq? @_r "require")))) @import
(call_expression function: [(identifier) (member_expression) (super)] @call)
(call_expression function: (await_expression [(identifier) (member_expression)] @call))
(new_expression constructor: (_) @new)
(arguments [(identifier) (member_expression)] @value)
(pair value: (identifier) @value)
(object (shorthand_property_identifier) @value)
(array (identifier) @value)
(assignment_expression right: (identifier) @value)
(return_statement (identifier) @value)
(member_expression object: (identifier) @value)
(ERROR) @error

; facts
(variable_declarator name: (identifier) @var value: [
  (call_expression function: (_) @var.call)
  (await_expression (call_expression function: (_) @var.call))
  (new_expression constructor: (_) @var.type)
  (identifier) @var.value (member_expression) @var.value]) @fact
(assignment_expression left: [(identifier) (member_expression)] @var right: [
  (call_expression function: (_) @var.call)
  (await_expression (call_expression function: (_) @var.call))
  (new_expression constructor: (_) @var.type)
  (identifier) @var.value (member_expression) @var.value]) @fact
(for_in_statement left: (identifier) @var right: (_) @var.items) @fact
(return_statement [(call_expression function: (_) @gives) (new_expression constructor: (_) @gives)])
