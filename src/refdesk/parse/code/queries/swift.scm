; definitions
(class_declaration declaration_kind: "class" name: (type_identifier) @name body: (_) @body) @def.class
(class_declaration declaration_kind: "struct" name: (type_identifier) @name body: (_) @body) @def.struct
(class_declaration declaration_kind: "enum" name: (type_identifier) @name body: (_) @body) @def.enum
(class_declaration declaration_kind: "actor" name: (type_identifier) @name body: (_) @body) @def.actor
(class_declaration declaration_kind: "extension" name: (_) @name body: (_) @body) @def.extension
(protocol_declaration name: (type_identifier) @name body: (_) @body) @def.protocol
(function_declaration name: [(simple_identifier) (custom_operator)] @name body: (_)? @body) @def.function
(function_declaration name: ["+" "-" "*" "/" "%" "==" "!=" "<" ">" "<=" ">=" "!"] @name body: (_)? @body) @def.function
(protocol_function_declaration name: [(simple_identifier) (custom_operator)] @name) @def.function
(init_declaration "init" @name body: (_)? @body) @def.constructor
(deinit_declaration "deinit" @name body: (_) @body) @def.destructor
(subscript_declaration "subscript" @name (computed_property)? @body) @def.subscript
(property_declaration name: (pattern bound_identifier: (simple_identifier) @name) computed_value: (_)? @body) @def.property
(protocol_property_declaration name: (pattern bound_identifier: (simple_identifier) @name)) @def.property
(enum_entry name: (simple_identifier) @name) @def.case
(typealias_declaration name: (type_identifier) @name) @def.type
(associatedtype_declaration name: (type_identifier) @name) @def.type
(operator_declaration (custom_operator) @name) @def.operator
(macro_declaration (simple_identifier) @name definition: (_)? @body) @def.macro
[(comment) (multiline_comment)] @comment

; mentions
(import_declaration) @import
(inheritance_specifier inherits_from: (_) @base)
(call_expression . (_) @invoke (call_suffix))
(macro_invocation (simple_identifier) @call)
(user_type) @type
(value_argument value: [(simple_identifier) (navigation_expression)] @value)
(navigation_expression target: (simple_identifier) @value)
(ERROR) @error

; facts
(parameter name: (simple_identifier) @var . (parameter_modifiers)? . (_) @var.type) @fact
(property_declaration name: (pattern bound_identifier: (_) @var) (type_annotation (_) @var.type)) @fact
(protocol_property_declaration name: (pattern bound_identifier: (_) @var) (type_annotation (_) @var.type)) @fact
(property_declaration name: (pattern bound_identifier: (_) @var) value: [
  (call_expression . (_) @var.call)
  (as_expression (user_type) @var.type)
  (try_expression) @var.value (await_expression) @var.value
  (simple_identifier) @var.value (navigation_expression) @var.value]) @fact
(if_statement bound_identifier: (_) @var . condition: "=" . (_) @var.value) @fact
(guard_statement bound_identifier: (_) @var . condition: "=" . (_) @var.value) @fact
(for_statement item: (pattern bound_identifier: (_) @var) collection: (_) @var.items) @fact
(assignment target: (_) @var result: [
  (call_expression . (_) @var.call)
  (try_expression) @var.value (await_expression) @var.value
  (simple_identifier) @var.value (navigation_expression) @var.value]) @fact
(function_declaration "->" . (_) @returns)
(protocol_function_declaration "->" . (_) @returns)
(property_declaration (type_annotation (_) @returns) computed_value: (_))
; what a member without a receiver belongs to: `let a: A = .init()`, `self.a = .init()`
(property_declaration (type_annotation (_) @wanted) value: (call_expression . (prefix_expression)))
(assignment target: (_) @wanted result: (call_expression . (prefix_expression)))
