"""MCP clients that speak raw messages, so that tests see what is on the wire."""
