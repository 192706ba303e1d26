(call target: (identifier) @_d (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: [(identifier) @name (call target: (identifier) @name)])])
  (do_block)? @body
  (#any-of? @_d "def" "defp" "defguard" "defguardp" "defdelegate" "defn" "defnp")) @def.function
(call target: (identifier) @_d (arguments . [
    (identifier) @name
    (call target: (identifier) @name)
    (binary_operator left: (call target: (identifier) @name))])
  (do_block)? @body
  (#any-of? @_d "defmacro" "defmacrop")) @def.macro
(call target: (identifier) @_d (arguments . (alias) @name) (do_block) @body (#eq? @_d "defmodule")) @def.module
(call target: (identifier) @_d (arguments . (alias) @name) (do_block) @body (#eq? @_d "defprotocol")) @def.protocol
(call target: (identifier) @_d (arguments . (alias) @conforms (keywords (pair value: (alias) @name))) (do_block) @body (#eq? @_d "defimpl")) @def.impl
(call target: (identifier) @_d (arguments . (string) @name) (do_block) @body (#any-of? @_d "test" "describe")) @def.test
(call target: (identifier) @_d (do_block
  (unary_operator operand: (call target: (identifier) @_m (arguments (string) @doc) (#eq? @_m "moduledoc")))) (#eq? @_d "defmodule"))
(comment) @comment
((unary_operator operator: "@" operand: (call target: (identifier) @_a)) @comment (#any-of? @_a "doc" "typedoc"))
((unary_operator operator: "@" operand: (call target: (identifier) @_a)) @lead (#any-of? @_a "spec" "impl" "tag" "deprecated" "since"))

((call target: (identifier) @_i) @import (#any-of? @_i "alias" "import" "use" "require"))
(unary_operator operator: "@" operand: (call target: (identifier) @_b (arguments (alias) @conforms) (#eq? @_b "behaviour")))
(call target: (identifier) @_b (arguments . (alias) @conforms) (#eq? @_b "use"))
(call target: [(identifier) (dot)] @call (arguments))
(unary_operator operator: "@" operand: (call target: (identifier) @nocall))
(unary_operator operator: "@" operand: (call target: (identifier) @_s (arguments (binary_operator left: [
    (call target: (identifier) @nocall)
    (binary_operator left: (call target: (identifier) @nocall))])))
  (#any-of? @_s "spec" "callback" "macrocallback" "type" "typep" "opaque"))
(struct (alias) @type)
(ERROR) @error
