"""Cursors, suggested filters, and the resource that lists files by facet."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from refdesk.desk.corpus import Corpus, docs_collections
from refdesk.desk.desk import Desk
from refdesk.errors import InvalidCursor, NotFound
from refdesk.model import Query, metadata_text
from refdesk.search.engine import Engine
from refdesk.toolsets.content import ResourceContents
from refdesk.toolsets.contract import CallContext, ResourceTemplate

_NEXT = "Omit cursor to start again from the first page."


def encode_cursor(query: Query, state: int, offset: int) -> str:
    """A cursor for the page at `offset`, bound to the query, its filters and the record's state."""
    body = f"{offset}.{state}"
    return base64.urlsafe_b64encode(f"{body}.{_seal(query, body)}".encode()).decode().rstrip("=")


def decode_cursor(cursor: str, query: Query, state: int) -> int:
    """The offset in a cursor; raises InvalidCursor if it belongs to another query, was altered or is stale."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        offset, made_at, seal = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(".")
        position, made = int(offset), int(made_at)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor("The cursor is malformed.", _NEXT) from error
    if seal != _seal(query, f"{offset}.{made_at}"):
        raise InvalidCursor("The cursor belongs to another query or other filters, or was altered.", _NEXT)
    if made != state:
        raise InvalidCursor("The cursor is stale: the index changed since that page.", _NEXT)
    return position


def _seal(query: Query, body: str) -> str:
    bound = json.dumps([body, query.text, query.alpha, query.fusion, query.exact, repr(query.filters)])
    return hashlib.blake2b(bound.encode(), digest_size=9).hexdigest()


_LOOKED_AT = 50


def suggested_filters(engine: Engine, query: Query) -> dict[str, list[str]]:
    """For each metadata filter of the query, the values that would give hits with the other filters unchanged."""
    suggested: dict[str, list[str]] = {}
    for key, refused in query.filters.metadata:
        others = tuple(one for one in query.filters.metadata if one[0] != key)
        wider = replace(query, filters=replace(query.filters, metadata=others), limit=_LOOKED_AT, offset=0)
        values: Counter[str] = Counter()
        for hit in engine.search(wider).hits:
            stored = hit.stored
            value = stored.chunk.metadata.get(key, stored.document.metadata.get(key))
            if value is not None and metadata_text(value) not in refused:
                values[metadata_text(value)] += 1
        suggested[key] = [value for value, _ in sorted(values.items(), key=lambda one: (-one[1], one[0]))]
    return suggested


_LISTED = 500
_PAGE = 1_000


def facet_template(desk: Desk, corpus: Callable[[], Corpus]) -> ResourceTemplate:
    """The resource template `docs://facets/{facet}/{value}`; `corpus` returns the current taxonomy."""

    def facets(typed: str, settled: Mapping[str, str]) -> Sequence[str]:
        return [key for key in corpus().taxonomy if key.startswith(typed)]

    def values(typed: str, settled: Mapping[str, str]) -> Sequence[str]:
        chosen = corpus().taxonomy.get(settled.get("facet", ""))
        return [one for one in chosen.values if one.lower().startswith(typed.lower())] if chosen else []

    def read(variables: Mapping[str, str], context: CallContext) -> ResourceContents:
        facet, value = variables["facet"], variables["value"]
        known = corpus().taxonomy.get(facet)
        if known is None or value not in known.values:
            raise NotFound(f"No documentation has {facet} '{value}'.", "Complete the template to see what there is.")
        files = _files(desk, facet, value)
        body = {"facet": facet, "value": value, "total": len(files), "files": files[:_LISTED]}
        uri = f"docs://facets/{facet}/{value}"
        return ResourceContents(uri=uri, mime_type="application/json", text=json.dumps(body, ensure_ascii=False))

    return ResourceTemplate(
        uri_template="docs://facets/{facet}/{value}",
        name="facet",
        title="Documentation by facet",
        description="The files that carry a value of a facet",
        mime_type="application/json",
        read=read,
        complete={"facet": facets, "value": values},
    )


def _files(desk: Desk, facet: str, value: str) -> list[str]:
    found: list[str] = []
    for collection in docs_collections(desk):
        offset = 0
        while listed := desk.documents(collection.name, _PAGE, offset):
            found += [one.path for one in listed if metadata_text(one.metadata.get(facet, "")) == value]
            offset += len(listed)
    return found
