; definitions
((list_lit . (sym_lit name: (sym_name) @_d) . (sym_lit name: (sym_name) @name)) @def.function
  (#any-of? @_d "defn" "defn-" "defmulti" "defmethod" "deftest" "s/defn" "defn-spec"))
((list_lit . (sym_lit name: (sym_name) @_d) . (sym_lit name: (sym_name) @name)) @def.macro (#eq? @_d "defmacro"))
((list_lit . (sym_lit name: (sym_name) @_d) . (sym_lit name: (sym_name) @name)) @def.type
  (#any-of? @_d "defrecord" "deftype" "definterface"))
((list_lit . (sym_lit name: (sym_name) @_d) . (sym_lit name: (sym_name) @name)) @def.protocol (#eq? @_d "defprotocol"))
((list_lit . (sym_lit name: (sym_name) @_d) . (sym_lit name: (sym_name) @name)) @def.variable
  (#any-of? @_d "def" "defonce"))
(comment) @comment

; mentions
((list_lit . (sym_lit name: (sym_name) @_n)) @import (#eq? @_n "ns"))
(list_lit . (sym_lit name: (sym_name) @call))
(ERROR) @error
