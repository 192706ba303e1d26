"""Tests on Postgres and Qdrant."""
