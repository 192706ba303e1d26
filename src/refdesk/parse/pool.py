"""Who parses?  This process for little, workers for much; a file that kills or stalls its worker is skipped."""

from __future__ import annotations

import os
import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from refdesk.model import Chunking, Content, Skipped
from refdesk.parse.worker import STALLED_S, Worker, prepare_one, unpacked
from refdesk.ports import Embedder, Parser
from refdesk.prepare import Missing, Prepared

Answer = tuple[Content, Prepared | Skipped]

_INLINE_BYTES = 1_500_000  # less than this is parsed sooner than a worker starts
_MANY_BYTES = 3 * _INLINE_BYTES
_GROUP_BYTES = 200_000
_GROUP_FILES = 32
_AHEAD = 10  # groups for each worker that may be under way: a batch, and what is owed, take a second to write
_FATAL = f"the parser crashed on it or took over {STALLED_S:.0f} s"


class Pool:
    """Parses contents with one parser in `workers` processes, in order; they also embed where they are given how."""

    def __init__(self, parser: Parser, embedder: Embedder | None = None, workers: int = 0) -> None:
        self._parser = parser
        self._embedder = embedder
        self._count = workers or min(8, os.cpu_count() or 1)

    def parse_all(
        self, contents: Iterable[Content], chunking: Chunking, missing: Missing, size: int = 0
    ) -> Iterator[Answer]:
        """Each content with what was found in it, or with why it is left out, in the order given.

        Where it is known that many bytes will come, no time is lost before the workers start.
        """
        groups = _grouped(contents)
        inline = 0
        workers: list[Worker] = []
        try:
            for group in groups:
                more = sum(len(one.data) for one in group)
                if self._count < 2 or (size <= _MANY_BYTES and inline + more <= _INLINE_BYTES):
                    inline += more
                    yield from ((content, prepare_one(self._parser, content, chunking)) for content in group)
                else:
                    yield from self._in_workers(workers, _chain(group, groups), chunking, missing)
                is_more = not size or size > _INLINE_BYTES  # to come; workers come up meanwhile
                if self._count > 1 and not workers and is_more and inline > _INLINE_BYTES // 2:
                    workers = [Worker(self._parser, self._embedder) for _ in range(self._count)]
        finally:
            for worker in workers:
                worker.stop()

    def _in_workers(
        self, workers: list[Worker], groups: Iterable[Sequence[Content]], chunking: Chunking, missing: Missing
    ) -> Iterator[Answer]:
        idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        workers += [Worker(self._parser, self._embedder) for _ in range(self._count - len(workers))]
        for worker in workers:
            idle.put(worker)
        waiting: deque[Future[Callable[[], list[Answer]]]] = deque()
        threads = ThreadPoolExecutor(self._count, thread_name_prefix="parse")
        try:
            for group in groups:
                waiting.append(threads.submit(_parse_by, idle, group, chunking, missing))
                while len(waiting) > _AHEAD * self._count:
                    yield from waiting.popleft().result()()
            while waiting:
                yield from waiting.popleft().result()()
        finally:
            for future in waiting:
                future.cancel()
            for worker in workers:
                worker.stop()
            threads.shutdown(wait=True)


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


def _parse_by(
    idle: queue.SimpleQueue[Worker], group: Sequence[Content], chunking: Chunking, missing: Missing
) -> Callable[[], list[Answer]]:
    """Has the group parsed, and returns how to unpack it: the worker need not wait for that."""
    worker = idle.get()
    try:
        found = worker.prepare(group, chunking, missing)
        if found is not None:
            return lambda: list(zip(group, unpacked(found), strict=True))
        answers: list[Answer] = []
        for content in group:  # one of them killed the worker: find out which, keep the others
            alone = worker.prepare([content], chunking, missing)
            answers.append(
                (content, unpacked(alone)[0] if alone else Skipped(path=content.path, reason=_FATAL, failed=True))
            )
        return lambda: answers
    finally:
        idle.put(worker)
