"""How far the index of a shared library has come, as its record keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from refdesk.model import EmbedderIdentity
from refdesk.store.record.contents import meta, put_meta
from refdesk.store.record.schema import Connection
from refdesk.store.shared import points
from refdesk.store.words.index import VERSION as ANALYSED

# In meta; each apart from the first, which older servers read: which index has no graphs yet, and which one is searched
# until another is whole.
_KEY, BARE, _BEFORE = "index", "index without graphs", "index before"
LOST = "lost "  # begins the generation of an index that is to be made anew
LOOK = """
SELECT coalesce((SELECT max(seq) FROM commits), 0), (SELECT value FROM meta WHERE key = 'index'),
       (SELECT value FROM meta WHERE key = 'embedder'), (SELECT length(numbers) FROM vectors LIMIT 1),
       (SELECT value FROM meta WHERE key = 'index without graphs')
"""


@dataclass(frozen=True, slots=True)
class State:
    """How far the index has come; kept in the record."""

    name: str  # of Qdrant's collection
    generation: str  # what its points are made of
    seq: int  # the last commit that it has
    built: int | None = None  # while it is built: the last chunk that it has

    @property
    def is_later(self) -> bool:
        """Whether a later RefDesk made it, which brings it up to date: else old and new would make it in turns."""
        form = self.generation.partition(" ")[0].split(".")
        return len(form) == 2 and tuple(map(int, form)) > (points.VERSION, ANALYSED)


def state_of(db: Connection) -> State | None:
    """The state that is kept in the record."""
    found = meta(db, _KEY)
    return State(**json.loads(found)) if found else None


def generation_of(identity: EmbedderIdentity | None, length: int | None) -> tuple[str, int]:
    """What points are made of, and the dimensions of their vectors: the model's, else those of a stored one."""
    dimension = identity.dimension if identity else length or 0
    model = f"{identity.name} {identity.version}" if identity else "-"
    return f"{points.VERSION}.{ANALYSED} {model} {dimension}", dimension


def save(db: Connection, state: State) -> None:
    """Keeps it in the record."""
    put_meta(db, _KEY, json.dumps(asdict(state)))


def before(db: Connection) -> State | None:
    """The whole index that is searched while another is made."""
    found = meta(db, _BEFORE)
    return State(**json.loads(found)) if found else None


def save_before(db: Connection, state: State | None) -> None:
    """Keeps it in the record."""
    put_meta(db, _BEFORE, json.dumps(asdict(state)) if state is not None else "")
