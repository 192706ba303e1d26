(rule (targets . (word) @name) (#not-match? @name "^[.]")) @def.target
(variable_assignment name: (word) @name) @def.variable
(define_directive name: (word) @name) @def.macro
(comment) @comment
((rule (targets . (word) @_p)) @lead (#match? @_p "^[.]PHONY"))
(ERROR) @error
