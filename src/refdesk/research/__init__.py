"""What does the codebase say to a question?  Search finds where to start, the graph where to go."""

from refdesk.research.answer import Answer, Finding
from refdesk.research.research import Focus, research

__all__ = ["Answer", "Finding", "Focus", "research"]
