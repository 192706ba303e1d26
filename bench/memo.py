"""A store and an embedder that remember their answers, so that many rankings of one query cost one look-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from refdesk.model import EVERYTHING, Filters, Ranking, StoredChunk, Vector
from refdesk.ports import Embedder, Store, View


class MemoView:
    """Another view's rankings, each asked for once; everything else is that view's own."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._ranked: dict[tuple[object, ...], Ranking] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def lexical(self, terms: Sequence[str], limit: int, *, by_number: bool = True) -> Ranking:
        key = ("lexical", tuple(terms), limit, by_number)
        if key not in self._ranked:
            self._ranked[key] = self._view.lexical(terms, limit, by_number=by_number)
        return self._ranked[key]

    def nearest(self, vector: Vector, limit: int) -> Ranking:
        key = ("nearest", vector.tobytes(), limit)
        if key not in self._ranked:
            self._ranked[key] = self._view.nearest(vector, limit)
        return self._ranked[key]


class MemoStore:
    """Another store's answers, each asked for once; everything else is that store's own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._views: dict[Filters, MemoView] = {}
        self._chunks: dict[int, StoredChunk] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def view(self, filters: Filters = EVERYTHING) -> MemoView:
        if filters not in self._views:
            self._views[filters] = MemoView(self._store.view(filters))
        return self._views[filters]

    def chunks(self, chunk_ids: Sequence[int]) -> dict[int, StoredChunk]:
        if missing := [one for one in chunk_ids if one not in self._chunks]:
            self._chunks.update(self._store.chunks(missing))
        return {one: self._chunks[one] for one in chunk_ids if one in self._chunks}


class MemoEmbedder:
    """Another embedder's query vectors, each made once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[str, Vector] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Vector]:
        for text in texts:
            if text not in self._rows:
                self._rows[text] = self._embedder.embed_queries([text])[0]
        return [self._rows[text] for text in texts]


def remembered(store: Store, embedder: Embedder | None) -> tuple[Store, Embedder | None]:
    """Both with a memory."""
    return cast(Store, MemoStore(store)), cast(Embedder, MemoEmbedder(embedder)) if embedder is not None else None
