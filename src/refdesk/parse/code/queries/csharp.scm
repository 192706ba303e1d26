; definitions
(class_declaration name: (identifier) @name body: (_)? @body) @def.class
(struct_declaration name: (identifier) @name body: (_)? @body) @def.struct
(interface_declaration name: (identifier) @name body: (_)? @body) @def.interface
(record_declaration name: (identifier) @name body: (_)? @body) @def.record
(enum_declaration name: (identifier) @name body: (_)? @body) @def.enum
(enum_member_declaration name: (identifier) @name) @def.case
(namespace_declaration name: (_) @name body: (_) @body) @def.namespace
(method_declaration name: (identifier) @name body: (_)? @body) @def.method
(local_function_statement name: (identifier) @name body: (_)? @body) @def.function
(constructor_declaration name: (identifier) @name body: (_)? @body) @def.constructor
(destructor_declaration name: (identifier) @name body: (_)? @body) @def.destructor
(operator_declaration "operator" @name body: (_)? @body) @def.operator
(indexer_declaration "this" @name) @def.subscript
(property_declaration name: (identifier) @name accessors: (_)? @body) @def.property
(event_field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.property
(event_declaration name: (identifier) @name) @def.property
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @def.field
(delegate_declaration name: (identifier) @name) @def.type
(comment) @comment

; mentions
(using_directive) @import
(class_declaration (base_list [(identifier) (qualified_name) (generic_name)] @base))
(record_declaration (base_list [(identifier) (qualified_name) (generic_name)] @base))
(record_declaration (base_list (primary_constructor_base_type type: (_) @inherits)))
(class_declaration (base_list (primary_constructor_base_type type: (_) @inherits)))
(struct_declaration (base_list [(identifier) (qualified_name) (generic_name)] @conforms))
(interface_declaration (base_list [(identifier) (qualified_name) (generic_name)] @inherits))
(invocation_expression function: [(identifier) (member_access_expression) (generic_name)] @call)
(invocation_expression function: (conditional_access_expression (member_binding_expression name: (_) @call)))
(object_creation_expression type: (_) @new)
(attribute name: (_) @type)
(parameter type: (_) @type)
(method_declaration returns: (_) @type)
(property_declaration type: (_) @type)
(variable_declaration type: [(identifier) (generic_name) (qualified_name) (nullable_type) (array_type)] @type)
(type_argument_list [(identifier) (generic_name) (qualified_name)] @type)
(type_parameter_constraint type: (_) @type)
(cast_expression type: (_) @type)
(typeof_expression type: (_) @type)
(argument [(identifier) (member_access_expression)] @value)
(member_access_expression expression: (identifier) @value)
(ERROR) @error

; facts
(parameter type: (_) @var.type name: (_) @var) @fact
(property_declaration type: (_) @var.type name: (_) @var) @fact
(declaration_pattern type: (_) @var.type name: (_) @var) @fact
(foreach_statement type: (_) @var.type left: (_) @var right: (_) @var.items) @fact
(variable_declaration type: (_) @var.type (variable_declarator name: (_) @var)) @fact
(variable_declaration (variable_declarator name: (_) @var [
  (object_creation_expression type: (_) @var.type)
  (invocation_expression) @var.value (await_expression (invocation_expression) @var.value)])) @fact
(assignment_expression left: [(identifier) (member_access_expression)] @var right: [
  (object_creation_expression type: (_) @var.type)
  (invocation_expression) @var.value (await_expression (invocation_expression) @var.value)
  (identifier) @var.value (member_access_expression) @var.value]) @fact
(method_declaration returns: (_) @returns)
(method_declaration parameters: (parameter_list . (parameter (modifier) @_this) @extends) (#eq? @_this "this"))
