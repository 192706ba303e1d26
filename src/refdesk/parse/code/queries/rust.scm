; definitions
(function_item name: (identifier) @name body: (_) @body) @def.function
(function_signature_item name: (identifier) @name) @def.function
(struct_item name: (type_identifier) @name body: (field_declaration_list)? @body) @def.struct
(union_item name: (type_identifier) @name body: (_) @body) @def.union
(enum_item name: (type_identifier) @name body: (_) @body) @def.enum
(enum_variant name: (identifier) @name) @def.case
(field_declaration name: (field_identifier) @name) @def.field
(trait_item name: (type_identifier) @name body: (_) @body) @def.trait
(impl_item type: (_) @name body: (_) @body) @def.impl
(mod_item name: (identifier) @name body: (_) @body) @def.module
(macro_definition name: (identifier) @name ["{" "(" "["] @body) @def.macro
(type_item name: (type_identifier) @name) @def.type
(associated_type name: (type_identifier) @name) @def.type
(const_item name: (identifier) @name) @def.constant
(static_item name: (identifier) @name) @def.constant
[(line_comment) (block_comment)] @comment
(attribute_item) @lead

; mentions
(use_declaration) @import
(extern_crate_declaration) @import
(impl_item trait: (_) @conforms)
(trait_bounds [(type_identifier) (scoped_type_identifier) (generic_type)] @type)
(trait_item bounds: (trait_bounds [(type_identifier) (scoped_type_identifier) (generic_type)] @inherits))
(call_expression function: [(identifier) (field_expression) (scoped_identifier) (generic_function)] @call)
(macro_invocation macro: (_) @call)
(token_tree (identifier) @bare . (token_tree))
(struct_expression name: (_) @type)
(type_identifier) @type
(scoped_type_identifier) @type
(arguments [(identifier) (scoped_identifier)] @value)
(scoped_identifier path: (identifier) @value)
(ERROR) @error

; facts
(parameter pattern: (identifier) @var type: (_) @var.type) @fact
(field_declaration name: (_) @var type: (_) @var.type) @fact
(const_item name: (_) @var type: (_) @var.type) @fact
(static_item name: (_) @var type: (_) @var.type) @fact
(let_declaration pattern: (identifier) @var type: (_) @var.type) @fact
(let_declaration pattern: (identifier) @var value: [
  (call_expression function: (_) @var.call)
  (try_expression (call_expression function: (_) @var.call))
  (await_expression (call_expression function: (_) @var.call))
  (struct_expression name: (_) @var.type)
  (reference_expression value: [(identifier) (field_expression)] @var.value)
  (identifier) @var.value (field_expression) @var.value]) @fact
(for_expression pattern: (identifier) @var value: (_) @var.items) @fact
(function_item return_type: (_) @returns)
(function_signature_item return_type: (_) @returns)
