"""Where a record and its index are: a record that was copied with its database leaves the index to the other, and one
index is not made in turns by servers that name different nodes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence

from refdesk.store.record.contents import meta, put_meta
from refdesk.store.record.schema import Connection
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.state import condemn, state_of

_log = logging.getLogger(__name__)

_DATABASE, _NODES, _LEFT = "database", "index nodes", "index left"  # in meta
_IDENTITY = """
SELECT (SELECT system_identifier FROM pg_control_system()) || ' ' || oid FROM pg_database
WHERE datname = current_database()
"""


def settle(db: Translating) -> None:
    """Gives a record whose database is a copy another name, so that it gets an index of its own.

    Until that is whole the other's is searched, which it must neither write to nor remove.
    """
    from psycopg.errors import InsufficientPrivilege

    try:
        identity = str(db.execute(_IDENTITY).fetchone()[0])
    except InsufficientPrivilege:  # whether it is a copy can't be known
        return
    known = meta(db, _DATABASE)
    if known == identity:
        return
    if known:
        put_meta(db, "library", secrets.token_hex(8))
        if (state := state_of(db)) is not None:
            _log.warning(
                "the record's database is a copy or was moved: it gets an index of its own beside %s", state.name
            )
            put_meta(db, _LEFT, state.name)
            condemn(db)
    put_meta(db, _DATABASE, identity)


def left(db: Connection) -> str:
    """The index of the database that this one was copied from, if this was copied."""
    return meta(db, _LEFT) or ""


def elsewhere(db: Connection, nodes: Sequence[str]) -> str:
    """The nodes that have the index, if none of these is among them."""
    known = meta(db, _NODES) or ""
    return "" if not known or set(known.split(",")) & set(nodes) else known


def note(db: Connection, nodes: Sequence[str]) -> None:
    """Keeps that these have the index."""
    if meta(db, _NODES) != ",".join(nodes):
        put_meta(db, _NODES, ",".join(nodes))
