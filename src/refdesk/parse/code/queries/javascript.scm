(class_declaration name: (identifier) @name body: (_) @body) @def.class
(class_heritage (_) @inherits)
(field_definition property: (_) @name value: [(arrow_function body: (_) @body) (function_expression body: (_) @body)]) @def.method
(field_definition property: (_) @name) @def.property
(decorator (identifier) @type)
(jsx_opening_element name: (_) @call)
(jsx_self_closing_element name: (_) @call)

(field_definition property: (_) @var value: (new_expression constructor: (_) @var.type)) @fact
