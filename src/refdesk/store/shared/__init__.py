"""A library that many servers share: its record in Postgres, its index in Qdrant."""
