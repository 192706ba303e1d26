"""A documentation site with everything that makes crawling hard, built and served on loopback."""
