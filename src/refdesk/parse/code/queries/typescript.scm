(class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(abstract_class_declaration name: (type_identifier) @name body: (_) @body) @def.class
(interface_declaration name: (type_identifier) @name body: (_) @body) @def.interface
(enum_declaration name: (identifier) @name body: (_) @body) @def.enum
(enum_body name: (property_identifier) @name @def.case)
(enum_assignment name: (property_identifier) @name) @def.case
(type_alias_declaration name: (type_identifier) @name) @def.type
(internal_module name: (_) @name body: (_) @body) @def.module
(module name: (_) @name body: (_) @body) @def.module
(function_signature name: (identifier) @name) @def.function
(method_signature name: (_) @name) @def.method
(abstract_method_signature name: (_) @name) @def.method
(interface_body (property_signature name: (_) @name) @def.property)
(public_field_definition name: (_) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.method
(public_field_definition name: (_) @name) @def.property
(ambient_declaration) @wrap
(decorator) @lead
(decorator (identifier) @type)

(extends_clause value: (_) @inherits)
(extends_type_clause type: [(type_identifier) (nested_type_identifier)] @inherits)
(extends_type_clause type: (generic_type name: (_) @inherits))
(implements_clause [(type_identifier) (nested_type_identifier)] @conforms)
(implements_clause (generic_type name: (_) @conforms))
(type_identifier) @type
(nested_type_identifier) @type

; facts
(required_parameter pattern: (identifier) @var type: (type_annotation (_) @var.type)) @fact
(optional_parameter pattern: (identifier) @var type: (type_annotation (_) @var.type)) @fact
(variable_declarator name: (identifier) @var type: (type_annotation (_) @var.type)) @fact
(public_field_definition name: (_) @var type: (type_annotation (_) @var.type)) @fact
(public_field_definition name: (_) @var value: (new_expression constructor: (_) @var.type)) @fact
(property_signature name: (_) @var type: (type_annotation (_) @var.type)) @fact
(function_declaration return_type: (type_annotation (_) @returns))
(function_signature return_type: (type_annotation (_) @returns))
(method_definition return_type: (type_annotation (_) @returns))
(method_signature return_type: (type_annotation (_) @returns))
(abstract_method_signature return_type: (type_annotation (_) @returns))
(lexical_declaration (variable_declarator value: (arrow_function return_type: (type_annotation (_) @returns))))
