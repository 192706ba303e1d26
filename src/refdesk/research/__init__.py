"""Answers questions about a codebase: search finds where to start, the graph is walked from there."""

from refdesk.research.answer import Answer, Finding
from refdesk.research.research import Focus, research

__all__ = ["Answer", "Finding", "Focus", "research"]
