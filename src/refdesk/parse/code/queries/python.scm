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
