(function_definition name: (word) @name body: (_) @body) @def.function
(program (variable_assignment name: (variable_name) @name) @def.variable)
(program (declaration_command (variable_assignment name: (variable_name) @name)) @def.variable)
(comment) @comment

((command name: (command_name (word) @_s)) @import (#any-of? @_s "source" "."))
(command name: (command_name (word) @call))
(ERROR) @error
