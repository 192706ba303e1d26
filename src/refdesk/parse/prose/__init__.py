"""Documents in words: Markdown, reStructuredText, plain text, and what they share."""
