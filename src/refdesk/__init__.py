"""RefDesk: a reference desk for AI agents."""

__version__ = "0.1.0"
