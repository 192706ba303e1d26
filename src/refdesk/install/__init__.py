"""Adds RefDesk to the settings of editors and other MCP clients."""
