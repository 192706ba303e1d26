"""Parsers: one per kind of content, behind `AnyParser`, run in worker processes."""

from refdesk.parse.parser import AnyParser

__all__ = ["AnyParser"]
