(create_table (object_reference name: (identifier) @name)) @def.table
(create_view (object_reference name: (identifier) @name) (create_query) @body) @def.view
(create_materialized_view (object_reference name: (identifier) @name)) @def.view
(create_function (keyword_function) . (object_reference name: (identifier) @name) (function_body) @body) @def.function
(create_trigger (keyword_trigger) . (object_reference name: (identifier) @name)) @def.trigger
(create_type (object_reference name: (identifier) @name)) @def.type
(create_index column: (identifier) @name) @def.index
(create_sequence (object_reference name: (identifier) @name)) @def.sequence
(create_schema (identifier) @name) @def.schema
(column_definition name: (identifier) @name) @def.field
(statement) @wrap
[(comment) (marginalia)] @comment

(invocation (object_reference) @call)
(create_trigger (keyword_function) (object_reference) @call)
(relation (object_reference) @type)
(column_definition (keyword_references) (object_reference) @type)
(create_index (object_reference) @type)
(create_trigger (keyword_on) (object_reference) @type)
(insert (object_reference) @type)
(alter_table (object_reference) @type)
(ERROR) @error
