"""What doctor checks in a shared library, and repairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refdesk.errors import StoreError
from refdesk.model import Finding
from refdesk.store.record.batches import BOTH
from refdesk.store.record.database import sequence
from refdesk.store.record.schema import Connection
from refdesk.store.shared import points
from refdesk.store.shared.address import Address
from refdesk.store.shared.database import Postgres
from refdesk.store.shared.follower import Follower
from refdesk.store.shared.nodes import WRITE_S, IndexAway, Nodes
from refdesk.store.shared.state import state_of

_REBUILD_S = 3600.0
_PAGE = 20_000
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
    return [_check_record(postgres), _check_index(postgres, nodes, follower, address, repair=repair)]


def _check_record(postgres: Postgres) -> Finding:
    with postgres.reading() as db:
        db.execute("SET statement_timeout = 0")
        try:
            with db.waiting(_REBUILD_S):
                wrong = [
                    f"{count} {what}"
                    for what, where in _ORPHANS.items()
                    if (count := db.execute(f"SELECT count(*) FROM {where}").fetchone()[0])  # noqa: S608 - constants
                ]
                chunks = db.execute("SELECT count(*) FROM chunks").fetchone()[0]
        finally:
            db.raw.close()  # its time limit is gone
    if wrong:
        return Finding(part="record", ok=False, message=f"The record is damaged: {'; '.join(wrong)}. Restore a backup.")
    return Finding(part="record", ok=True, message=f"The record is sound: {chunks} chunks.")


def _check_index(postgres: Postgres, nodes: Nodes, follower: Follower, address: Address, *, repair: bool) -> Finding:
    try:
        with postgres.reading() as db:
            before, last = state_of(db), sequence(db)
        try:
            state = follower.catch_up(last, WRITE_S)
        except IndexAway:
            with postgres.reading() as db:
                state = state_of(db)
            if state == before:
                raise  # else the time for the last request was too short
        if state is not None and state.is_later:
            said = "The index was made by a later RefDesk. Let that check it, and update this one."
            return Finding(part="index", ok=False, message=said)
        if state is None or state.built is not None or state.seq < last:  # a long `index` run, or none that follows
            moves = state != before
            said = "and catching up: check it again later" if moves else "and does not catch up"
            return Finding(part="index", ok=moves, message=f"The index is behind the record, {said}.")
        copies, shards = _Copies(nodes, address.nodes), address.shards
        problem, wrong, silent = _difference(postgres, copies, follower, shards)
        before_digests = f"{len(silent)} passages that an earlier RefDesk indexed" if silent else ""
        if not repair and not problem:
            said = f"The index has every passage, up to commit {last}.{copies.notice}"
            said += f" {before_digests} were not compared: `refdesk doctor` indexes them again." * bool(silent)
            return Finding(part="index", ok=True, message=said)
        if not repair:
            return Finding(part="index", ok=False, message=f"The index {problem}. `refdesk doctor` repairs it.")
        if not problem and not silent:
            return Finding(
                part="index", ok=True, message=f"The index has every passage, up to commit {last}.{copies.notice}"
            )
        problem = problem or f"has {before_digests}"
        is_mended = 0 < len(wrong | silent) <= _MOST_MENDED
        still = problem
        if is_mended:
            with postgres.writing(), postgres.transaction() as db:
                last = sequence(db)
                changes = [(last, chunk_id, BOTH) for chunk_id in wrong | silent]
                db.executemany("INSERT INTO changes (seq, chunk, parts) VALUES (?, ?, ?)", changes)
            follower.catch_up(last, _REBUILD_S)
            still, *_ = _difference(postgres, copies, follower, shards)
        if still:
            with postgres.writing(), postgres.transaction(logged=False) as db:
                follower.rebuild(db)
            follower.catch_up(last, _REBUILD_S)
            still, *_ = _difference(postgres, copies, follower, shards)
            is_mended = False
        if still:
            return Finding(part="index", ok=False, message=f"The index was repaired and still {still}.")
        done = "these were indexed again" if is_mended else "it was built anew"
        return Finding(part="index", ok=True, message=f"The index {problem}: {done}.", repaired=True)
    except StoreError as error:
        return Finding(part="index", ok=False, message=str(error))


class _Copies:
    """What the nodes hold: each answers of its own replicas, where it has some."""

    def __init__(self, nodes: Nodes, addresses: Sequence[str]) -> None:
        self.nodes, self._addresses = nodes, addresses
        self.notice = ""

    def made_of(self, name: str, limit: int, **where: Any) -> list[dict[int, int | None]]:
        """What points are made of, as each node has it; those that an earlier RefDesk wrote do not say it."""
        from qdrant_client import grpc as messages

        request = messages.ScrollPoints(
            collection_name=name, limit=limit, with_payload=points.with_fields(points.DIGEST), **where
        )
        copies = []
        for address in self._addresses:
            try:
                found = self.nodes.call("Points", "Scroll", request, WRITE_S, node=address).result
            except IndexAway:
                self.notice = " Some replicas did not answer and were not compared."
                continue
            copies.append({
                one.id.num: one.payload[points.DIGEST].integer_value if points.DIGEST in one.payload else None
                for one in found
                if one.id.HasField("num")  # else the head
            })  # fmt: skip
        if not copies:
            raise IndexAway("No node of the index answers.", "Check that Qdrant runs, then try again.")
        return copies


Differing = tuple[str, set[int], set[int]]


def _difference(postgres: Postgres, copies: _Copies, follower: Follower, shards: int) -> Differing:
    """What is wrong with the index, the chunks that it alone has, lacks, or has as they were, and those that don't say.

    Both are read in the order of ids, while others write: what differs is looked at again when the index has caught up.
    """
    from qdrant_client import grpc as messages

    with postgres.reading() as db:
        state = state_of(db)
        if state is None:
            return "is missing", set(), set()
        about = messages.GetCollectionInfoRequest(collection_name=state.name)
        params = copies.nodes.call("Collections", "Get", about, WRITE_S).result.config.params
        if params.shard_number < shards:
            return f"has {params.shard_number} shards where {shards} are wanted", set(), set()
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
        follower.catch_up(last_commit, WRITE_S)
        missing, spare, old, wanted = set[int](), set[int](), set[int](), sorted(suspects)
        for start in range(0, len(wanted), _PAGE):
            some = wanted[start : start + _PAGE]
            with postgres.reading() as db:
                known = points.digests(db, some)
            for found in copies.made_of(state.name, len(some), filter=messages.Filter(must=[points.named(some)])):
                for all_such, such in zip((missing, spare, old), _compared(known, found), strict=True):
                    all_such |= such
        said = {f"lacks {len(missing)} passages": missing, f"has {len(spare)} that are gone": spare}
        said[f"has {len(old)} as they were before"] = old
        problem = " and ".join(words for words, those in said.items() if those)
        suspects = missing | spare | old
    return problem, suspects, silent - suspects


def _compared(known: dict[int, int], found: dict[int, int | None]) -> tuple[set[int], set[int], set[int]]:
    """The chunks that a node lacks, those that it alone has, and those that it has in another form."""
    old = {one for one, made_of in found.items() if made_of is not None and known.get(one, made_of) != made_of}
    return known.keys() - found.keys(), found.keys() - known.keys(), old
