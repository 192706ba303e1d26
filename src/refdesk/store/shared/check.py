"""What doctor checks in a shared library, and repairs."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from refdesk.errors import StoreError
from refdesk.model import Finding
from refdesk.store.record import contents
from refdesk.store.record.batches import BOTH
from refdesk.store.record.database import sequence
from refdesk.store.record.schema import Connection
from refdesk.store.shared import collection, points
from refdesk.store.shared.address import Address
from refdesk.store.shared.database import FOLLOWER, Postgres
from refdesk.store.shared.follower import Follower
from refdesk.store.shared.nodes import WRITE_S, IndexAway, IndexMissing, Nodes
from refdesk.store.shared.state import Seen, condemn, left_index, see

if TYPE_CHECKING:
    from qdrant_client import grpc as messages

_log = logging.getLogger(__name__)

_COUNT_S = 3600.0
_AGAIN_S = 1.0
_STUCK_S = 600.0  # after which an index that is made and did not move is not waited for
_PAGE = 20_000
_SWEPT = 100_000  # vectors between which others may write
_LOOKS = 3  # at what differs, before it counts
_MOST_MENDED = 20_000  # passages; more are indexed no slower by building the index anew
_ORPHANS = {
    "documents without their collection": "documents d"
    " WHERE NOT EXISTS (SELECT 1 FROM collections n WHERE n.id = d.collection)",
    "documents without their content": "documents d WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.id = d.raw)",
    "passages without their document": "chunks c WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.id = c.document)",
    "passages without their text": "chunks c WHERE NOT EXISTS (SELECT 1 FROM texts t WHERE t.id = c.text)",
    "passages without their vector": "chunks c WHERE vector IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.id = c.vector)",
}


def size(db: Connection, schema: str) -> int:
    """The bytes of the record's tables with their indexes."""
    found = db.execute(
        "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'",
        (schema,),
    )
    return int(found.fetchone()[0])


def verify(postgres: Postgres, nodes: Nodes, follower: Follower, address: Address, *, repair: bool) -> list[Finding]:
    """What was checked in the record and in the index, and what was repaired."""
    found = [_check_record(postgres), _check_index(postgres, nodes, follower, address, repair=repair)]
    if repair and found[0].ok:
        try:
            _sweep(postgres)
        except StoreError as error:  # such as another writer at work for long
            _log.warning("vectors that no passage uses were not all dropped: %s", error)
    return found


def _sweep(postgres: Postgres) -> None:
    """Drops vectors that no passage uses, which killed writers left."""
    with postgres.reading() as db:
        last = db.execute("SELECT coalesce(max(id), 0) FROM vectors").fetchone()[0]
    for start in range(0, last, _SWEPT):
        with postgres.writing(), postgres.transaction(logged=False) as db:
            contents.drop_loose_vectors(db, within=(start, start + _SWEPT))


def _check_record(postgres: Postgres) -> Finding:
    with postgres.patient(_COUNT_S) as db:
        wrong = [
            f"{count} {what}"
            for what, where in _ORPHANS.items()
            if (count := db.execute(f"SELECT count(*) FROM {where}").fetchone()[0])  # noqa: S608 - constants
        ]
        chunks = db.execute("SELECT count(*) FROM chunks").fetchone()[0]
    if wrong:
        return Finding(part="record", ok=False, message=f"The record is damaged: {'; '.join(wrong)}. Restore a backup.")
    return Finding(part="record", ok=True, message=f"The record is sound: {chunks} chunks.")


