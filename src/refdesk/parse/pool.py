"""Who parses?  This process for little, workers for much; a file that kills or stalls its worker is skipped."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed, Skipped
from refdesk.ports import Parser

Answer = tuple[Content, Parsed | Skipped]

_INLINE_BYTES = 1_500_000  # less than this is parsed sooner than a worker starts
_GROUP_BYTES = 200_000
_GROUP_FILES = 32
_STALLED_S = 60.0  # a group that takes longer is taken apart, a file that takes longer is skipped


class Pool:
    """Parses contents with one parser in `workers` processes, in order."""

    def __init__(self, parser: Parser, workers: int = 0) -> None:
        self._parser = parser
        self._count = workers or min(8, os.cpu_count() or 1)

    def parse_all(self, contents: Iterable[Content], chunking: Chunking) -> Iterator[Answer]:
        """Each content with what was found in it, or with why it is left out, in the order given."""
        groups = _grouped(contents)
        inline = 0
        for group in groups:
            if self._count < 2 or inline + sum(len(one.data) for one in group) <= _INLINE_BYTES:
                inline += sum(len(one.data) for one in group)
                yield from parse_group(self._parser, group, chunking)
            else:
                yield from self._in_workers(_chain(group, groups), chunking)

    def _in_workers(self, groups: Iterable[Sequence[Content]], chunking: Chunking) -> Iterator[Answer]:
        idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        workers = [_Worker(self._parser) for _ in range(self._count)]
        for worker in workers:
            idle.put(worker)
        waiting: deque[Future[list[Answer]]] = deque()
        threads = ThreadPoolExecutor(self._count, thread_name_prefix="parse")
        try:
            for group in groups:
                waiting.append(threads.submit(_parse_by, idle, group, chunking))
                while len(waiting) > 2 * self._count:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            for worker in workers:
                worker.stop()
            threads.shutdown(wait=True)


def parse_group(parser: Parser, group: Sequence[Content], chunking: Chunking) -> list[Answer]:
    """Each content with its parse, or with why there is none."""
    return [(content, _parse_one(parser, content, chunking)) for content in group]


def _parse_one(parser: Parser, content: Content, chunking: Chunking) -> Parsed | Skipped:
    try:
        return parser.parse(content, chunking)
    except ParseFailed as error:
        return Skipped(path=content.path, reason=str(error))
    except (RecursionError, MemoryError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
        return Skipped(path=content.path, reason=f"the parser failed: {type(error).__name__}: {error}"[:300])


def _grouped(contents: Iterable[Content]) -> Iterator[list[Content]]:
    group: list[Content] = []
    size = 0
    for content in contents:
        group.append(content)
        size += len(content.data)
        if size >= _GROUP_BYTES or len(group) >= _GROUP_FILES:
            yield group
            group, size = [], 0
    if group:
        yield group


def _chain(first: Sequence[Content], rest: Iterable[Sequence[Content]]) -> Iterator[Sequence[Content]]:
    yield first
    yield from rest


def _parse_by(idle: queue.SimpleQueue[_Worker], group: Sequence[Content], chunking: Chunking) -> list[Answer]:
    worker = idle.get()
    try:
        parsed = worker.parse(group, chunking)
        if parsed is not None:
            return list(zip(group, parsed, strict=True))
        answers: list[Answer] = []
        for content in group:  # one of them killed the worker: find out which, keep the others
            alone = worker.parse([content], chunking)
            answers.append((content, alone[0] if alone else Skipped(path=content.path, reason=_FATAL)))
        return answers
    finally:
        idle.put(worker)


_FATAL = f"the parser crashed on it or took over {_STALLED_S:.0f} s"


class _Worker:
    """A process that parses what it is sent and ends when its pipe does."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._stopped = False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._parser), daemon=True)
        with _main_not_rerun():
            self._process.start()
        theirs.close()

    def parse(self, group: Sequence[Content], chunking: Chunking) -> list[Parsed | Skipped] | None:
        """What the process found, or None when it died or stalled; a new one stands ready then."""
        try:
            self._pipe.send((group, chunking))
            if self._pipe.poll(_STALLED_S):
                found: list[Parsed | Skipped] = self._pipe.recv()
                return found
        except (OSError, EOFError):
            pass
        if not self._stopped:
            self._end()
            self._start()
        return None

    def stop(self) -> None:
        self._stopped = True
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


_main_lock = threading.Lock()


@contextlib.contextmanager
def _main_not_rerun() -> Iterator[None]:
    """Keeps multiprocessing from importing the caller's main module in the child, which has no need of it."""
    main: Any = sys.modules.get("__main__")
    with _main_lock:
        kept = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
        try:
            main.__spec__ = None
            if hasattr(main, "__file__"):
                del main.__file__
            yield
        finally:
            main.__spec__ = kept["__spec__"]
            if kept["__file__"] is not None:
                main.__file__ = kept["__file__"]


def _serve(pipe: Connection, parser: Parser) -> None:
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            group, chunking = pipe.recv()
            pipe.send([_parse_one(parser, content, chunking) for content in group])
