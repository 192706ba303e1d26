"""RefDesk's precise mode."""

from refdesk_precise.model import PreciseModel

__all__ = ["PreciseModel"]
