"""Resolves the names in filters to rows of the record."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from refdesk.model import Filters, metadata_text
from refdesk.store.record.schema import PLAYBOOKS
from refdesk.system.lazy import lazy
from refdesk.text.globs import path_filter


@dataclass(frozen=True)
class Scope:
    """Filters, with the rows that their collections, documents and paths mean; None does not restrict."""

    filters: Filters
    collections: tuple[int, ...] | None
    documents: tuple[int, ...] | None
    below: tuple[int, ...] | None  # documents whose path matches
    has_unembedded: bool = False  # passages without a vector in those collections

    @lazy
    def within(self) -> frozenset[int] | None:
        """The documents that are allowed, where documents or paths are named."""
        named = [frozenset(rows) for rows in (self.documents, self.below) if rows is not None]
        return frozenset.intersection(*named) if named else None


def resolve(db: sqlite3.Connection, filters: Filters) -> Scope:
    """The scope of the filters in the record as it is now."""
    collections = documents = below = None
    if filters.collections:
        collections = _rows(db, "SELECT id FROM collections WHERE name = ?", filters.collections)
    elif db.execute("SELECT 1 FROM playbooks LIMIT 1").fetchone():  # they are found by those who name them
        collections = tuple(row for (row,) in db.execute("SELECT id FROM collections WHERE kind != ?", (PLAYBOOKS,)))
    if filters.documents:
        documents = _rows(db, "SELECT id FROM documents WHERE ulid = ?", filters.documents)
    if filters.paths:
        below = _below(db, filters.paths, collections)
    return Scope(filters, collections, documents, below, _has_unembedded(db, collections))


def _has_unembedded(db: sqlite3.Connection, collections: tuple[int, ...] | None) -> bool:
    if db.execute("SELECT 1 FROM chunks WHERE vector IS NULL LIMIT 1").fetchone() is None:
        return False
    within = (
        "SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document"
        " WHERE c.vector IS NULL AND d.collection = ? LIMIT 1"
    )
    return collections is None or any(db.execute(within, (row,)).fetchone() is not None for row in collections)


def _rows(db: sqlite3.Connection, query: str, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(row[0] for name in dict.fromkeys(names) for row in db.execute(query, (name,)))


def _below(db: sqlite3.Connection, paths: tuple[str, ...], collections: tuple[int, ...] | None) -> tuple[int, ...]:
    if collections is None:
        found = db.execute("SELECT id, path FROM documents").fetchall()
    else:
        within = "SELECT id, path FROM documents WHERE collection = ?"
        found = [row for collection in collections for row in db.execute(within, (collection,))]
    patterns = [path_filter(glob).fullmatch for glob in paths]
    return tuple(row for row, path in found if any(matches(path) for matches in patterns))


def satisfies(metadata: Mapping[str, Any], wanted: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """Whether each key has one of the values accepted for it."""
    return all(key in metadata and metadata_text(metadata[key]) in values for key, values in wanted)
