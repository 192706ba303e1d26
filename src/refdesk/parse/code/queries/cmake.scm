(function_def (function_command (argument_list . (argument) @name)) (body) @body) @def.function
(macro_def (macro_command (argument_list . (argument) @name)) (body) @body) @def.macro
((normal_command (identifier) @_c (argument_list . (argument) @name)) @def.variable
  (#any-of? @_c "option" "set") (#match? @name "^[a-zA-Z_]"))
((normal_command (identifier) @_c (argument_list . (argument) @name)) @def.target
  (#any-of? @_c "add_library" "add_executable" "add_custom_target"))
(line_comment) @comment
(normal_command (identifier) @call)
(ERROR) @error
