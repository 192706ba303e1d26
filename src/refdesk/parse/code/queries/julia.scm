(module_definition name: (identifier) @name) @def.module
(struct_definition (type_head . (_) @name)) @def.struct
(function_definition (signature (call_expression . (_) @name))) @def.function
(macro_definition (signature (call_expression . (_) @name))) @def.macro
(assignment . (call_expression . (identifier) @name)) @def.function
(const_statement (assignment . (identifier) @name)) @def.constant
[(line_comment) (block_comment)] @comment
[(using_statement) (import_statement)] @import
(call_expression . [(identifier) (field_expression)] @call)
(ERROR) @error
