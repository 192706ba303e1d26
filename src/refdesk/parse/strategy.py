"""How does a corpus want its documents cut?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refdesk.errors import InvalidInput

ChunkBy = Literal["auto", "h1", "h2", "h3", "file"]

# About 6,700 tokens: what the tool that introduced the manifest takes when none is given.
DEFAULT_MAX_CHUNK_SIZE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """Where sections begin and how many characters they may have; auto is h2, or the next level in use."""

    chunk_by: ChunkBy = "auto"
    max_chunk_size: int = DEFAULT_MAX_CHUNK_SIZE
    min_chunk_size: int = 0

    @property
    def level(self) -> int:
        """The deepest heading level that begins a section, 0 for none."""
        return {"file": 0, "h1": 1, "h2": 2, "h3": 3, "auto": 2}[self.chunk_by]


def read_strategy(value: Any, where: str) -> Strategy:
    """The strategy a manifest or a front matter writes down; InvalidInput names the field that is wrong."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where} must be an object.", 'Write for example {"chunk_by": "h2"}.')
    chunk_by = read_chunk_by(value.get("chunk_by", "h2"), f"{where}.chunk_by")
    return Strategy(
        chunk_by=chunk_by,
        max_chunk_size=_positive(value.get("max_chunk_size"), f"{where}.max_chunk_size") or DEFAULT_MAX_CHUNK_SIZE,
        min_chunk_size=_positive(value.get("min_chunk_size"), f"{where}.min_chunk_size"),
    )


def read_chunk_by(value: Any, where: str) -> ChunkBy:
    """One of the four levels."""
    if value not in ("h1", "h2", "h3", "file"):
        raise InvalidInput(f"{where} is {value!r}.", "It must be one of: h1, h2, h3, file.")
    level: ChunkBy = value
    assert level in get_args(ChunkBy)
    return level


def _positive(value: Any, where: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidInput(f"{where} is {value!r}.", "It must be a positive integer, in characters.")
    return value
