; definitions
(function_definition name: (identifier) @name body: (_) @body) @def.function
(class_definition name: (identifier) @name body: (_) @body) @def.class
(type_alias_statement left: (type (identifier) @name)) @def.type
(module (assignment left: (identifier) @name) @def.constant)
(module (if_statement consequence: (block (assignment left: (identifier) @name) @def.constant)))
(class_definition body: (block (assignment left: (identifier) @name) @def.property))
(decorated_definition) @wrap
(function_definition body: (block . (string) @doc))
(class_definition body: (block . (string) @doc))
(comment) @comment

; mentions
[(import_statement) (import_from_statement) (future_import_statement)] @import
(class_definition superclasses: (argument_list [(identifier) (attribute) (subscript) (call function: (_))] @inherits))
(call function: (_) @call)
(decorator [(identifier) (attribute)] @type)
(type [(identifier) (attribute)] @type)
(type (generic_type (identifier) @type))
(type (subscript value: (_) @type))
(type (binary_operator [(identifier) (attribute)] @type))
(argument_list [(identifier) (attribute)] @value)
(keyword_argument value: [(identifier) (attribute)] @value)
(pair value: [(identifier) (attribute)] @value)
(list [(identifier) (attribute)] @value)
(tuple [(identifier) (attribute)] @value)
(return_statement [(identifier) (attribute)] @value)
(assignment right: [(identifier) (attribute)] @value)
(default_parameter value: [(identifier) (attribute)] @value)
(typed_default_parameter value: [(identifier) (attribute)] @value)
(except_clause value: [(identifier) (attribute)] @type)
(raise_statement . [(identifier) (attribute)] @type)
(attribute object: (identifier) @value)
(ERROR) @error

; facts
(typed_parameter . (identifier) @var type: (_) @var.type) @fact
(typed_default_parameter name: (_) @var type: (_) @var.type) @fact
(assignment left: [(identifier) (attribute)] @var type: (_) @var.type) @fact
(assignment left: [(identifier) (attribute)] @var right: [
  (call function: (_) @var.call)
  (await (call function: (_) @var.call))
  (boolean_operator left: (_) @var.value)
  (identifier) @var.value (attribute) @var.value
  (subscript) @var.alias (conditional_expression) @var.alias (binary_operator) @var.alias]) @fact
(as_pattern (call function: (_) @var.call) alias: (as_pattern_target (identifier) @var)) @fact
(for_statement left: [(identifier) @var (pattern_list (identifier) @var .)] right: (_) @var.items) @fact
(for_in_clause left: [(identifier) @var (pattern_list (identifier) @var .)] right: (_) @var.items) @fact
(function_definition return_type: (_) @returns)
(return_statement [(call function: (_) @gives) (await (call function: (_) @gives))])
