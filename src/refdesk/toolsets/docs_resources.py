"""The corpus by facet: which files carry a value, with completion of facets and of their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from refdesk.corpus import Corpus, docs_collections
from refdesk.desk import Desk
from refdesk.errors import NotFound
from refdesk.model import metadata_text
from refdesk.toolsets.contract import CallContext, ResourceContents, ResourceTemplate

_LISTED = 500
_PAGE = 1_000


def facet_template(desk: Desk, corpus: Callable[[], Corpus]) -> ResourceTemplate:
    """`docs://facets/{facet}/{value}`; `corpus` gives the taxonomy of now."""

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
        while listed := desk.store.documents(collection.name, _PAGE, offset):
            found += [one.path for one in listed if metadata_text(one.metadata.get(facet, "")) == value]
            offset += len(listed)
    return found
