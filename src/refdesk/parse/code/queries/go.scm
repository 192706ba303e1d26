; definitions
(function_declaration name: (identifier) @name body: (_)? @body) @def.function
(method_declaration
  receiver: (parameter_list (parameter_declaration type: [
    (type_identifier) @owner
    (generic_type type: (type_identifier) @owner)
    (pointer_type (type_identifier) @owner)
    (pointer_type (generic_type type: (type_identifier) @owner))]))
  name: (field_identifier) @name body: (_)? @body) @def.method
(type_spec name: (type_identifier) @name type: (struct_type (field_declaration_list) @body)) @def.struct
(type_spec name: (type_identifier) @name type: (interface_type "{" @body)) @def.interface
(type_spec name: (type_identifier) @name type: [
  (type_identifier) (qualified_type) (generic_type) (function_type) (map_type) (slice_type) (array_type) (channel_type) (pointer_type)]) @def.type
(type_alias name: (type_identifier) @name) @def.type
(method_elem name: (field_identifier) @name) @def.method
(field_declaration name: (field_identifier) @name) @def.field
(const_spec name: (identifier) @name) @def.constant
(var_spec name: (identifier) @name) @def.variable
(type_declaration "type" . (type_spec)) @wrap
(var_declaration "var" . (var_spec)) @wrap
(const_declaration "const" . (const_spec)) @wrap
(comment) @comment

; mentions
(import_declaration) @imports
(import_spec) @import
(field_declaration !name type: (_) @inherits)
(interface_type (type_elem . [(type_identifier) (qualified_type) (generic_type)] @inherits .))
(call_expression function: [(identifier) (selector_expression)] @call)
(type_conversion_expression type: (generic_type type: (_) @call))
(type_identifier) @type
(qualified_type) @type
(argument_list [(identifier) (selector_expression)] @value)
(keyed_element (_) (literal_element [(identifier) (selector_expression)] @value) .)
(return_statement (expression_list (identifier) @value))
(ERROR) @error

; facts
(parameter_declaration name: (identifier) @var type: (_) @var.type) @fact
(variadic_parameter_declaration name: (identifier) @var type: (_) @var.type) @fact
(field_declaration name: (_) @var type: (_) @var.type) @fact
(var_spec name: (identifier) @var type: (_) @var.type) @fact
(const_spec name: (identifier) @var type: (_) @var.type) @fact
(var_spec name: (identifier) @var value: (expression_list . [
  (call_expression function: (_) @var.call)
  (composite_literal type: (_) @var.type)
  (unary_expression operand: (composite_literal type: (_) @var.type))
  (identifier) @var.value (selector_expression) @var.value] .)) @fact
(short_var_declaration left: (expression_list (identifier) @var) right: (expression_list . [
  (call_expression function: (_) @var.call)
  (type_conversion_expression type: (generic_type type: (_) @var.call))
  (composite_literal type: (_) @var.type)
  (unary_expression operand: (composite_literal type: (_) @var.type))
  (identifier) @var.value (selector_expression) @var.value] .)) @fact
(short_var_declaration left: (expression_list . (identifier) @var) right: (expression_list . (type_assertion_expression type: (_) @var.type) .)) @fact
(short_var_declaration left: (expression_list (identifier) @var) right: (expression_list .
  (call_expression function: (identifier) @_new arguments: (argument_list . (_) @var.type)) .) (#eq? @_new "new")) @fact
(assignment_statement left: (expression_list (identifier) @var) right: (expression_list . [
  (call_expression function: (_) @var.call)
  (composite_literal type: (_) @var.type)
  (unary_expression operand: (composite_literal type: (_) @var.type))
  (identifier) @var.value (selector_expression) @var.value] .)) @fact
(range_clause left: (expression_list (_) . (identifier) @var .) right: [
  (identifier) @var.items (selector_expression) @var.items (composite_literal type: (_) @var.type)]) @fact
(type_switch_statement alias: (expression_list (identifier) @var) (type_case type: (_) @var.type)) @fact
(function_declaration result: (_) @returns)
(method_declaration parameters: (_) @takes)
(method_declaration result: (_) @returns)
(method_elem parameters: (_) @takes)
(method_elem result: (_) @returns)
