; definitions
(class_declaration "class" (type_identifier) @name [(class_body) (enum_class_body)]? @body) @def.class
(class_declaration "interface" (type_identifier) @name (class_body)? @body) @def.interface
(class_declaration "enum" (type_identifier) @name (enum_class_body)? @body) @def.enum
(object_declaration (type_identifier) @name (class_body)? @body) @def.object
(companion_object "companion" @name (class_body)? @body) @def.object
(function_declaration (simple_identifier) @name (function_body)? @body) @def.function
(function_declaration receiver: (receiver_type) @owner)
(secondary_constructor "constructor" @name) @def.constructor
(anonymous_initializer "init" @name) @def.constructor
(property_declaration (variable_declaration (simple_identifier) @name)) @def.property
(class_parameter (binding_pattern_kind) (simple_identifier) @name) @def.property
(type_alias (type_identifier) @name) @def.type
(enum_entry (simple_identifier) @name) @def.case
[(line_comment) (multiline_comment)] @comment

; mentions
(import_header) @import
(delegation_specifier (constructor_invocation (user_type) @inherits))
(delegation_specifier (user_type) @conforms)
(delegation_specifier (explicit_delegation (user_type) @conforms))
(call_expression . (_) @invoke (call_suffix))
(callable_reference (simple_identifier) @value)
(user_type) @type
(value_argument (simple_identifier) @value)
(navigation_expression . (simple_identifier) @value)
(ERROR) @error

; facts
(package_header (identifier) @package)
(parameter . (simple_identifier) @var [(user_type) (nullable_type)] @var.type) @fact
(class_parameter (simple_identifier) @var [(user_type) (nullable_type)] @var.type) @fact
(lambda_parameters (variable_declaration (simple_identifier) @var [(user_type) (nullable_type)] @var.type) @fact)
(property_declaration (variable_declaration (simple_identifier) @var [(user_type) (nullable_type)] @var.type)) @fact
(property_declaration (variable_declaration (simple_identifier) @var) [
  (call_expression . (_) @var.call) (simple_identifier) @var.value (navigation_expression) @var.value]) @fact
(assignment . (directly_assignable_expression) @var [
  (call_expression . (_) @var.call) (simple_identifier) @var.value (navigation_expression) @var.value]) @fact
(for_statement (variable_declaration (simple_identifier) @var) . (_) @var.items) @fact
(function_declaration (function_value_parameters) . [(user_type) (nullable_type)] @returns)
(function_declaration receiver: (receiver_type) @extends)
[(platform_modifier) (visibility_modifier)] @modifier
; the receiver of a lambda that comes last among the parameters: `fun build(block: Builder.() -> Unit)`
(function_value_parameters (parameter (function_type receiver: (receiver_type) @block)) .)
(function_value_parameters (parameter (nullable_type (parenthesized_type (function_type receiver: (receiver_type) @block)))) . (null_literal) .)
(function_value_parameters (parameter (nullable_type (parenthesized_type (function_type receiver: (receiver_type) @block)))) .)
(primary_constructor (class_parameter (function_type receiver: (receiver_type) @block)) .)
(type_parameter (type_identifier) @generic)
(call_suffix (annotated_lambda) @lambda)
