"""The vector index, which follows the record."""
