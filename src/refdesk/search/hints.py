"""What should a caller try when nothing was found?"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import islice

from refdesk import analyse
from refdesk.model import Filters, Query, metadata_text
from refdesk.ports import Store
from refdesk.search.engine import Engine
from refdesk.search.understand import understand

_LOOKED_AT = 50
_NEAR = 3
_TRIED = 8  # terms spelt like one that is not known
_TERMS = 8  # of a query
_WORD = re.compile(r"\w+")


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


def nearest_words(engine: Engine, store: Store, query: Query) -> list[str]:
    """Words of the collections that are searched, spelt like the query's unknown ones, as they stand there."""
    near: dict[str, None] = {}
    for term in dict.fromkeys(understand(query.text).terms[:_TERMS]):
        if not _word(engine, query, term):
            alike = (_word(engine, query, other) for other in store.view().similar_terms(term, _TRIED))
            near.update(dict.fromkeys(islice(filter(None, alike), _NEAR)))
    return list(near)


def _word(engine: Engine, query: Query, term: str) -> str:
    """A word of that term in what is searched, since a term is a stem and may be another collection's; "" for none."""
    wanted = Query(text=term, filters=Filters(collections=query.filters.collections), limit=1, alpha=0.0)
    for hit in engine.search(wanted).hits:
        chunk = hit.stored.chunk
        words: list[str] = _WORD.findall(" ".join((*chunk.breadcrumb, chunk.text)))
        if word := next((one for one in words if term in analyse.terms(one)), ""):
            return word.lower()
    return ""
