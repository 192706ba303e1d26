(protocol_declaration . (identifier) @name) @def.protocol
(class_interface . (identifier) @name !category) @def.class
(class_interface . (identifier) @name category: (_)) @def.extension
(class_implementation . (identifier) @name) @def.impl
(method_declaration . (method_type) . (identifier) @name) @def.method
(method_definition . (method_type) . (identifier) @name (compound_statement) @body) @def.method
(property_declaration (struct_declaration (struct_declarator [(identifier) @name (pointer_declarator declarator: (identifier) @name)]))) @def.property
(implementation_definition (method_definition)) @wrap

(module_import) @import
(class_interface superclass: (identifier) @inherits)
(class_interface superclass: (_) (parameterized_arguments (type_name (type_identifier) @conforms)))
(class_interface category: (_) (parameterized_arguments (type_name (type_identifier) @conforms)))
(class_interface (protocol_reference_list (identifier) @conforms))
(protocol_declaration (protocol_reference_list (identifier) @conforms))
(message_expression receiver: (_) . method: (identifier) @message)
(message_expression receiver: (_) @receiver)
(message_expression receiver: (identifier) @value)

(method_parameter (method_type (type_name) @var.type) (identifier) @var) @fact
(property_declaration (struct_declaration (type_identifier) @var.type (struct_declarator (_) @var))) @fact
(method_declaration . (method_type (type_name) @returns))
(method_definition . (method_type (type_name) @returns))
