"""The full-text index, on tantivy."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from refdesk.errors import RefdeskError
from refdesk.model import metadata_text
from refdesk.store.record import rows
from refdesk.store.record.database import Applied
from refdesk.store.words import query
from refdesk.store.words.keeper import META_FILE, Checked, check_folder, schema_checksum
from refdesk.system.files import make_all_private
from refdesk.text.analyse import joined, names

if TYPE_CHECKING:
    import tantivy
    from filelock import FileLock

_log = logging.getLogger(__name__)

VERSION = 2  # of the fields below and of the analyser; another version is rebuilt
_HEAP_BYTES = 64_000_000
_SLICE = 1000
_NO_CHUNK = -1
_LOCK = "lexical.lock"  # beside the folder, which is removed when it is made anew

_COLUMNS = """
SELECT c.id, d.collection, c.document, c.kind, c.type, c.language, d.extension, d.path, d.metadata, c.metadata,
       c.title, c.breadcrumb, c.symbols"""
_WITH_TEXT = f"{_COLUMNS}, t.text FROM chunks c JOIN documents d ON d.id = c.document JOIN texts t ON t.id = c.text"
_WITHOUT_TEXT = f"{_COLUMNS}, '' FROM chunks c JOIN documents d ON d.id = c.document"  # where its terms are known
_THESE = "WHERE c.id IN (SELECT value FROM json_each(?)) ORDER BY c.id"
BY_ID = f"{_WITH_TEXT} {_THESE}"  # what the fields of some chunks are made of
WIDTH = 14  # columns of it


class IndexDamaged(Exception):
    """The full-text index could not be read or written as it should."""


@contextmanager
def seam() -> Iterator[None]:
    """Where tantivy is called: what it says in any of many types, a panic of Rust among them, is one error."""
    try:
        yield
    except RefdeskError:
        raise
    except BaseException as error:
        # A panic is no Exception, so that nobody goes on after it by accident; its type can't be imported.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise IndexDamaged(str(error) or type(error).__name__) from error


class LexicalIndex:
    """A tantivy folder: read by any process, written by the one that has claimed it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.applied: Applied | None = None  # of the searcher in use
        self.taken: Applied | None = None  # how far the open writer has come, which has not committed all of it
        self._last_id = 0  # no chunk after it is in the searcher in use
        self._last_taken_id = 0  # or in the open writer
        self._mutex = threading.RLock()
        self._index: tantivy.Index | None = None
        self._searcher: tantivy.Searcher | None = None
        self._loaded: tuple[int, int, int] | None = None  # the commit that it was made of
        self._frequencies: query.Frequencies = {}
        self._writer: tantivy.IndexWriter | None = None
        self._checked: Checked = {}
        self._linked: tempfile.TemporaryDirectory[str] | None = None
        self._lock: FileLock | None = None

    # reading

    @property
    def readable(self) -> bool:
        """Whether there is a state to search."""
        return self._searcher is not None

    @property
    def exists(self) -> bool:
        """Whether an index was made here, damaged or not."""
        return (self.folder / META_FILE).exists()

    def current(self) -> tuple[tantivy.Searcher, tantivy.Schema, query.Frequencies] | None:
        """The state last loaded, its schema and the frequencies known of it; None for one that is only being built."""
        with self._mutex:
            if not self._searcher or not self._index or not self.applied:
                return None
            return self._searcher, self._index.schema, self._frequencies

    def reload(self) -> None:
        """Loads the last commit; leaves no searcher when the folder can't be read."""
        with self._mutex:
            try:
                with seam():
                    commit = self._commit_state()
                    if self._searcher is None or commit != self._loaded:
                        self._load()
                        self._loaded = commit
            except IndexDamaged as error:
                if self.exists:
                    _log.warning("the full-text index can't be read: %s", error)
                self._forget()

    def reopen(self) -> None:
        """Loads the last commit as a new process would."""
        with self._mutex:
            self._forget()
            self._checked = {}
            self.reload()

    def problem(self) -> str | None:
        """What is wrong with the index that was loaded; every byte of it is checked."""
        found = self.current()
        if found is None:
            return "is missing or can't be read"
        try:
            with seam():
                check_folder(self.folder, {})
                if query.holds_another_number(*found[:2]):
                    return "holds another number of passages than it says"
        except IndexDamaged as error:
            return f"is damaged: {error}"
        return None

    def _commit_state(self) -> tuple[int, int, int] | None:
        """Tells the commits in the folder apart: each writes a new file of this name."""
        try:
            found = (self.folder / META_FILE).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _load(self) -> None:
        import tantivy

        # Damage is looked for before tantivy maps a file: what it makes of a wrong byte may be anything, also an end of
        # the process. All of it takes 27 ms for 100,000 passages (29 MB), once; later only what is new is read.
        if self.exists:
            check_folder(self.folder, self._checked)
        if self._index is None:
            self._index = tantivy.Index.open(str(self._readable_folder()))
            self._index.config_reader("Manual")
        self._index.reload()
        searcher = self._index.searcher()
        self.applied, self._last_id = _read_mark(searcher, self._index.schema, schema_checksum(self.folder))
        self._searcher, self._frequencies = searcher, {}

    def _readable_folder(self) -> Path:
        """The folder, or one of links to its files where tantivy could not put its lock."""
        probe = self.folder / ".tantivy-meta.lock"
        try:
            with probe.open("a"):
                return self.folder
        except OSError:
            if not (self.folder / META_FILE).exists():
                raise
        self._linked = tempfile.TemporaryDirectory(prefix="refdesk-", ignore_cleanup_errors=True)
        for file in self.folder.iterdir():
            if not file.name.endswith(".lock"):
                (Path(self._linked.name) / file.name).symlink_to(file.absolute())
        return Path(self._linked.name)

    def _forget(self) -> None:
        self._index = self._searcher = self.applied = None
        if self._linked is not None:
            self._linked.cleanup()
            self._linked = None

    # writing: by the process that claimed it, and one thread of it at a time; the mutex is for those who read meanwhile

    def claim(self) -> bool:
        """Whether this process may write: no other does until it is released or this process ends."""
        from filelock import FileLock, Timeout

        if self._lock is None:
            self._lock = FileLock(self.folder.with_name(_LOCK), thread_local=False, mode=0o600)
        try:
            if not self._lock.is_locked:
                self._lock.acquire(timeout=0)
        except Timeout:
            return False
        return True

    def release(self) -> None:
        """Lets other processes write."""
        if self._lock is not None:
            self._lock.release()

    @property
    def is_writing(self) -> bool:
        """Whether a writer is open, so that nobody else has written since."""
        return self._writer is not None

    def start_over(self) -> None:
        """Leaves an empty index in place of whatever is in the folder."""
        import tantivy

        self.stop_writing()
        with self._mutex:
            self._forget()
            self._last_id = 0
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._index = tantivy.Index(query.schema(), str(self.folder))
            self._index.config_reader("Manual")

    def take(
        self,
        db: sqlite3.Connection,
        chunk_ids: Sequence[int] | None,
        applied: Applied,
        terms: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Takes these chunks, or all, from the record as they are now; some texts' terms are known.

        They are found once they are committed, and lost if that never happens.
        """
        from tantivy import Document

        writer, schema = self._open_writer()
        highest = max(self._last_id, self._last_taken_id)
        # Those that may be here; a commit without removals takes half the time.
        known = [chunk_id for chunk_id in chunk_ids or () if chunk_id <= highest]
        if known:
            # tantivy numbers the first operation of a writer like the last commit. A removal of that number is lost
            # where segments are merged that the process before was killed before it could merge, so it removes nothing.
            writer.delete_documents_by_term("id", _NO_CHUNK)
            writer.delete_documents_by_term("mark", query.MARK)
        for chunk_id in known:
            writer.delete_documents_by_term("id", chunk_id)
        with closing(_found(db, chunk_ids, terms)) as found:  # an interrupted one would outlive the connection
            # One after the other without a pause: tantivy's thread falls asleep, and is woken, between slow ones.
            while documents := [Document.from_dict(fields_of(row, terms), schema) for row in islice(found, _SLICE)]:
                for document in documents:
                    writer.add_document(document)
        last = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").fetchone()
        self._last_taken_id = last[0] if last else 0
        self.taken = applied

    def commit(self) -> None:
        """Lets everybody find what was taken, and how far that goes."""
        import tantivy

        writer, schema = self._open_writer()
        assert self.taken is not None
        of_schema = schema_checksum(self.folder)
        state = f"{VERSION}:{self.taken.seq}:{self.taken.token}:{self._last_taken_id}:{of_schema}"
        mark = {"mark": query.MARK, "seq": self.taken.seq, "state": state}
        writer.add_document(tantivy.Document.from_dict(mark, schema))
        writer.commit()
        make_all_private(self.folder)
        self.reload()

    def _open_writer(self) -> tuple[tantivy.IndexWriter, tantivy.Schema]:
        with self._mutex:
            assert self._index is not None
            if self._writer is None:
                self._writer = self._index.writer(_HEAP_BYTES, 1)
            return self._writer, self._index.schema

    def stop_writing(self) -> None:
        """Lets merges end and gives up tantivy's own lock."""
        writer = self._writer
        self.abandon_writing()
        if writer is not None:
            writer.wait_merging_threads()
            make_all_private(self.folder)

    def abandon_writing(self) -> None:
        """Drops what was not committed."""
        self._writer = self.taken = None
        self._last_taken_id = 0

    def close(self) -> None:
        self.stop_writing()
        self.release()
        with self._mutex:
            self._forget()


def _read_mark(searcher: tantivy.Searcher, schema: tantivy.Schema, of_schema: int) -> tuple[Applied | None, int]:
    """The last commit that the index holds, and the last chunk id of the record at that time."""
    import tantivy

    marks = tantivy.Query.term_query(schema, "mark", query.MARK)
    found = searcher.search(marks, 1, order_by_field="seq").hits
    if not found:
        return None, 0
    version, seq, token, last_id, *more = str(searcher.doc(found[0][1])["state"][0]).split(":")
    if int(version) != VERSION:
        return None, 0
    if int(more[0]) != of_schema:
        raise ValueError("it has other fields than it was made with")
    return Applied(int(seq), token), int(last_id)


def _found(
    db: sqlite3.Connection, chunk_ids: Sequence[int] | None, terms: Mapping[int, str]
) -> Generator[tuple[Any, ...], None, None]:
    if chunk_ids is None:
        yield from db.execute(f"{_WITH_TEXT} ORDER BY c.id")
        return
    for start in range(0, len(chunk_ids), _SLICE):
        wanted = chunk_ids[start : start + _SLICE]
        select = f"{_WITHOUT_TEXT} {_THESE}" if all(map(terms.get, wanted)) else BY_ID
        yield from db.execute(select, (json.dumps(list(wanted)),))


def fields_of(row: Sequence[Any], terms: Mapping[int, str]) -> dict[str, Any]:
    """A chunk as the index takes it: the terms of its text fields with blanks between them."""
    (chunk_id, collection, document, kind, type_, language, extension, path, document_metadata, chunk_metadata,
     title, breadcrumb, symbols, text) = row  # fmt: skip
    defined = list(map(_analysed_symbol, rows.load_names(symbols)))
    metadata = {**rows.load_map(document_metadata), **rows.load_map(chunk_metadata)}
    return {
        "id": chunk_id,
        "content": terms.get(chunk_id) or joined(text),
        "title": " ".join((_analysed(title), _analysed_names(breadcrumb), *[analysed for analysed, _ in defined])),
        "symbol": " ".join(dict.fromkeys(name for _, known_as in defined for name in known_as)),
        "path": _analysed(path),
        "collection": str(collection),
        "document": document,
        "kind": kind,
        "type": type_,
        "language": language,
        "extension": extension,
        "meta": [f"{key}{query.SEPARATOR}{metadata_text(value)}" for key, value in metadata.items()],
    }


_analysed = lru_cache(maxsize=20_000)(joined)  # headings and paths come again and again


@lru_cache(maxsize=2_000)
def _analysed_names(dumped: str) -> str:
    """The terms of a breadcrumb, which many chunks share."""
    return " ".join(map(_analysed, rows.load_names(dumped)))


@lru_cache(maxsize=20_000)
def _analysed_symbol(symbol: str) -> tuple[str, list[str]]:
    """The terms of a symbol, and what it is as one term: its joined form, and what the analyser makes of the whole."""
    analysed = joined(symbol)
    return analysed, [*names(symbol), *analysed.split(" ", 1)[:1]] if analysed else names(symbol)
