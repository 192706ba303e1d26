"""What is inside?  One parser per kind of content, behind one door."""

from refdesk.parse.parser import AnyParser

__all__ = ["AnyParser"]
