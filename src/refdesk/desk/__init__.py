"""The facade: one library with everything that reads and writes it."""
