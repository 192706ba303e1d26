; definitions
(class_definition name: (_) @name body: (_)? @body) @def.class
(object_definition name: (_) @name body: (_)? @body) @def.object
(trait_definition name: (_) @name body: (_)? @body) @def.trait
(enum_definition name: (_) @name body: (_)? @body) @def.enum
(simple_enum_case name: (_) @name) @def.case
(full_enum_case name: (_) @name) @def.case
(given_definition name: (_) @name body: (_)? @body) @def.object
(given_definition !name return_type: (_) @name body: (_)? @body) @def.object
(extension_definition parameters: (parameters . (parameter type: (_) @name)) body: (_)? @body) @def.extension
(function_definition name: (_) @name body: (_)? @body) @def.function
(function_declaration name: (_) @name) @def.function
(val_definition pattern: (identifier) @name) @def.property
(var_definition pattern: (identifier) @name) @def.property
(val_declaration name: (identifier) @name) @def.property
(type_definition name: (_) @name) @def.type
[(comment) (block_comment)] @comment

; mentions
(import_declaration) @import
(extends_clause . type: (_) @inherits)
(extends_clause "with" [(type_identifier) (generic_type) (stable_type_identifier)] @conforms)
(call_expression function: [(identifier) (field_expression) (generic_function)] @call)
(instance_expression . [(type_identifier) (generic_type) (stable_type_identifier)] @new)
(type_identifier) @type
(arguments [(identifier) (field_expression)] @value)
(field_expression value: (identifier) @value)
(annotation name: (_) @type)
(ERROR) @error

; facts
(package_clause name: (_) @package)
(parameter name: (_) @var type: (_) @var.type) @fact
(class_parameter name: (_) @var type: (_) @var.type) @fact
(val_definition pattern: (identifier) @var type: (_) @var.type) @fact
(var_definition pattern: (identifier) @var type: (_) @var.type) @fact
(val_definition pattern: (identifier) @var value: [
  (call_expression function: (_) @var.call) (instance_expression . (_) @var.type)
  (identifier) @var.value (field_expression) @var.value]) @fact
(var_definition pattern: (identifier) @var value: [
  (call_expression function: (_) @var.call) (instance_expression . (_) @var.type)
  (identifier) @var.value (field_expression) @var.value]) @fact
(function_definition return_type: (_) @returns)
(function_declaration return_type: (_) @returns)
