; definitions
(fun_decl clause: (function_clause name: (_) @name body: (_) @body)) @def.clause
(module_attribute name: (_) @name) @def.module
(record_decl name: (_) @name) @def.record
(type_alias name: (type_name name: (_) @name)) @def.type
(opaque name: (type_name name: (_) @name)) @def.type
(pp_define lhs: (macro_lhs name: (_) @name)) @def.macro
(comment) @comment
(spec) @lead

; mentions
(pp_include) @import
(pp_include_lib) @import
(import_attribute) @import
(behaviour_attribute name: (_) @conforms)
(call expr: [(atom) (remote)] @call)
(internal_fun fun: (_) @value)
(record_expr name: (record_name name: (_) @type))
(ERROR) @error
