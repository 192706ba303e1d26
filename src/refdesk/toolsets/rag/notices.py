"""Notifies subscribers of changes made by other processes or toolsets, and drops near-duplicates from results."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from refdesk.desk.desk import Desk
from refdesk.errors import RefdeskError
from refdesk.model import Hit
from refdesk.toolsets.content import Json, ToolAnswer
from refdesk.toolsets.contract import Announcer, CallContext, Tool

_WORD = re.compile(r"\w+")
_RUN = 3  # words per shingle
_ALIKE = 0.8  # share of common shingles from which two texts are near-duplicates
_FEW = 8  # words up to which texts must be equal


def without_near_duplicates(hits: Sequence[Hit], query: str, most: int) -> tuple[list[Hit], int]:
    """At most `most` hits without near-duplicates of better ones, and the number of those dropped.

    Texts that differ in a word of the query are never duplicates.
    """
    asked = frozenset(_words(query))
    kept: list[tuple[Hit, frozenset[str], frozenset[tuple[str, ...]]]] = []
    passed = 0
    for hit in hits:
        if len(kept) == most:
            break
        passed += 1
        words = _words(hit.stored.chunk.text)
        met, runs = asked.intersection(words), _runs(words)
        if not any(met == other and _alike(runs, known) for _, other, known in kept):
            kept.append((hit, met, runs))
    return [hit for hit, _, _ in kept], passed - len(kept)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _runs(words: Sequence[str]) -> frozenset[tuple[str, ...]]:
    if len(words) < _FEW:
        return frozenset([tuple(words)])
    return frozenset(zip(*(words[start:] for start in range(_RUN)), strict=False))


def _alike(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> bool:
    if min(len(one), len(other)) < _ALIKE * max(len(one), len(other)):
        return False
    return len(one & other) >= _ALIKE * len(one | other)


_DOCUMENTS = "rag://documents/"
_SLACK_MS = 10_000  # a document gets its date before it is written

Handler = Callable[[Json, CallContext], ToolAnswer]
State = tuple[int, str] | None  # when a document changed and what it holds; None when it is gone


class Notices:
    """Polls the record for changes.

    It does not know which collections changed, so all are announced; of documents, only subscribed ones are compared.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._mutex = threading.Lock()
        self._announcer: Announcer | None = None
        self._announced: int | None = None  # the record's state that clients know of
        self._names: frozenset[str] = frozenset()
        self._watched = Watched(desk)
        self._writing = 0  # running calls, which announce their own writes

    def attach(self, announcer: Announcer) -> None:
        self._announcer = announcer
        with contextlib.suppress(RefdeskError):  # the first poll announces what was written before
            self._settle()
            self._watched.begin(self._desk.sequence())

    def for_writer(self, handler: Handler) -> Handler:
        """Wraps a handler that writes, whose answer announces its own changes."""

        def call(arguments: Json, context: CallContext) -> ToolAnswer:
            with self._mutex:
                self._writing += 1
            answer: ToolAnswer | None = None
            try:
                answer = handler(arguments, context)
                return answer
            finally:
                with self._mutex:
                    self._writing -= 1
                    if answer is not None:
                        self._settle()
                        self._watched.know(answer.updated)

        return call

    def _settle(self) -> None:
        self._announced, self._names = self._desk.sequence(), self._collections()

    def poll(self) -> Sequence[Tool]:
        """Announces changes since the last call; returns no tools, since they never change."""
        with self._mutex, contextlib.suppress(RefdeskError):  # calls report what is wrong with the library
            now = self._desk.sequence()
            if self._announced is None:
                self._settle()
            if self._announcer is None or self._writing:
                return ()
            for uri in self._watched.changed(self._announcer.watched(), now):
                self._announcer.updated(uri)
            if now != self._announced:
                self._announce_collections(self._announcer, now)
        return ()

    def _announce_collections(self, announcer: Announcer, now: int) -> None:
        before, self._names, self._announced = self._names, self._collections(), now
        for name in sorted(self._names | before):
            announcer.updated(f"rag://collections/{name}")
        announcer.updated("rag://collections")
        if self._names != before:
            announcer.relisted("resources")

    def _collections(self) -> frozenset[str]:
        return frozenset(one.name for one in self._desk.collections())


class Watched:
    """The last known state of subscribed documents; they are looked up by id, and only after a commit."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen: dict[str, State] = {}
        self._at: int | None = None  # the record's state then
        self._looked = 0.0  # when, in milliseconds

    def begin(self, now: int) -> None:
        """Starts watching at this state of the record."""
        self._at, self._looked = now, time.time() * 1000

    def changed(self, uris: Iterable[str], now: int) -> list[str]:
        """The documents that changed since the last call, or newly subscribed ones that may have."""
        wanted = {uri for uri in uris if uri.startswith(_DOCUMENTS)}
        went_on, self._at = now != self._at, now
        since, self._looked = self._looked - _SLACK_MS, time.time() * 1000
        before, self._seen = self._seen, {}
        found: list[str] = []
        for uri in sorted(wanted):
            if uri in before and not went_on:
                self._seen[uri] = before[uri]
                continue
            state = self._seen[uri] = self._state(uri)
            is_other = state != before[uri] if uri in before else state is None or state[0] >= since
            if went_on and is_other:
                found.append(uri)
        return found

    def know(self, uris: Iterable[str]) -> None:
        """Updates the state of documents whose change was announced otherwise."""
        for uri in uris:
            if uri in self._seen:
                self._seen[uri] = self._state(uri)

    def _state(self, uri: str) -> State:
        document = self._desk.document(uri.removeprefix(_DOCUMENTS))
        return (document.updated_at, document.content_hash) if document is not None else None
