"""The record: SQLite tables and the change log."""
