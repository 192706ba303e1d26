; definitions
(method name: (_) @name body: (_)? @body) @def.function
(singleton_method name: (_) @name body: (_)? @body) @def.method
(class name: (_) @name body: (_)? @body) @def.class
(module name: (_) @name body: (_)? @body) @def.module
(program (assignment left: (constant) @name) @def.constant)
(body_statement (assignment left: (constant) @name) @def.constant)
(call method: (identifier) @_a arguments: (argument_list (simple_symbol) @name) (#any-of? @_a "attr_reader" "attr_accessor" "attr_writer")) @def.property
(call method: (identifier) @_t arguments: (argument_list . [(string) (constant) (scope_resolution)] @name) block: (_) @body
  (#any-of? @_t "describe" "context" "it" "specify" "scenario" "feature" "test")) @def.test
(comment) @comment

; mentions
(call method: (identifier) @_r (#any-of? @_r "require" "require_relative" "load" "autoload")) @import
(class superclass: (superclass [(constant) (scope_resolution)] @inherits))
(call method: (identifier) @_i arguments: (argument_list [(constant) (scope_resolution)] @conforms) (#any-of? @_i "include" "extend" "prepend"))
(call method: (identifier) @message)
(call receiver: (_) @receiver)
(body_statement (identifier) @send)
(argument_list (identifier) @send)
(assignment right: (identifier) @send)
(conditional condition: (identifier) @send)
(if condition: (identifier) @send)
(unless condition: (identifier) @send)
(if_modifier condition: (identifier) @send)
(unless_modifier condition: (identifier) @send)
(then (identifier) @send)
(return (argument_list (identifier) @send))
(block_body (identifier) @send)
(interpolation (identifier) @send)
(binary (identifier) @send)
(call receiver: [(constant) (scope_resolution)] @type)
(argument_list [(constant) (scope_resolution)] @type)
(rescue (exceptions [(constant) (scope_resolution)] @type))
(ERROR) @error

; facts
(assignment left: [(identifier) (instance_variable)] @var right: [
  (call) @var.value (identifier) @var.value (instance_variable) @var.value
  (binary left: [(identifier) (instance_variable)] @var.value)]) @fact
(assignment left: [(identifier) (instance_variable)] @var
  right: (call receiver: [(constant) (scope_resolution)] @var.type method: (identifier) @_new) (#eq? @_new "new")) @fact
