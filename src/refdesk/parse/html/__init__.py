"""Web pages, converted to Markdown with the lines of their source."""
