(message (message_name (identifier) @name) (message_body) @body) @def.struct
(enum (enum_name (identifier) @name) (enum_body) @body) @def.enum
(service (service_name (identifier) @name)) @def.interface
(rpc (rpc_name (identifier) @name)) @def.method
(field (identifier) @name) @def.field
(comment) @comment
(import) @import
(message_or_enum_type) @type
(ERROR) @error
