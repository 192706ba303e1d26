(class_specifier name: (_) @name body: (_) @body) @def.class
(function_definition declarator: (reference_declarator (function_declarator declarator: (_) @name)) body: (_)? @body) @def.function
(function_definition declarator: (operator_cast) @name body: (_)? @body) @def.function
(declaration declarator: (function_declarator declarator: [(qualified_identifier) (destructor_name) (operator_name)] @name)) @def.prototype
(declaration declarator: (reference_declarator (function_declarator declarator: (_) @name))) @def.prototype
(field_declaration declarator: (function_declarator declarator: (field_identifier) @name)) @def.method
(field_declaration declarator: (function_declarator declarator: (operator_name) @name)) @def.method
(field_declaration declarator: (pointer_declarator declarator: (function_declarator declarator: (field_identifier) @name))) @def.method
(field_declaration declarator: (reference_declarator (function_declarator declarator: (_) @name))) @def.method
(namespace_definition name: (_) @name body: (_) @body) @def.namespace
(alias_declaration name: (type_identifier) @name) @def.type
(concept_definition name: (identifier) @name) @def.type
(template_declaration) @wrap

(base_class_clause [(type_identifier) (qualified_identifier) (template_type)] @inherits)
(call_expression function: [(qualified_identifier) (template_function)] @call)
(new_expression type: (_) @new)
(using_declaration) @using

(declaration declarator: (init_declarator declarator: (_) @var value: (new_expression type: (_) @var.type))) @fact
(for_range_loop type: (_) @var.type declarator: (_) @var right: (_) @var.items) @fact
(field_declaration type: (_) @returns declarator: [
  (function_declarator)
  (pointer_declarator declarator: (function_declarator))
  (reference_declarator (function_declarator))])
(assignment_expression left: [(identifier) (field_expression)] @var right: [
  (new_expression type: (_) @var.type) (call_expression function: (_) @var.call)]) @fact
