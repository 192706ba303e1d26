"""The store: a record (SQLite) and two followers, full text (tantivy) and vectors (turbovec)."""
