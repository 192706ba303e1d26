"""The console: pages on which people see what their agents see, a view on the desk as a toolset is."""
