"""Which changes of others are told, to whom?  Two desks on one library, as two processes have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.settings import Settings
from refdesk.toolsets.content import ToolAnswer
from refdesk.toolsets.contract import DirectContext
from refdesk.toolsets.rag.resources import Notices

TEXT = "# {}\n\nFirst words.\n\n## More\n\nOther words.\n"


class Heard:
    """One who watches some resources and hears of all."""

    def __init__(self) -> None:
        self.wanted: set[str] = set()
        self.told: list[str] = []

    def register(self, *tools: object) -> None: ...
    def relisted(self, kind: str) -> None: ...

    def updated(self, uri: str) -> None:
        self.told.append(uri)

    def watched(self) -> set[str]:
        return self.wanted


class Desks:
    """The desk that polls, another one that writes, and what is heard."""

    def __init__(self, root: Path, here: Desk, other: Desk) -> None:
        self._root, self.other, self.heard = root, other, Heard()
        self.notices = Notices(lambda: here)
        self.notices.attach(self.heard)
        other.create_collection("notes")

    def write(self, name: str, text: str) -> str:
        file = self._root / name
        file.write_text(text)
        (document,) = self.other.ingest(file.as_uri(), "notes").document_ids
        return f"rag://documents/{document}"

    def poll(self) -> list[str]:
        """The documents that are told of."""
        self.heard.told.clear()
        self.notices.poll()
        return [uri for uri in self.heard.told if uri.startswith("rag://documents/")]


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Desks]:
    settings = Settings(library=tmp_path / "library", embedder="none", workers=1, allow_roots=(str(tmp_path),))
    with open_desk(settings) as here, open_desk(settings) as other:
        yield Desks(tmp_path, here, other)


def test_only_watched_documents_that_changed_are_told(desks: Desks) -> None:
    kept, note, unwatched = (desks.write(name, TEXT.format(name)) for name in ("kept.md", "note.md", "third.md"))
    desks.heard.wanted = {kept, note, "rag://collections", "rag://documents/none"}
    desks.poll()
    assert desks.poll() == []
    desks.write("note.md", "# note.md\n\nFirst words.\n")  # a passage is gone, none is new
    assert desks.poll() == [note]
    desks.write("third.md", "All is new.\n")
    assert desks.poll() == []
    assert "rag://collections/notes" in desks.heard.told
    assert unwatched not in desks.heard.told
    desks.other.remove(note.rpartition("/")[2])
    assert desks.poll() == [note]
    assert desks.poll() == []


def test_a_change_between_the_subscription_and_the_next_look_is_told(desks: Desks) -> None:
    note = desks.write("note.md", TEXT.format("note"))
    desks.poll()
    desks.heard.wanted = {note}
    desks.write("note.md", "All is new.\n")
    assert desks.poll() == [note]


def test_what_a_call_told_itself_is_not_told_again(desks: Desks) -> None:
    note = desks.write("note.md", TEXT.format("note"))
    desks.heard.wanted = {note}
    desks.poll()

    def ingest(arguments: object, context: object) -> ToolAnswer:
        desks.write("note.md", "All is new.\n")
        return ToolAnswer((), updated=(note,))

    desks.notices.for_writer(ingest)({}, DirectContext())
    assert desks.poll() == []


def test_what_is_written_before_the_first_look_is_told(desks: Desks) -> None:
    desks.poll()
    assert "rag://collections/notes" in desks.heard.told  # made after the server had begun


def test_the_first_look_tells_nothing_where_nothing_was_written(desks: Desks, tmp_path: Path) -> None:
    note = desks.write("note.md", TEXT.format("note"))
    with open_desk(desks.other.settings) as later:
        notices = Notices(lambda: later)
        heard = Heard()
        notices.attach(heard)
        heard.wanted = {note, "rag://documents/none"}
        notices.poll()
    assert heard.told == []
