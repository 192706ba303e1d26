"""Where is it kept?  A record (SQLite) and two followers of it: full text (tantivy) and vectors (turbovec)."""
