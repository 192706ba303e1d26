"""Reads the states of a collection's files by their paths."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from refdesk.store.record import rows
from refdesk.store.record.schema import Connection

# ruff: noqa: S608 - statements are put together from constants; values are bound


_HOME = "collection = (SELECT id FROM collections WHERE name = ?)"
_LAST = "\U0010ffff"  # no path comes after it


class Part(NamedTuple):
    """Some of a collection's files."""

    after: tuple[str, int]  # which path and row
    condition: str
    value: str
    has: Callable[[str], bool]  # whether a path that was found is one of them


def parts(db: Connection, name: str, paths: Sequence[str] | None, indexed: int | None) -> Iterator[Part]:
    """The files at and below the given paths, or all; asking for each path by itself takes Postgres .5 ms.

    So many characters of a path are in the record's index.
    """
    by = _by("path", indexed)
    up_to = f"{by} <= {_by('?', indexed)}"
    if paths is None:
        yield Part(("", -1), up_to, _LAST, lambda path: True)
        return
    named = list(map(rows.storable, paths))
    wanted = json.dumps([path[:indexed] for path in named])
    yield Part(("", -1), f"{by} IN (SELECT value FROM json_each(?))", wanted, set(named).__contains__)
    first, after = (_by(f"value || '{character}'", indexed) for character in "/0")  # which follows '/'
    # Of EXISTS Postgres may make a join, which reads all files.
    below = f"SELECT 1 FROM documents WHERE {_HOME} AND {by} >= {first} AND {by} <= {after} LIMIT 1"
    found = db.execute(f"SELECT value FROM json_each(?) WHERE ({below}) = 1", (json.dumps(named), name)).fetchall()
    for (folder,) in found:
        start = f"{folder}/"
        yield Part((start, -1), up_to, start + _LAST, lambda path, start=start: path.startswith(start))  # type: ignore[misc]


def file_states(db: Connection, name: str, part: Part, limit: int, indexed: int | None) -> list[Any]:
    """A page of a part of the collection's files: the path, what makes a FileState, and the row."""
    by = _by("path", indexed)
    found = db.execute(
        "SELECT path, ulid, size, modified_ns, content_hash, stamp, id FROM documents"
        f" WHERE {_HOME} AND ({by}, id) > ({_by('?', indexed)}, ?) AND {part.condition} ORDER BY {by}, id LIMIT ?",
        (name, *part.after, part.value, limit),
    )
    return found.fetchall()


def _by(path: str, indexed: int | None) -> str:
    return path if indexed is None else f"substr({path}, 1, {indexed})"
