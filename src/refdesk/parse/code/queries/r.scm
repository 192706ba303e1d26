(binary_operator lhs: [(identifier) (string)] @name rhs: (function_definition body: (_) @body)) @def.function
(binary_operator lhs: (identifier) @name rhs: (call function: [(identifier) (namespace_operator)] @_c arguments: (_) @body)
  (#match? @_c "(R6Class|setRefClass|ggproto|new_class)$")) @def.class
(argument name: (identifier) @_p value: (call arguments: (arguments
  (argument name: (identifier) @name value: (function_definition body: (_) @body)) @def.function))
  (#any-of? @_p "public" "private" "active" "methods"))
(call function: (identifier) @_f arguments: (arguments . (argument value: (string (string_content) @name)))
  (#any-of? @_f "setGeneric" "setMethod" "setClass")) @def.function
(call function: (identifier) @_t arguments: (arguments . (argument value: (string (string_content) @name)))
  (#any-of? @_t "test_that" "describe" "it")) @def.test
(program (binary_operator lhs: (identifier) @name) @def.variable)
(comment) @comment
((call function: (identifier) @_i) @import (#any-of? @_i "library" "require" "source"))
(call function: [(identifier) (namespace_operator) (extract_operator)] @call (#not-match? @call "[.]")) ; a dot may be in any name
(ERROR) @error
