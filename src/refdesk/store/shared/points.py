"""A chunk as a point of the index: its vector, the weights of its terms, and what filters ask for.

The weight of a term is BM25's without the rarity, which Qdrant multiplies in.  Each field has terms of its own, so
that a term that is rare in headings counts for more there, as in tantivy.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from refdesk.store.record.filters import Scope
from refdesk.store.record.schema import Connection
from refdesk.store.vectors.index import unpack
from refdesk.store.words.index import fields_of
from refdesk.store.words.query import BOOSTS, SEPARATOR

if TYPE_CHECKING:
    from qdrant_client import grpc as messages

    from refdesk.model import Vector

VERSION = 1  # of what a point holds; another version is built anew
DENSE, SPARSE = "meaning", "words"
TERMS, NAMES = "words", "names"  # fields of text: the terms of content and headings, those of symbols and paths
BREAK = "\x1f"  # stands between content and headings, so that no phrase crosses
# How new a point is, and what it is made of: others write too, and a node may do late what it was asked for.
COMMIT, DIGEST = "commit", "digest"
KEYWORDS = ("kind", "type", "language", "extension", "meta")
NUMBERS = ("collection", "document", COMMIT)

_K1, _B = 1.2, 0.75  # of BM25, as tantivy has them
# The mean numbers of terms, counted in 17,000 passages of code: weights can't follow them as the library grows.
_LENGTHS = {"content": 103.0, "title": 22.0, "symbol": 1.6, "path": 9.6}
# ruff: noqa: S608 - statements are put together from constants; values are bound
_DIGEST = """
('x' || left(encode(sha256(c.digest || convert_to(concat_ws(' ', c.vector, d.collection, d.path, d.metadata), 'UTF8')),
'hex'), 16))::bit(64)::bigint
"""
_SELECT = f"""
SELECT c.id, d.collection, c.document, c.kind, c.type, c.language, d.extension, d.path, d.metadata, c.metadata,
       c.title, c.breadcrumb, c.symbols, t.text, t.hash, v.numbers, {_DIGEST}
FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text LEFT JOIN vectors v ON v.id = c.vector
"""
_SELECT_DIGESTS = f"SELECT c.id, {_DIGEST} FROM chunks c JOIN documents d ON d.id = c.document "


@lru_cache(maxsize=200_000)
def dimension(field: str, term: str) -> int:
    """The number under which a field's term is weighed."""
    return zlib.crc32(f"{field[0]}{term}".encode("utf-8", "replace"))


def weights(fields: Mapping[str, Sequence[str]]) -> dict[int, float]:
    """The weight of each of a chunk's terms."""
    found: dict[int, float] = {}
    for field, terms in fields.items():
        length = _K1 * (1 - _B + _B * len(terms) / _LENGTHS[field])
        for term, count in Counter(terms).items():
            found[dimension(field, term)] = count * (_K1 + 1) / (count + length)
    return found


def read(db: Connection, chunk_ids: Sequence[int]) -> list[Any]:
    """The rows of those of the chunks that exist."""
    wanted = json.dumps(list(chunk_ids))
    return db.execute(_SELECT + "WHERE c.id IN (SELECT value FROM json_each(?))", (wanted,)).fetchall()


def read_after(db: Connection, chunk_id: int, limit: int) -> list[Any]:
    """The next rows in the order of ids."""
    return db.execute(_SELECT + "WHERE c.id > ? ORDER BY c.id LIMIT ?", (chunk_id, limit)).fetchall()


def digests(db: Connection, chunk_ids: Sequence[int]) -> dict[int, int]:
    """What those of the chunks that exist are made of."""
    asked = _SELECT_DIGESTS + "WHERE c.id IN (SELECT value FROM json_each(?))"
    return dict(db.execute(asked, (json.dumps(list(chunk_ids)),)).fetchall())


def digests_after(db: Connection, chunk_id: int, limit: int) -> dict[int, int]:
    """The same of the next chunks in the order of ids."""
    return dict(db.execute(_SELECT_DIGESTS + "WHERE c.id > ? ORDER BY c.id LIMIT ?", (chunk_id, limit)).fetchall())


