"""The journal of tool calls: a bounded file of the library, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from filelock import FileLock, Timeout

from refdesk.library import Library, new_id
from refdesk.system.files import private, replace_file
from refdesk.toolsets.content import Text, ToolAnswer

_LONGEST = 300  # characters of an argument; a longer one is a document or a conversation, which is not kept
_PRIVATE = frozenset({"conversation", "feedback", "metadata", "content"})
_SLACK = 1.25  # the file is rewritten when it has this many times the lines that are kept
_TOTAL = re.compile(r"^total: (\d+)$|\A(\d+) results? for ", re.MULTILINE)  # of search_code's text formats
_SOON_S = 0.5  # after which calls are written together: one by one took 2 ms of each
_PATIENCE_S = 2.0  # while another process writes
_CHARACTERS = 4  # to a token, about; a count takes 1 ms for a full answer
_LINE = 200  # bytes of a line at least, to know without reading that a file is short enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    id: str
    at: int  # milliseconds since the epoch
    tool: str
    query: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    hits: int | None = None  # None where the tool does not search
    tokens: int = 0
    ms: int = 0
    failed: bool = False


class Journal:
    """The calls of all processes that serve one library, the last `most` of them."""

    def __init__(self, library: Library, most: int) -> None:
        self._file = library.journal
        self._most = most
        self._mutex = threading.Lock()
        self._pending: list[str] = []
        self._is_timed = False  # whether a timer will write what is pending

    def note(self, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer | None, seconds: float) -> None:
        """Adds a call; conversations and documents among its arguments are left out."""
        kept = {
            name: value
            for name, value in arguments.items()
            if name not in _PRIVATE and isinstance(value, str | int | float) and len(str(value)) <= _LONGEST
        }
        query = str(kept.pop("query", ""))
        if tool == "search_skills":  # what a customer wrote
            from refdesk.skills.redact import redact

            query = redact(query)
        texts = [block.text for block in answer.content if isinstance(block, Text)] if answer else []
        call = Call(
            id=new_id(),
            at=time.time_ns() // 1_000_000,
            tool=tool,
            query=query,
            arguments=kept,
            hits=_hits(answer, texts) if answer and not answer.is_error else None,
            tokens=sum(map(len, texts)) // _CHARACTERS,
            ms=round(seconds * 1000),
            failed=answer is None or answer.is_error,
        )
        with self._mutex:
            self._pending.append(json.dumps(asdict(call), ensure_ascii=False) + "\n")
            if not self._is_timed:
                self._is_timed = True
                waiting = threading.Timer(_SOON_S, self.flush)
                waiting.daemon = True
                waiting.start()

    def flush(self) -> None:
        """Writes pending calls; after a failure they are written with the next ones."""
        with self._mutex:
            lines, self._pending, self._is_timed = self._pending, [], False
        if not lines:
            return
        try:
            with self._lock():
                with open(self._file, "a", encoding="utf-8", opener=private) as file:
                    file.writelines(lines)
                is_long = self._file.stat().st_size > self._most * _LINE
                if is_long and len(kept := self._lines()) > self._most * _SLACK:
                    replace_file(self._file, "\n".join(kept[-self._most :]) + "\n")
        except (Timeout, OSError):
            with self._mutex:
                self._pending = [*lines, *self._pending][-self._most :]

    def calls(self) -> list[Call]:
        """The calls, newest first."""
        self.flush()
        found = []
        for line in reversed(self._lines()):
            with contextlib.suppress(ValueError, TypeError):  # cut off by a crash, or of another version
                found.append(Call(**json.loads(line)))
        return found[: self._most]

    def clear(self) -> None:
        self.flush()
        with self._lock():
            self._file.unlink(missing_ok=True)

    def _lines(self) -> list[str]:
        try:
            return self._file.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    def _lock(self) -> FileLock:
        return FileLock(f"{os.fspath(self._file)}.lock", timeout=_PATIENCE_S)


def _hits(answer: ToolAnswer, texts: list[str]) -> int | None:
    """The number of hits in an answer, by the shapes of the contracts; None if it is not from a search."""
    data = answer.structured or {}
    for name in ("results", "hits", "findings"):
        if isinstance(data.get(name), list):
            return len(data[name])
    if "skill" in data:
        return int(data["skill"] is not None)
    if data.get("format") in ("toon", "human") and (told := _TOTAL.search(texts[0] if texts else "")):
        return int(told[1] or told[2])
    if texts and texts[0].startswith("No results found"):
        return 0
    return texts[0].count("\n\n---\n\n") or None if texts else None
