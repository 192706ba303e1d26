"""Resolves the names in filters to rows of the record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from refdesk.model import Filters, metadata_text
from refdesk.store.record.schema import PLAYBOOKS, Connection
from refdesk.text.globs import path_filter


@dataclass(frozen=True, slots=True)
class Scope:
    """Filters, with the rows of the record that they mean; None does not restrict."""

    filters: Filters
    collections: tuple[int, ...] | None
    within: frozenset[int] | None  # documents that are named and whose path matches
    has_unembedded: bool = False  # passages without a vector in those collections


def resolve(db: Connection, filters: Filters) -> Scope:
    """The scope of the filters in the record as it is now."""
    collections = None
    allowed: list[frozenset[int]] = []
    if filters.collections:
        collections = _rows(db, "SELECT id FROM collections WHERE name = ?", filters.collections)
        others = {row for (row,) in db.execute("SELECT id FROM collections")} - set(collections)
        held = "SELECT 1 FROM documents WHERE collection = ? LIMIT 1"
        if collections and not any(db.execute(held, (row,)).fetchone() for row in others):
            # A filter that leaves nothing out would double a query's time.
            filters, collections = replace(filters, collections=()), None
    elif db.execute("SELECT 1 FROM playbooks LIMIT 1").fetchone():  # they are found by those who name them
        collections = tuple(row for (row,) in db.execute("SELECT id FROM collections WHERE kind != ?", (PLAYBOOKS,)))
    if filters.documents:
        allowed.append(frozenset(_rows(db, "SELECT id FROM documents WHERE ulid = ?", filters.documents)))
    if filters.paths:
        allowed.append(_below(db, filters.paths, collections))
    within = frozenset.intersection(*allowed) if allowed else None
    return Scope(filters, collections, within, _has_unembedded(db, collections))


def _has_unembedded(db: Connection, collections: tuple[int, ...] | None) -> bool:
    if db.execute("SELECT 1 FROM chunks WHERE vector IS NULL LIMIT 1").fetchone() is None:
        return False
    within = (
        "SELECT 1 FROM chunks c JOIN documents d ON d.id = c.document"
        " WHERE c.vector IS NULL AND d.collection = ? LIMIT 1"
    )
    return collections is None or any(db.execute(within, (row,)).fetchone() is not None for row in collections)


def _rows(db: Connection, query: str, names: Iterable[str]) -> tuple[int, ...]:
    return tuple(row[0] for name in dict.fromkeys(names) for row in db.execute(query, (name,)))


def _below(db: Connection, paths: tuple[str, ...], collections: tuple[int, ...] | None) -> frozenset[int]:
    if collections is None:
        found = db.execute("SELECT id, path FROM documents").fetchall()
    else:
        within = "SELECT id, path FROM documents WHERE collection = ?"
        found = [row for collection in collections for row in db.execute(within, (collection,))]
    patterns = [path_filter(glob).fullmatch for glob in paths]
    return frozenset(row for row, path in found if any(matches(path) for matches in patterns))


def satisfies(metadata: Mapping[str, Any], wanted: Collection[tuple[str, tuple[str, ...]]]) -> bool:
    """Whether each key has one of the values accepted for it."""
    return all(key in metadata and metadata_text(metadata[key]) in values for key, values in wanted)
