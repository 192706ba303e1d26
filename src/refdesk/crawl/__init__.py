"""Crawls web sites: politely, incrementally and resumably."""
