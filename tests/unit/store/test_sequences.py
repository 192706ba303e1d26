"""Random sequences of operations on a store, compared with a model in memory."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from refdesk.library import LEXICAL_FOLDER, VECTORS_FILE
from refdesk.model import Batch, DocumentWrite, Filters, Ranking
from refdesk.store.local import LocalStore
from refdesk.store.vectors import follower as vector_follower
from refdesk.store.vectors import index as vectors
from refdesk.store.vectors import table
from tests.ports.library import IDENTITY, batch, collection, vector, write

_MEMORY = Path("/dev/shm")  # tantivy syncs each commit to disk, which takes most of the time here
WORDS = ["alpha", "beta", "gamma", "delta"]
COLLECTIONS = ["one", "two"]
PATHS = ["src/a.py", "src/b.md", "docs/a.py", "src_utils/c.py"]
texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=5)
documents = st.sampled_from(["d1", "d2", "d3", "d4"])
names = st.sampled_from(COLLECTIONS)
paths = st.sampled_from(PATHS)


class StoreMachine(RuleBasedStateMachine):
    """Two stores on one folder against a dictionary."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="refdesk-test-", dir=_MEMORY if _MEMORY.is_dir() else None))
        self.model: dict[str, DocumentWrite] = {}
        self.ids: dict[int, str] = {}
        self.stores = [self.opened(), self.opened()]
        for name in COLLECTIONS:
            self.stores[0].put_collection(collection(name))
        self.stores[0].set_embedder_identity(IDENTITY)

    def opened(self) -> LocalStore:
        return LocalStore(self.folder, lock_timeout_s=5)

    def teardown(self) -> None:
        for store in getattr(self, "stores", []):
            store.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @rule(which=st.integers(0, 1), document=documents, words=texts, name=names, path=paths, embedded=st.booleans())
    def write(self, which: int, document: str, words: list[str], name: str, path: str, embedded: bool) -> None:
        written = write(document, words, name=name, path=path, vectors=embedded)
        self.stores[which].apply(batch(written, name=name))
        self.model[document] = written

    @rule(which=st.integers(0, 1), data=st.data(), name=names)
    def write_and_remove_together(self, which: int, data: st.DataObject, name: str) -> None:
        written, gone = data.draw(documents), data.draw(documents)
        put = write(written, ["alpha beta"], name=name)
        removes = (gone,) if gone != written else ()
        self.stores[which].apply(batch(put, name=name, removes=removes))
        if removes:
            self.model.pop(gone, None)
        self.model[written] = put

    @precondition(lambda self: self.model)
    @rule(which=st.integers(0, 1), data=st.data(), path=paths)
    def touch(self, which: int, data: st.DataObject, path: str) -> None:
        document = data.draw(st.sampled_from(sorted(self.model)))
        old = self.model[document]
        new = dataclasses.replace(old.document, path=path, metadata={"touched": path})
        self.stores[which].apply(Batch(collection=new.collection, touches=(new,)))
        self.model[document] = dataclasses.replace(old, document=new)

    @rule(which=st.integers(0, 1), name=names)
    def empty_collection(self, which: int, name: str) -> None:
        self.stores[which].remove_collection(name)
        self.stores[which].put_collection(collection(name))
        self.model = {key: value for key, value in self.model.items() if value.document.collection != name}

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        self.stores[which].close()
        self.stores[which] = self.opened()

    @rule()
    def lose_the_followers(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder / LEXICAL_FOLDER, ignore_errors=True)
        (self.folder / VECTORS_FILE).unlink(missing_ok=True)
        self.stores = [self.opened(), self.opened()]

    @rule()
    def keep_a_snapshot(self) -> None:
        with self.stores[0].writing():
            self.stores[0]._vectors.save()

    @invariant()
    def stores_agree_with_the_model(self) -> None:
        for store in getattr(self, "stores", []):
            self.check(store)

    def check(self, store: LocalStore) -> None:
        wanted = [
            (document.document, chunk, key)
            for document in self.model.values()
            for chunk, key in zip(document.chunks, document.vector_keys, strict=True)
        ]
        for word in WORDS:
            expected = sorted((d.id, c.key) for d, c, _ in wanted if word in c.text.split())
            assert self.addresses(store, store.view().lexical([word], 100)) == expected
        for filters in (Filters(), Filters(collections=("one",)), Filters(paths=("src",)), Filters(extensions=("md",))):
            expected = sorted(
                (d.id, c.key) for d, c, key in wanted if key and self.allows(filters, d.collection, d.path)
            )
            assert self.addresses(store, store.view(filters).nearest(vector("alpha"), 100)) == expected
        for document, written in self.model.items():
            held = store.chunks_of(document)
            assert [h.chunk for h in held] == list(written.chunks)
            assert store.raw(document) == written.raw
            assert store.document(document) == written.document
            for h in held:  # an id means one passage for ever
                assert self.ids.setdefault(h.id, h.chunk.text) == h.chunk.text
        assert store.stats().documents == len(self.model)

    @staticmethod
    def allows(filters: Filters, name: str, path: str) -> bool:
        return (
            (not filters.collections or name in filters.collections)
            and (not filters.paths or path.startswith("src/"))
            and (not filters.extensions or path.endswith(".md"))
        )

    @staticmethod
    def addresses(store: LocalStore, scored: Ranking) -> list[tuple[str, str]]:
        held = store.chunks(scored.ids)
        assert len(held) == len(scored)
        return sorted((h.document.id, h.chunk.key) for h in held.values())


@pytest.mark.parametrize("engine", ["exact", "turbovec"])
def test_any_sequence_of_operations_agrees_with_the_model(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_follower, "_FEW", 8)  # so that snapshots are renewed and the log is trimmed
    monkeypatch.setattr(vectors, "EXACT_UP_TO", 3 if engine == "turbovec" else 1000)
    monkeypatch.setattr(vectors, "_ASIDE", 4)
    monkeypatch.setattr(table, "_FEW_GONE", 1)
    StoreMachine.TestCase.settings = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(StoreMachine, settings=StoreMachine.TestCase.settings)
