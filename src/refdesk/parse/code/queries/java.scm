; definitions
(class_declaration name: (identifier) @name body: (_) @body) @def.class
(interface_declaration name: (identifier) @name body: (_) @body) @def.interface
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(record_declaration name: (identifier) @name body: (_) @body) @def.record
(annotation_type_declaration name: (identifier) @name body: (_) @body) @def.annotation
(method_declaration name: (identifier) @name body: (_)? @body) @def.method
(constructor_declaration name: (identifier) @name body: (_) @body) @def.constructor
(compact_constructor_declaration name: (identifier) @name body: (_) @body) @def.constructor
(annotation_type_element_declaration name: (identifier) @name) @def.method
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @def.field
(constant_declaration declarator: (variable_declarator name: (identifier) @name)) @def.field
(enum_constant name: (identifier) @name) @def.case
[(line_comment) (block_comment)] @comment

; mentions
(import_declaration) @import
(superclass (_) @inherits)
(super_interfaces (type_list (_) @conforms))
(extends_interfaces (type_list (_) @inherits))
(method_invocation name: (identifier) @message)
(method_invocation object: (_) @receiver)
(object_creation_expression type: (_) @new)
(method_reference (_) @receiver (identifier) @message .)
(type_identifier) @type
(scoped_type_identifier) @type
[(marker_annotation name: (_) @type) (annotation name: (_) @type)]
(method_invocation object: (identifier) @value)
(field_access object: (identifier) @value)
(ERROR) @error

; facts
(package_declaration (_) @package)
(formal_parameter type: (_) @var.type name: (_) @var) @fact
(catch_formal_parameter (catch_type) @var.type name: (_) @var) @fact
(resource type: (_) @var.type name: (_) @var) @fact
(enhanced_for_statement type: (_) @var.type name: (_) @var value: (_) @var.items) @fact
(field_declaration type: (_) @var.type declarator: (variable_declarator name: (_) @var)) @fact
(local_variable_declaration type: (_) @var.type declarator: (variable_declarator name: (_) @var)) @fact
(local_variable_declaration declarator: (variable_declarator name: (_) @var value: [
  (object_creation_expression type: (_) @var.type) (method_invocation) @var.value])) @fact
(assignment_expression left: [(identifier) (field_access)] @var right: [
  (object_creation_expression type: (_) @var.type) (method_invocation) @var.value
  (identifier) @var.value (field_access) @var.value]) @fact
(method_declaration type: (_) @returns)