def add(to: Any, row: Sequence[Any], commit: int, known: Mapping[bytes, str], seen: set[str]) -> None:
    """Adds the point of a row to those of a request; the terms of some texts are known; adds all of them to `seen`.

    The row was read after the commit.

    Messages are filled where they are: each that is put into another is copied, a third of the time.
    """
    *columns, text_key, numbers, digest = row
    terms = known.get(text_key)
    fields = fields_of(columns, {row[0]: terms} if terms else {})
    split = {field: fields[field].split() for field in BOOSTS}
    weighed = weights(split)
    seen.update(split["content"], split["title"])
    point = to.add()
    point.id.num = row[0]
    vectors = point.vectors.vectors.vectors
    sparse = vectors[SPARSE].sparse
    sparse.indices.extend(weighed)
    sparse.values.extend(weighed.values())
    if numbers is not None:
        vectors[DENSE].dense.data.extend(unpack([numbers])[0].tolist())
    payload = point.payload
    for name in KEYWORDS:
        if name != "meta":
            payload[name].string_value = fields[name]
    meta = payload["meta"].list_value.values
    for value in fields["meta"]:
        meta.add().string_value = value
    payload["meta"].list_value.SetInParent()
    payload[TERMS].string_value = f"{fields['content']} {BREAK} {fields['title']}"
    payload[NAMES].string_value = f"{fields['symbol']} {fields['path']}"
    payload["collection"].integer_value = row[1]
    payload["document"].integer_value = row[2]
    payload[COMMIT].integer_value = commit
    payload[DIGEST].integer_value = digest


# --- queries and conditions on points --------------------------------------------------------------------------


def of_words(terms: Iterable[str]) -> messages.Query:
    """A query for any of the terms in any field."""
    from qdrant_client import grpc as messages

    found = {dimension(field, term): boost for term in terms for field, boost in BOOSTS.items()}
    weighed = messages.SparseVector(indices=list(found), values=list(found.values()))
    return messages.Query(nearest=messages.VectorInput(sparse=weighed))


def of_vector(vector: Vector) -> messages.Query:
    """A query for what is near in meaning."""
    from qdrant_client import grpc as messages

    return messages.Query(nearest=messages.VectorInput(dense=messages.DenseVector(data=vector.tolist())))


def until(commit: int, *more: messages.Condition) -> messages.Filter:
    """Points that no later commit wrote, and that meet further conditions: all that a request may replace or remove.

    A node that hung does what it was asked for when it goes on, though others have written the same points since.
    """
    from qdrant_client import grpc as messages

    return messages.Filter(must=more, must_not=[newer_than(commit)])


def newer_than(commit: int) -> messages.Condition:
    """Points that a later commit wrote."""
    from qdrant_client import grpc as messages

    return messages.Condition(field=messages.FieldCondition(key=COMMIT, range=messages.Range(gt=commit)))


def named(chunk_ids: Iterable[int]) -> messages.Condition:
    """The points of these chunks."""
    from qdrant_client import grpc as messages

    return messages.Condition(has_id=messages.HasIdCondition(has_id=[messages.PointId(num=one) for one in chunk_ids]))


def holding(name: str, match: messages.Match) -> messages.Condition:
    """Points whose field matches."""
    from qdrant_client import grpc as messages

    return messages.Condition(field=messages.FieldCondition(key=name, match=match))


def among_words(name: str, values: Sequence[str]) -> messages.Condition:
    """Points whose field is one of these words."""
    from qdrant_client import grpc as messages

    return holding(name, messages.Match(keywords=messages.RepeatedStrings(strings=list(values))))


def among_numbers(name: str, values: Sequence[int]) -> messages.Condition:
    """Points whose field is one of these numbers."""
    from qdrant_client import grpc as messages

    return holding(name, messages.Match(integers=messages.RepeatedIntegers(integers=list(values))))


def within(scope: Scope, *more: messages.Condition, documents: bool = True) -> messages.Filter:
    """Points of the scope that meet further conditions; without `documents`, any in the scope's collections."""
    from qdrant_client import grpc as messages

    filters, found = scope.filters, list(more)
    if scope.collections is not None:
        found.append(among_numbers("collection", scope.collections))
    if not documents:
        return messages.Filter(must=found)
    if scope.within is not None:
        found.append(among_numbers("document", sorted(scope.within)))
    named = (("kind", filters.kinds), ("type", filters.types), ("language", filters.languages))
    for field, values in (*named, ("extension", filters.extensions)):
        if values:
            found.append(among_words(field, values))
    for key, values in filters.metadata:
        found.append(among_words("meta", [f"{key}{SEPARATOR}{value}" for value in values]))
    return messages.Filter(must=found)


def with_fields(*fields: str) -> messages.WithPayloadSelector:
    """What an answer has of the payload: these fields, or none of it."""
    from qdrant_client import grpc as messages

    if not fields:
        return messages.WithPayloadSelector(enable=False)
    return messages.WithPayloadSelector(include=messages.PayloadIncludeSelector(fields=list(fields)))
