"""The collection in Qdrant that an index is in: how it is made and filled, and whether it is the record's."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from refdesk.errors import SettingsError, StoreError
from refdesk.store.record.database import Applied, is_told, last_commit
from refdesk.store.record.schema import Connection
from refdesk.store.shared import points, spelling
from refdesk.store.shared.address import Address
from refdesk.store.shared.dialect import Translating
from refdesk.store.shared.nodes import WRITE_S, IndexAway, IndexMissing, Nodes
from refdesk.store.shared.points import DENSE, KEYWORDS, NAMES, NUMBERS, SPARSE, TERMS
from refdesk.store.shared.state import State, head_of
from refdesk.system import metrics

if TYPE_CHECKING:
    from qdrant_client import grpc as messages

_log = logging.getLogger(__name__)

_OLDEST = (1, 16)  # of Qdrant: an older one would ignore which points an upsert may replace
# Of a segment's vectors: 200,000 of 256 dimensions.  Qdrant merges in memory: 1,131,323 passages took over 20 GB.
_LARGEST_KB = 100_000
_REQUEST = 500  # points of one request: 2 MB
_MOST_HINTS, _MOST_KNOWN = 80_000, 500_000
_HEAD, _TOKEN = "00000000-0000-4000-8000-000000000000", "token"


def create(nodes: Nodes, address: Address, name: str, dimension: int) -> None:
    """Makes a collection for points with vectors of that many dimensions, without graphs."""
    from qdrant_client import grpc as messages

    version = nodes.call("Qdrant", "HealthCheck", messages.HealthCheckRequest(), WRITE_S).version
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise SettingsError(f"Qdrant {version} is too old for an index.", f"Use {oldest} or a later one.")
    nodes.call("Collections", "Create", _definition(name, dimension, address), WRITE_S)
    optimise(nodes, name, is_whole=False)
    for done in [nodes.start("Points", "CreateFieldIndex", one, WRITE_S) for one in _indexes(name)]:
        done()


def _definition(name: str, dimension: int, address: Address) -> messages.CreateCollection:
    from qdrant_client import grpc as messages

    dense = {}
    if dimension:
        quantised = None
        if address.quantisation == "int8":
            scalar = messages.ScalarQuantization(type=messages.QuantizationType.Int8, always_ram=True)
            quantised = messages.QuantizationConfig(scalar=scalar)
        elif address.quantisation == "binary":
            # Queries keep four bits of each number: of the 120 nearest .985 are found so, .923 with one bit.
            encoding = messages.BinaryQuantizationQueryEncoding
            binary = messages.BinaryQuantization(
                always_ram=True, query_encoding=encoding(setting=encoding.Setting.Scalar4Bits)
            )
            quantised = messages.QuantizationConfig(binary=binary)
        dense[DENSE] = messages.VectorParams(
            size=dimension, distance=messages.Distance.Dot, quantization_config=quantised,
            datatype=messages.Datatype.Float16, on_disk=quantised is not None,
        )  # fmt: skip
    return messages.CreateCollection(
        collection_name=name,
        shard_number=address.shards,
        replication_factor=address.replicas,
        # Of two replicas one: the other's node may be down, and what is lost with a disk is in the record.
        write_consistency_factor=(address.replicas + 1) // 2,
        vectors_config=messages.VectorsConfig(params_map=messages.VectorParamsMap(map=dense)),
        sparse_vectors_config=messages.SparseVectorConfig(
            map={SPARSE: messages.SparseVectorParams(modifier=messages.Modifier.Idf)}
        ),
        on_disk_payload=True,
        timeout=30,
    )


def _indexes(name: str) -> Iterator[messages.CreateFieldIndexCollection]:
    """An index for each field that filters ask for."""
    from qdrant_client import grpc as messages

    words = messages.PayloadIndexParams(
        text_index_params=messages.TextIndexParams(
            tokenizer=messages.TokenizerType.Whitespace, lowercase=False, phrase_matching=True, min_token_len=1,
            max_token_len=1000,
        )
    )  # fmt: skip
    kinds = messages.FieldType
    fields: list[tuple[str, Any, Any]] = [(one, kinds.FieldTypeText, words) for one in (TERMS, NAMES)]
    fields += [(one, kinds.FieldTypeKeyword, None) for one in KEYWORDS]
    fields += [(one, kinds.FieldTypeInteger, None) for one in NUMBERS]
    for field, kind, parameters in fields:
        yield messages.CreateFieldIndexCollection(
            collection_name=name, wait=True, field_name=field, field_type=kind, field_index_params=parameters
        )


def optimise(nodes: Nodes, name: str, *, is_whole: bool) -> None:
    """Has Qdrant make codes and graphs of segments of 1,000 kB and more: 2,000 vectors of 256 dimensions.

    While an index is filled it would merge segments, and make their graphs, again and again.  Then it makes codes
    alone, of each 8,000 vectors: the time to write a passage grows with the segment that it is written to.

    It would also make a graph of the passages with each value of a payload index, which every frequent term is;
    without them a search within a filter finds the same (of 78,529 passages, collections of 2 to 14% of them).
    """
    from qdrant_client import grpc as messages

    size, segments, links = (1_000, 0, 16) if is_whole else (4_000, 1_000, 0)
    config = messages.OptimizersConfigDiff(
        indexing_threshold=size, default_segment_number=segments, max_segment_size=_LARGEST_KB
    )
    graphs = messages.HnswConfigDiff(m=links, payload_m=0)
    request = messages.UpdateCollection(collection_name=name, optimizers_config=config, hnsw_config=graphs)
    nodes.call("Collections", "Update", request, WRITE_S)


def add_head(to: Any, commit: Applied) -> None:
    """Adds the point that names the last commit that the index may have something of; it is no passage."""
    point = to.add()
    point.id.uuid = _HEAD
    point.vectors.vectors.SetInParent()
    point.payload[points.COMMIT].integer_value = commit.seq
    point.payload[_TOKEN].string_value = commit.token


def head(nodes: Nodes, name: str, limit_s: float, node: str = "") -> Applied | None:
    """The commit that was named last; an earlier RefDesk named none."""
    from qdrant_client import grpc as messages

    request = messages.GetPoints(
        collection_name=name, ids=[messages.PointId(uuid=_HEAD)],
        with_payload=points.with_fields(points.COMMIT, _TOKEN),
    )  # fmt: skip
    found = nodes.call("Points", "Get", request, limit_s, node=node).result
    return (
        Applied(found[0].payload[points.COMMIT].integer_value, found[0].payload[_TOKEN].string_value) if found else None
    )


class Sending:
    """What one process sends, under the right to follow."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._terms: dict[bytes, str] = {}  # of texts that this process wrote and that the index may lack
        self._known_terms: set[str] = set()  # that the record has, or that it was given
        self.told = -1  # the commit that the index was told last and the record was not

    def hint(self, terms: Mapping[bytes, str]) -> None:
        """Keeps the terms of texts that were analysed before they were written, by the texts' keys.

        Another process may follow, and a passage may have another text by then: so not by the passages' ids.
        """
        if len(self._terms) > _MOST_HINTS:
            self._terms.clear()
        self._terms.update(terms)

    def forget(self) -> None:
        """Drops what is known of the record's terms: it may have gone back."""
        self._known_terms = set()

    def put(self, db: Translating, name: str, rows: Sequence[Any], commit: int, left_s: float) -> Callable[[], None]:
        """Sends the points of rows that were read after the commit; returns what waits until the nodes have them."""
        from qdrant_client import grpc as messages

        seen: set[str] = set()
        at = last_commit(db)  # after the rows were read
        named = messages.UpsertPoints(collection_name=name, wait=True, update_filter=points.until(at.seq))
        add_head(named.points, at)
        waiting = [self._nodes.start("Points", "Upsert", named, left_s)]
        for start in range(0, len(rows), _REQUEST):
            request = messages.UpsertPoints(collection_name=name, wait=True, update_filter=points.until(commit))
            for row in rows[start : start + _REQUEST]:
                points.add(request.points, row, commit, self._terms, seen)
                self._terms.pop(row[14], None)
            waiting.append(self._nodes.start("Points", "Upsert", request, left_s))
        if new := [term for term in seen - self._known_terms if spelling.is_word(term)]:
            spelling.add(db, new)
            if len(self._known_terms) > _MOST_KNOWN:
                self._known_terms.clear()
            self._known_terms.update(new)

        def wait() -> None:
            for done in waiting:
                done()
            self.told = at.seq
            metrics.count("refdesk_index_points_total", len(rows))

        return wait

    def delete(self, name: str, ids: Sequence[int], commit: int, left_s: float) -> None:
        from qdrant_client import grpc as messages

        if ids:
            these = messages.PointsSelector(filter=points.until(commit, points.named(ids)))
            request = messages.DeletePoints(collection_name=name, wait=True, points=these)
            self._nodes.call("Points", "Delete", request, left_s)


