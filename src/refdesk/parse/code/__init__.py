"""Source code: whole functions, methods and types, by tree-sitter.  Grammars load on first use."""
