"""How far the index of a shared library has come, as its record keeps it, and which index is searched."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from refdesk.model import EmbedderIdentity
from refdesk.store.record.contents import meta, put_meta
from refdesk.store.record.schema import Connection
from refdesk.store.shared import points
from refdesk.store.words.index import VERSION as ANALYSED

if TYPE_CHECKING:
    from refdesk.store.shared.dialect import Translating

_log = logging.getLogger(__name__)

# In meta; each apart from the first, which older servers read: which index has no graphs yet, which one is searched
# until another is whole, and which one is to be made anew.
_KEY, BARE, _BEFORE, _UNSOUND = "index", "index without graphs", "index before", "index to be made anew"
_HEAD = "index head"
_LOOK = f"""
SELECT coalesce((SELECT max(seq) FROM commits), 0), (SELECT value FROM meta WHERE key = '{_KEY}'),
       (SELECT value FROM meta WHERE key = 'embedder'), (SELECT length(numbers) FROM vectors LIMIT 1),
       (SELECT value FROM meta WHERE key = '{BARE}'), (SELECT value FROM meta WHERE key = '{_BEFORE}'),
       (SELECT value FROM meta WHERE key = '{_UNSOUND}')
"""  # noqa: S608 - constants
_COUNTED_S = 60.0


@dataclass(frozen=True, slots=True)
class State:
    """How far an index has come; kept in the record."""

    name: str  # of Qdrant's collection
    generation: str  # what its points are made of
    seq: int  # the last commit that it has
    built: int | None = None  # while it is built: the last chunk that it has

    @property
    def is_later(self) -> bool:
        """Whether a later RefDesk made it, which brings it up to date: else old and new would make it in turns."""
        form = self.generation.partition(" ")[0].split(".")
        return all(map(str.isdecimal, form)) and tuple(map(int, form)) > (points.VERSION, ANALYSED)

    @property
    def is_readable(self) -> bool:
        """Whether its terms are ours."""
        return self.generation.partition(" ")[0] == _form()


@dataclass(frozen=True, slots=True)
class Searched:
    """The index that a query asks."""

    name: str
    seq: int
    dimension: int  # of its vectors; 0 where they are of another model
    part: int | None = None  # if some passages can't be found in it: the last chunk that it has, or -1


@dataclass(frozen=True, slots=True)
class Seen:
    """What the record says of its index at one moment."""

    seq: int  # the record's last commit
    generation: str  # what its index is to be made of
    dimension: int
    state: State | None  # the index that follows the log
    before: State | None  # a whole one, from before that one was begun
    bare: str  # the name of the index without graphs
    unsound: str  # the name of the one that is to be made anew

    @property
    def is_later(self) -> bool:
        """Whether the index is brought up to date by a later RefDesk alone."""
        return self.state is not None and self.state.is_later

    @property
    def is_current(self) -> bool:
        """Whether the index is of the kind that is wanted, and need not be made anew."""
        state = self.state
        return state is not None and state.generation == self.generation and state.name != self.unsound

    def has(self, seq: int) -> bool:
        """Whether the index is whole and has the commit."""
        return self.is_current and self.state is not None and self.state.built is None and self.state.seq >= seq

    def searched(self, missing: str) -> Searched | None:
        """The best index to search of those that the nodes know: a whole one, if there is one."""
        known = [
            one for one in (self.state, self.before) if one is not None and one.is_readable and one.name != missing
        ]
        if not known:
            return None
        found = next((one for one in known if one.built is None), known[0])
        is_alike = found.generation == self.generation
        is_all = found is self.state and found.built is None and self.is_current
        part = None if is_all else -1 if found.built is None else found.built
        return Searched(found.name, found.seq, self.dimension if is_alike else 0, part)


class Counts:
    """Caches how many passages have a term, for one state of the index."""

    def __init__(self) -> None:
        self.too_many_until = 0.0  # to be searched without the index
        self._last: tuple[Searched | None, float, dict[tuple[Any, ...], int]] = (None, 0.0, {})

    def of(self, searched: Searched) -> dict[tuple[Any, ...], int]:
        """The counts that hold for this state; not for long, since a node may lack what others have."""
        known_at, began, known = self._last
        if searched != known_at or len(known) > 100_000 or time.monotonic() > began + _COUNTED_S:
            known = {}
            self._last = searched, time.monotonic(), known
        return known


def _form() -> str:
    return f"{points.VERSION}.{ANALYSED}"


def see(db: Connection) -> Seen:
    """What the record says now."""
    seq, kept, embedder, length, bare, before, unsound = db.execute(_LOOK).fetchone()
    identity = EmbedderIdentity(*json.loads(embedder)) if embedder else None
    dimension = identity.dimension if identity else length or 0
    model = f"{identity.name} {identity.version}" if identity else "-"
    return Seen(
        seq=seq, generation=f"{_form()} {model} {dimension}", dimension=dimension,
        state=_read(kept), before=_read(before), bare=bare or "", unsound=unsound or "",
    )  # fmt: skip


def _read(kept: str | None) -> State | None:
    return State(**json.loads(kept)) if kept else None


def state_of(db: Connection) -> State | None:
    """The state of the index that follows the log."""
    return _read(meta(db, _KEY))


def save(db: Connection, state: State, head: int = -1) -> None:
    """Keeps it in the record, with the commit that the index names, if it names a new one."""
    put_meta(db, _KEY, json.dumps(asdict(state)))
    if head >= 0:
        put_meta(db, _HEAD, f"{state.name} {head}")


def head_of(db: Connection, state: State) -> int:
    """The commit that the index named when it was saved last; -1 if that is not known."""
    name, _, seq = (meta(db, _HEAD) or "").partition(" ")
    return int(seq) if name == state.name else -1


def save_before(db: Connection, state: State | None) -> None:
    """Keeps which whole index is searched until another is."""
    put_meta(db, _BEFORE, json.dumps(asdict(state)) if state is not None else "")


def condemn(db: Connection, name: str = "") -> None:
    """Has the index made anew, or the one of that name; noted where nobody who follows writes over it."""
    state = state_of(db)
    put_meta(db, _UNSOUND, name or (state.name if state is not None else ""))


# Where the record and its index are: a record that was copied with its database leaves the index to the other, and one
# index is not made in turns by servers that name different nodes.

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


def left_index(db: Connection) -> str:
    """The index of the database that this one was copied from, if this was copied."""
    return meta(db, _LEFT) or ""


def made_elsewhere(db: Connection, nodes: Sequence[str]) -> str:
    """The nodes that have the index, if none of these is among them."""
    known = meta(db, _NODES) or ""
    return "" if not known or set(known.split(",")) & set(nodes) else known


def note_nodes(db: Connection, nodes: Sequence[str]) -> None:
    """Keeps that these have the index."""
    if meta(db, _NODES) != ",".join(nodes):
        put_meta(db, _NODES, ",".join(nodes))
