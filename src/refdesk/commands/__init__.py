"""The commands, one module per group, imported when used."""
