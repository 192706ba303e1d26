"""The rag contract."""
