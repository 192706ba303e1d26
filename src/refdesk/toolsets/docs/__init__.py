"""The docs contract."""
