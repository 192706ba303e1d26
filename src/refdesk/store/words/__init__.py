"""The full-text index, which follows the record."""
