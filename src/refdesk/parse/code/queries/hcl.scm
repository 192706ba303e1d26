(config_file (body (block (identifier) @_k . (string_lit (template_literal) @name) (body) @body) @def.variable
  (#any-of? @_k "variable" "output")))
(config_file (body (block (identifier) @_k . (string_lit (template_literal) @name) . (block_start) (body) @body) @def.resource
  (#not-match? @_k "^(variable|output)$")))
(config_file (body (block . (identifier) . (string_lit (template_literal) @owner) . (string_lit (template_literal) @name)
  (body) @body) @def.resource))
(block (identifier) @_k (body (attribute (identifier) @name) @def.variable) (#eq? @_k "locals"))
(config_file (body (attribute (identifier) @name) @def.variable))
(comment) @comment

((variable_expr (identifier) @_v) . (get_attr (identifier) @type) (#any-of? @_v "var" "local" "module"))
(ERROR) @error
