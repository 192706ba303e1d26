"""How do chunks come by vectors of the embedder that is set, when they have none or another's?"""

from __future__ import annotations

from refdesk.model import Batch, Document, DocumentWrite
from refdesk.ports import Embedder, Store
from refdesk.prepare import embed_writes, vector_keys
from refdesk.progress import Progress

_DOCUMENTS = 200  # embedded at a time


def reembed(store: Store, embedder: Embedder, progress: Progress) -> int:
    """Gives every chunk a vector of this embedder; returns how many texts were embedded.

    A run that is killed leaves chunks without vectors, which the next one, or the next index run, embeds.
    """
    with store.stretch():
        store.set_embedder_identity(embedder.identity)
        return sum(embed_rest(store, embedder, one.name, progress) for one in store.collections())


def embed_rest(store: Store, embedder: Embedder, collection: str, progress: Progress) -> int:
    """Embeds the chunks of a collection that have no vector; returns how many texts were embedded."""
    embedded = done = 0
    with store.stretch():
        before: list[str] = []
        while (ids := store.unembedded(collection, _DOCUMENTS)) and ids != before:
            before = ids
            documents = [document for one in ids if (document := store.document(one)) is not None]
            writes = [_rewrite(store, document) for document in documents]
            made = embed_writes(store, embedder, writes)
            with store.writing():  # what changed since it was read is left to the next round
                same = tuple(write for write in writes if store.document(write.document.id) == write.document)
                if same:
                    store.apply(Batch(collection=collection, writes=same, vectors=made.vectors, pieces=made.pieces))
            store.give_way()
            embedded += len(made.vectors)
            done += len(documents)
            progress.step(done, 0, f"embedding {collection}")
    return embedded


def _rewrite(store: Store, document: Document) -> DocumentWrite:
    chunks = tuple(one.chunk for one in store.chunks_of(document.id))
    return DocumentWrite(
        document=document,
        raw=store.raw(document.id),
        chunks=chunks,
        vector_keys=vector_keys(chunks),
        symbols=tuple(store.symbols_of(document.id)),
        references=tuple(store.references_of(document.id)),
    )
