; definitions
(function_definition name: (name) @name body: (_) @body) @def.function
(method_declaration name: (name) @name body: (_)? @body) @def.method
(class_declaration name: (name) @name body: (_) @body) @def.class
(interface_declaration name: (name) @name body: (_) @body) @def.interface
(trait_declaration name: (name) @name body: (_) @body) @def.trait
(enum_declaration name: (name) @name body: (_) @body) @def.enum
(enum_case name: (name) @name) @def.case
(const_declaration (const_element (name) @name)) @def.constant
(property_declaration (property_element (variable_name) @name)) @def.property
(property_promotion_parameter name: (variable_name) @name) @def.property
(namespace_definition name: (_) @name body: (_) @body) @def.namespace
(comment) @comment
(attribute_list) @lead

; mentions
(namespace_use_declaration) @import
(base_clause (_) @inherits)
(class_interface_clause (_) @conforms)
(use_declaration [(name) (qualified_name)] @inherits)
(function_call_expression function: [(name) (qualified_name)] @call)
(member_call_expression name: (name) @message)
(nullsafe_member_call_expression name: (name) @message)
(scoped_call_expression name: (name) @message)
(member_call_expression object: (_) @receiver)
(nullsafe_member_call_expression object: (_) @receiver)
(scoped_call_expression scope: (_) @receiver)
(object_creation_expression [(name) (qualified_name)] @new)
(named_type) @type
(class_constant_access_expression . [(name) (qualified_name)] @type)
(attribute [(name) (qualified_name)] @type)
(ERROR) @error

; facts
(simple_parameter type: (_) @var.type name: (_) @var) @fact
(property_promotion_parameter type: (_) @var.type name: (_) @var) @fact
(property_declaration type: (_) @var.type (property_element (variable_name) @var)) @fact
(assignment_expression left: [(variable_name) (member_access_expression)] @var right: [
  (object_creation_expression . [(name) (qualified_name)] @var.type)
  (member_call_expression) @var.value (function_call_expression) @var.value (scoped_call_expression) @var.value
  (variable_name) @var.value (member_access_expression) @var.value]) @fact
(method_declaration return_type: (_) @returns)
(function_definition return_type: (_) @returns)
