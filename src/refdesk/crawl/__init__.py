"""Which pages does a site have?  Found politely, fetched once, kept fresh, and stopped and resumed at will."""
