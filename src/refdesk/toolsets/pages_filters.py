"""Which passages may be hits, and which filters does nobody know?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import get_args

from refdesk.errors import InvalidInput
from refdesk.model import ChunkType, Collection, Filters, metadata_text
from refdesk.ports import Store

_TYPES: tuple[str, ...] = get_args(ChunkType)
_NAMED = 40
_LOOKED_AT = 2_000  # documents that are opened to say which languages there are


def chosen(given: Mapping[str, str], source: Collection | None) -> Filters:
    """The filters that the arguments mean; an unknown type is refused."""
    wanted = given.get("type")
    if wanted is not None and wanted not in _TYPES:
        raise InvalidInput(f"Unknown value for filter type: {wanted}.", f"Known values: {', '.join(_TYPES)}.")
    return Filters(
        collections=(source.name,) if source else (),
        types=(wanted,) if wanted is not None else (),
        languages=(given["language"],) if "language" in given else (),
        metadata=tuple((key, (value,)) for key, value in given.items() if key not in ("type", "language")),
    )


def refuse_unknown(store: Store, given: Mapping[str, str], filters: Filters) -> None:
    """Raises InvalidInput for a key that nothing carries or a value that the key never has.

    Called when nothing was found: a hit shows that its filters are known.
    """
    scope = Filters(collections=filters.collections)
    if filters.languages and not store.view(replace(scope, languages=filters.languages)).literal(" ", 1):
        raise _unknown(f"value for filter language: {given['language']}", "values", _languages(store, scope))
    for key, (value, *_) in filters.metadata:
        values = store.view(scope).facet_values(key)
        if not values:
            raise _unknown(f"filter: {key}", "filters", ["type", "language", *_keys(store, scope)])
        if value not in values:
            raise _unknown(f"value for filter {key}: {value}", "values", sorted(values))


def _unknown(what: str, kind: str, known: Iterable[str]) -> InvalidInput:
    names = list(known)
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    listed = ", ".join(name[:80] for name in names[:_NAMED])
    return InvalidInput(f"Unknown {what}.", f"Known {kind}: {listed}{more}." if names else f"There are no {kind} here.")


def _languages(store: Store, scope: Filters) -> list[str]:
    found: set[str] = set()
    for name in scope.collections or ("",):
        for document in store.documents(name, _LOOKED_AT, 0):
            found |= {one.chunk.language for one in store.chunks_of(document.id)}
    return sorted(found - {""})


def _keys(store: Store, scope: Filters) -> list[str]:
    names = scope.collections or tuple(one.name for one in store.collections())
    found: set[str] = set()
    for name in names:
        found |= store.facets(name).keys()
        for document in store.documents(name, _LOOKED_AT, 0):
            found |= {key for key, value in document.metadata.items() if metadata_text(value)}
    return sorted(found)