def _check_index(postgres: Postgres, nodes: Nodes, follower: Follower, address: Address, *, repair: bool) -> Finding:
    try:
        with postgres.reading() as db:
            before = see(db)
        try:
            seen = follower.catch_up(before.seq, WRITE_S)
        except IndexAway:
            with postgres.reading() as db:
                seen = see(db)
            if seen.state == before.state:
                raise  # else the time for the last request was too short
        if seen.is_later:
            said = "The index was made by a later RefDesk. Let that check it, and update this one."
            return Finding(part="index", ok=False, message=said)
        if not seen.has(before.seq) and not follower.elsewhere:  # a long `index` run, or none that follows
            moves = seen.state != before.state
            said = "and catching up: check it again later" if moves else f"and does not catch up{_held(postgres)}"
            return Finding(part="index", ok=moves, message=f"The index is behind the record, {said}.")
        copies, last = _Copies(nodes, address.nodes), before.seq
        name, problem, wrong, silent = _difference(postgres, copies, follower, address)
        before_digests = f"{len(silent)} passages that an earlier RefDesk indexed" if silent else ""
        sound = f"The index has every passage, up to commit {last}.{copies.notice}{_left(postgres, nodes)}"
        if not repair and not problem:
            sound += f" {before_digests} were not compared: `refdesk doctor` indexes them again." * bool(silent)
            return Finding(part="index", ok=True, message=sound)
        if not repair:
            return Finding(part="index", ok=False, message=f"The index {problem}. `refdesk doctor` repairs it.")
        if not problem and not silent:
            return Finding(part="index", ok=True, message=sound)
        problem = problem or f"has {before_digests}"
        is_mended = 0 < len(wrong | silent) <= _MOST_MENDED
        still = problem
        if is_mended:
            with postgres.writing(), postgres.transaction() as db:
                last = sequence(db)
                changes = [(last, chunk_id, BOTH) for chunk_id in wrong | silent]
                db.executemany("INSERT INTO changes (seq, chunk, parts) VALUES (?, ?, ?)", changes)
            _wait(postgres, follower, last)
            name, still, *_ = _difference(postgres, copies, follower, address)
        if still:
            with postgres.writing(), postgres.transaction(logged=False) as db:
                condemn(db, name)
            if not _wait(postgres, follower, last).has(last):
                said = f"The index {problem}, and the one that takes its place is not whole yet{_held(postgres)}"
                return Finding(part="index", ok=False, message=f"{said}. Check it again later.")
            _, still, *_ = _difference(postgres, copies, follower, address)
            is_mended = False
        if still:
            return Finding(part="index", ok=False, message=f"The index was repaired and still {still}.")
        done = "these were indexed again" if is_mended else "it was built anew"
        return Finding(part="index", ok=True, message=f"The index {problem}: {done}.{copies.notice}", repaired=True)
    except StoreError as error:
        return Finding(part="index", ok=False, message=str(error))


def _wait(postgres: Postgres, follower: Follower, last: int) -> Seen:
    """What the index is when it has the commit, or no longer moves: to make a large one may take a day."""
    before: Seen | None = None
    while True:
        try:
            seen = follower.catch_up(last, _STUCK_S)
        except IndexAway:  # nodes that are busy may need more time for a request
            with postgres.reading() as db:
                seen = see(db)
            if before is not None and seen.state == before.state:
                raise
            time.sleep(_AGAIN_S)
        if seen.has(last) or (before is not None and seen.state == before.state):
            return seen
        before = seen


def _held(postgres: Postgres) -> str:
    """Who is to follow, if anyone has the right to."""
    with postgres.reading() as db:
        holders = postgres.holders(db, (FOLLOWER,))
    return f": {holders[0]} is to see to it" if holders else ""


def _left(postgres: Postgres, nodes: Nodes) -> str:
    """Names the index of the database that this one was copied from, if the nodes still know it."""
    with postgres.reading() as db:
        left = left_index(db)
    is_there = left and collection.exists(nodes, left)
    return f" {left} is of the database that this one was copied from: if that is gone, remove it." * bool(is_there)


