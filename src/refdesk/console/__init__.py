"""The console: web pages that show people what their agents see; a view of the desk, like a toolset."""
