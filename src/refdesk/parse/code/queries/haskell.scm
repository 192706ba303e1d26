(function name: (_) @name) @def.function
(bind name: (_) @name) @def.function
(data_type name: (_) @name) @def.type
(newtype name: (_) @name) @def.type
(type_synomym name: (_) @name) @def.type
(class name: (_) @name) @def.interface
(class_declarations (signature name: (_) @name) @def.function)
(instance name: (_) @conforms patterns: (_) @name) @def.impl
(declarations (signature) @lead)
[(comment) (haddock)] @comment

(import) @import
(apply function: (variable) @call)
(signature type: (_ (name) @type))
(ERROR) @error