class Belonging:
    """Whether the record has all that an index was made from: it may have gone back, to a backup or a standby.

    Asked where another process has followed since, or a connection was lost.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._looked_at, self._last = "", 0  # the collection that belongs to this record, and the latest commit seen
        self._saved: State | None = None  # by this process: nobody else followed while it is the record's
        self._breaks = 0  # of connections, after which the record may have gone back
        self._failures = 0  # of nodes, after which the index may have

    def saved(self, state: State) -> None:
        """Notes how far this process brought the index."""
        self._saved = state

    def is_in_doubt(self, breaks: int) -> bool:
        """Whether connections were lost since it was asked."""
        return self._breaks != breaks or self._failures != self._nodes.failures

    def is_sure(self, db: Connection, state: State, last: int, breaks: int, limit_s: float) -> bool:
        """Whether it has, by the head of the index and by the newest of its points."""
        failures = self._nodes.failures
        if state != self._saved or breaks != self._breaks or failures != self._failures:
            named = head(self._nodes, state.name, limit_s)
            if named is not None and not is_told(db, named):
                return False
            told = head_of(db, state)
            if (-1 if named is None else named.seq) < told and self._is_older(state.name, told, limit_s):
                return False
            self._failures = failures
        is_first = self._looked_at != state.name or breaks != self._breaks
        if state.built is None and (is_first or last < self._last):
            if _has_newer(self._nodes, state.name, last, limit_s):
                return False
            self._looked_at = state.name
        self._last, self._saved, self._breaks = last, state, breaks
        return True

    def _is_older(self, name: str, seq: int, limit_s: float) -> bool:
        """Whether the nodes went back, such as to an earlier disk: a single one may just not have heard of the rest."""
        for node in self._nodes.addresses:
            try:
                named = head(self._nodes, name, limit_s, node)
            except (IndexAway, IndexMissing):
                return False
            if named is not None and named.seq >= seq:
                return False
        return True


def _has_newer(nodes: Nodes, name: str, last: int, limit_s: float) -> bool:
    """Whether a point of the index is newer than the record, which would keep it from being replaced."""
    from qdrant_client import grpc as messages

    about = messages.GetCollectionInfoRequest(collection_name=name)
    if points.COMMIT not in nodes.call("Collections", "Get", about, limit_s).result.payload_schema:
        for one in _indexes(name):  # an earlier RefDesk did not ask for it
            if one.field_name == points.COMMIT:
                nodes.call("Points", "CreateFieldIndex", one, limit_s)
    newer = messages.Filter(must=[points.newer_than(last)])
    request = messages.CountPoints(collection_name=name, filter=newer, exact=True)
    return bool(nodes.call("Points", "Count", request, limit_s).result.count)


def exists(nodes: Nodes, name: str) -> bool:
    """Whether the nodes know the collection."""
    from qdrant_client import grpc as messages

    try:
        nodes.call("Collections", "Get", messages.GetCollectionInfoRequest(collection_name=name), WRITE_S)
    except IndexMissing:
        return False
    return True


def drop_others(nodes: Nodes, own: str, kept: Callable[[], Collection[str]]) -> None:
    """Removes the library's other collections: the last one, and those whose maker was killed.

    What is kept is asked before each: who has lost the right to follow meanwhile must remove nothing.
    """
    from qdrant_client import grpc as messages

    try:
        listed = nodes.call("Collections", "List", messages.ListCollectionsRequest(), WRITE_S).collections
        for one in listed:
            if one.name.startswith(own) and one.name not in kept():
                gone = messages.DeleteCollection(collection_name=one.name)
                nodes.call("Collections", "Delete", gone, WRITE_S)
    except StoreError as error:
        _log.warning("collections of an earlier index were not removed: %s", error)