class _Copies:
    """What the nodes hold: each answers of its own replicas, where it has some."""

    def __init__(self, nodes: Nodes, addresses: Sequence[str]) -> None:
        self.nodes, self._addresses = nodes, addresses
        self.notice = ""

    def spread(self, name: str, address: Address) -> str:
        """What is wrong with the number of shards, or of their replicas; notes replicas that take no part."""
        from qdrant_client import grpc as messages

        about = messages.CollectionClusterInfoRequest(collection_name=name)
        found = self.nodes.call("Collections", "CollectionClusterInfo", about, WRITE_S)
        if found.shard_count < address.shards:
            return f"has {found.shard_count} shards where {address.shards} are wanted"
        replicas, wanted = [*found.local_shards, *found.remote_shards], min(address.replicas, len(self._addresses))
        for shard in range(found.shard_count):
            states = [one.state for one in replicas if one.shard_id == shard]
            if len(states) < wanted and len(states) < self._knowing(about):  # a lost node was taken out of the cluster
                return f"has {len(states)} of {wanted} replicas of shard {shard}"
            if (active := states.count(messages.ReplicaState.Active)) < wanted:
                self.notice = f" Only {active} of {wanted} replicas of shard {shard} take part."
        return ""

    def _knowing(self, about: messages.CollectionClusterInfoRequest) -> int:
        """How many nodes answer and know the collection, as all of one cluster do."""
        count = 0
        for address in self._addresses:
            with contextlib.suppress(IndexAway, IndexMissing):
                self.nodes.call("Collections", "CollectionClusterInfo", about, node=address)
                count += 1
        return count

    def made_of(self, name: str, limit: int, **where: Any) -> list[dict[int, int | None]]:
        """What points are made of, as each node has it; those that an earlier RefDesk wrote do not say it."""
        from qdrant_client import grpc as messages

        request = messages.ScrollPoints(
            collection_name=name, limit=limit, with_payload=points.with_fields(points.DIGEST), **where
        )
        copies: list[dict[int, int | None]] = []
        for address in self._addresses:
            try:
                found = self.nodes.call("Points", "Scroll", request, WRITE_S, node=address).result
            except (IndexAway, IndexMissing) as error:  # a node that was down when it was made learns of it later
                if address == self._addresses[-1] and not copies:
                    raise error
                self.notice = self.notice or " Some replicas did not answer and were not compared."
                continue
            copies.append({
                one.id.num: one.payload[points.DIGEST].integer_value if points.DIGEST in one.payload else None
                for one in found
                if one.id.HasField("num")  # else the head
            })  # fmt: skip
        return copies


Differing = tuple[str, str, set[int], set[int]]


def _difference(postgres: Postgres, copies: _Copies, follower: Follower, address: Address) -> Differing:
    """The index, what is wrong with it, chunks that it alone has, lacks or has as they were, and those that don't say.

    Both are read in the order of ids, while others write: what differs is looked at again when the index has caught up.
    """
    from qdrant_client import grpc as messages

    copies.notice = ""
    with postgres.patient() as db:
        state = see(db).state
        if state is None:
            return "", "is missing", set(), set()
        if follower.elsewhere:
            return state.name, f"is on {follower.elsewhere}, and this address names other nodes", set(), set()
        if problem := copies.spread(state.name, address):
            return state.name, problem, set(), set()
        after, suspects, silent = -1, set[int](), set[int]()
        while True:
            known = points.digests_after(db, after, _PAGE)
            last = max(known) if len(known) == _PAGE else None
            upto, is_end = last, last is None
            for found in copies.made_of(state.name, 2 * _PAGE, offset=messages.PointId(num=after + 1)):
                if len(found) == 2 * _PAGE:
                    is_end, upto = False, min(max(found), max(found) if upto is None else upto)
                suspects.update(*_compared(known, found))
                silent |= {one for one, made_of in found.items() if made_of is None}
            if is_end:
                break
            assert upto is not None
            suspects, after = {one for one in suspects if one <= upto}, upto
    problem = ""
    for _ in range(_LOOKS):
        if not suspects:
            break
        with postgres.reading() as db:
            last_commit = sequence(db)
        now = follower.catch_up(last_commit, WRITE_S).state
        if now is not None and now.name != state.name:  # another was made meanwhile
            return _difference(postgres, copies, follower, address)
        missing, spare, old, wanted = set[int](), set[int](), set[int](), sorted(suspects)
        for start in range(0, len(wanted), _PAGE):
            some = wanted[start : start + _PAGE]
            with postgres.patient() as db:
                known = points.digests(db, some)
            for found in copies.made_of(state.name, len(some), filter=messages.Filter(must=[points.named(some)])):
                for all_such, such in zip((missing, spare, old), _compared(known, found), strict=True):
                    all_such |= such
        said = {f"lacks {len(missing)} passages": missing, f"has {len(spare)} that are gone": spare}
        said[f"has {len(old)} as they were before"] = old
        problem = " and ".join(words for words, those in said.items() if those)
        suspects = missing | spare | old
    return state.name, problem, suspects, silent - suspects


def _compared(known: dict[int, int], found: dict[int, int | None]) -> tuple[set[int], set[int], set[int]]:
    """The chunks that a node lacks, those that it alone has, and those that it has in another form."""
    old = {one for one, made_of in found.items() if made_of is not None and known.get(one, made_of) != made_of}
    return known.keys() - found.keys(), found.keys() - known.keys(), old
