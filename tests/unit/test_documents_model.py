"""Any sequence of ingesting, updating and deleting leaves what a plain dictionary would hold."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from refdesk.app import open_desk
from refdesk.model import Batch, Filters, Query
from refdesk.settings import Settings

WORDS = ["harp", "viola", "cello", "oboe", "flute", "tuba", "bassoon", "celesta"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
names = st.sampled_from(["a.md", "b.txt", "c.py", "d.json"])
collections = st.sampled_from(["one", "two"])


def body(name: str, text: str) -> str:
    return {"md": f"# {text}\n\n{text}\n", "py": f"# {text}\nx = 1\n", "json": f'{{"k": "{text}"}}\n'}.get(
        name.rpartition(".")[2], f"{text}\n"
    )


class Library(RuleBasedStateMachine):
    """A real library beside a dictionary of what it should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.context = open_desk(Settings(library=self.folder / "library", embedder="none", workers=1))
        self.desk = self.context.__enter__()
        for name in ("one", "two"):
            self.desk.create_collection(name)
        self.files: dict[str, str] = {}
        self.held: dict[tuple[str, str], tuple[str, str]] = {}  # (collection, file name) → (document id, words)

    @rule(name=names, text=texts, collection=collections)
    def ingest(self, name: str, text: str, collection: str) -> None:
        file = self.folder / name
        file.write_text(body(name, text))
        report = self.desk.ingest(file.as_uri(), collection, roots=[self.folder])
        known = self.held.get((collection, name))
        (document_id,) = report.document_ids
        if known is not None:
            assert document_id == known[0]
            assert report.written == (text != known[1])
        self.held[collection, name] = (document_id, text)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        document_id, _ = self.held.pop(key)
        self.desk._store.apply(Batch(collection=key[0], removes=(document_id,)))
        assert self.desk.document(document_id) is None

    @invariant()
    def holds_what_it_should(self) -> None:
        for collection in ("one", "two"):
            listed = {one.path: one.id for one in self.desk.documents(collection, 100, 0)}
            assert listed == {name: kept[0] for (where, name), kept in self.held.items() if where == collection}

    @invariant()
    def finds_what_it_holds(self) -> None:
        for word in WORDS[:3]:
            query = Query(text=word, alpha=0.0, limit=50, filters=Filters(collections=("one",)))
            found = {hit.stored.document.path for hit in self.desk.search(query).hits}
            expected = {name for (where, name), kept in self.held.items() if where == "one" and word in kept[1].split()}
            texts_of = {kept[1] for (where, name), kept in self.held.items() if where == "one"}
            if len(texts_of) == len([1 for where, _ in self.held if where == "one"]):  # equal texts are one hit
                assert found == expected

    def teardown(self) -> None:
        self.context.__exit__(None, None, None)
        shutil.rmtree(self.folder)


TestLibrary = Library.TestCase
TestLibrary.settings = settings(
    max_examples=12, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
