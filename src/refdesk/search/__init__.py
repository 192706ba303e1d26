"""The read path: a Query in, a Page of Hits out."""
