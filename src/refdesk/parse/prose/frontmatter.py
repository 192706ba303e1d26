"""Front matter: the fields at the top of a document, and the chunking strategy that it may ask for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from refdesk.errors import InvalidInput

ChunkBy = Literal["auto", "h1", "h2", "h3", "file"]

# About 6,700 tokens: the default of the tool that introduced the manifest.
DEFAULT_MAX_CHUNK_SIZE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The heading level that starts a section and the size limits in characters; auto is h2 or the next used level."""

    chunk_by: ChunkBy = "auto"
    max_chunk_size: int = DEFAULT_MAX_CHUNK_SIZE
    min_chunk_size: int = 0

    @property
    def level(self) -> int:
        """The deepest heading level that starts a section, 0 for none."""
        return {"file": 0, "h1": 1, "h2": 2, "h3": 3, "auto": 2}[self.chunk_by]


def read_strategy(value: Any, where: str) -> Strategy:
    """The strategy in a manifest or a front matter; raises InvalidInput with the name of a wrong field."""
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


_MAX_LINES = 2_000
_MAX_CHARS = 200_000
_HINT = re.compile(r"<!--\s*+mcp_chunking_hint:\s*+(\{[^{}]{1,1000}\})\s*+-->")
_HIDDEN = frozenset({"metadata", "mcp_metadata", "mcp_strategy", "mcp_chunking_hint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """The block's fields, and the first line of the document (from 0)."""

    body: int = 0
    title: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)  # all scalar values
    facets: Mapping[str, str] = field(default_factory=dict)  # values to filter by
    strategy: Strategy | None = None
    problem: str = ""
    problem_line: int = 1


def read_front_matter(lines: list[str]) -> FrontMatter:
    """The fields between the fences at the top; an unreadable block sets `problem`."""
    end, kind = _extent(lines)
    if not end:
        return FrontMatter()
    text = "\n".join(line.rstrip("\r") for line in lines[1 : end - 1])
    try:
        data = _load(text, kind)
    except ValueError as error:
        line = getattr(error, "line", 0) + 2
        return FrontMatter(body=end, problem=f"front matter is not valid {kind}: {error}", problem_line=line)
    return _fields(data, end)


def chunking_hint(text: str) -> str:
    """The level that an HTML comment asks for, or ""."""
    found = _HINT.search(text)
    if not found:
        return ""
    try:
        return read_chunk_by(json.loads(found[1]).get("chunk_by"), "mcp_chunking_hint.chunk_by")
    except (ValueError, InvalidInput):
        return ""


class _Broken(ValueError):
    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


def _extent(lines: list[str]) -> tuple[int, str]:
    """The line after the block, 0 for none, and its language."""
    fence = lines[0].rstrip() if lines else ""
    kind = {"---": "YAML", "---yaml": "YAML", "+++": "TOML"}.get(fence)
    if not kind:
        return 0, ""
    closing = ("---", "...") if kind == "YAML" else ("+++",)
    for at in range(1, min(len(lines), _MAX_LINES)):
        if lines[at].rstrip() in closing:
            # A horizontal rule at the top of a page is no fence: text follows it, not fields.
            return (at + 1, kind) if _looks_like_fields(lines[1:at], kind) else (0, "")
    return 0, ""


def _looks_like_fields(lines: list[str], kind: str) -> bool:
    mark = ":" if kind == "YAML" else "="
    filled = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return not filled or any(re.match(rf"\s*[\w\"'.$-][^{mark}]*{mark}(\s|$)", line) for line in filled[:3])


def _load(text: str, kind: str) -> Any:
    if len(text) > _MAX_CHARS:
        raise _Broken("too large", 0)
    if kind == "TOML":
        import tomllib

        return _toml_strings(tomllib.loads(text))
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        # The base loader creates strings, lists and maps only: no objects, and 1.10 stays "1.10".
        return yaml.load(text, Loader=loader)  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _Broken(str(getattr(error, "problem", "") or error), mark.line if mark else 0) from error
    except (RecursionError, ValueError) as error:
        raise _Broken("too deeply nested", 0) from error


def _toml_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _toml_strings(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_toml_strings(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fields(data: Any, end: int) -> FrontMatter:
    if data is None or data == "":
        return FrontMatter(body=end)
    if not isinstance(data, dict):
        return FrontMatter(body=end, problem="front matter is not a map of keys to values")
    fields = {str(key).strip(): _one(value) for key, value in data.items() if key not in _HIDDEN}
    facets: dict[str, str] = {}
    problem = ""
    for name in ("metadata", "mcp_metadata"):
        given = data.get(name)
        if isinstance(given, dict):
            facets |= {str(key).strip(): _one(value) for key, value in given.items()}
        elif given:
            problem = f"{name} in the front matter must be a map of keys to values"
    strategy = None
    try:
        if data.get("mcp_strategy"):
            strategy = read_strategy(data["mcp_strategy"], "mcp_strategy")
        elif data.get("mcp_chunking_hint"):
            strategy = Strategy(chunk_by=read_chunk_by(data["mcp_chunking_hint"], "mcp_chunking_hint"))
    except InvalidInput as error:
        problem = str(error)
    facets = {key: value for key, value in facets.items() if key and value}
    kept = {key: value for key, value in fields.items() if key and value}
    title = kept.get("title", "")
    return FrontMatter(body=end, title=title, fields=kept | facets, facets=facets, strategy=strategy, problem=problem)


def _one(value: Any) -> str:
    """A scalar as written, a list of scalars joined by commas, "" for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(one.strip() for one in value[:100])
    return ""
