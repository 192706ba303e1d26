"""What should a caller try when nothing was found?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from refdesk.model import Query, metadata_text
from refdesk.search.engine import Engine

_LOOKED_AT = 50


def suggested_filters(engine: Engine, query: Query) -> dict[str, list[str]]:
    """For each metadata filter of the query, the values that would give hits with the other filters kept."""
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
