"""The operating system: files opened and replaced safely, the memory limit, retries."""
