(Decl (FnProto function: (IDENTIFIER) @name) (Block)? @body) @def.function
(Decl (VarDecl variable_type_function: (IDENTIFIER) @name (ErrorUnionExpr (SuffixExpr (ContainerDecl))))) @def.struct
(Decl (VarDecl variable_type_function: (IDENTIFIER) @name)) @def.constant
[(line_comment) (doc_comment) (container_doc_comment)] @comment
(ERROR) @error
