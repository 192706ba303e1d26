"""Who parses?  Other processes, always: a file that kills or stalls one is skipped, and costs nobody else anything."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from refdesk.model import Chunking, Content, Skipped
from refdesk.parse.crew import CREW, Worker
from refdesk.parse.worker import unpacked
from refdesk.ports import Embedder, Parser
from refdesk.prepare import Missing, Prepared

Answer = tuple[Content, Prepared | Skipped | None]

_BYTES_A_WORKER = 1_500_000  # parsed sooner than another worker starts
_GROUP_BYTES = 200_000
_GROUP_FILES = 32
_AHEAD = 10  # groups for each worker that may be under way: a batch, and what is owed, take a second to write


@dataclass(slots=True)
class _Run:
    """One call of `parse_all`."""

    chunking: Chunking
    missing: Missing
    embedder: Embedder | None
    until: float
    busy: set[Worker] = field(default_factory=set)
    is_over: bool = False


class Pool:
    """Parses contents with one parser, in order, in at most `workers` processes.

    Where there is much to do they also embed; vectors for little are made sooner by whoever has the model loaded.
    """

    def __init__(self, parser: Parser, embedder: Embedder | None = None, workers: int = 0) -> None:
        self._parser = parser
        self._embedder = embedder
        cores = os.cpu_count() or 1
        # One is left to those who ask, but not of two: a single worker and whoever writes wait for each other.
        self._count = workers or min(8, cores - 1 if cores > 2 else cores)

    def parse_all(
        self, contents: Iterable[Content], chunking: Chunking, missing: Missing, size: int = 0, until: float = math.inf
    ) -> Iterator[Answer]:
        """Each content with what was found in it, or with why it is left out, in the order given.

        With None where it had not begun `until` then.
        """
        wanted = min(self._count, 1 + size // _BYTES_A_WORKER)
        embedder = self._embedder if wanted > 1 else None
        run = _Run(chunking, missing, embedder, until)
        groups = _grouped(contents, _GROUP_FILES if until == math.inf else 1)
        if wanted == 1:
            for group in groups:
                yield from self._parse(group, run)()
            return
        waiting: deque[Future[Callable[[], list[Answer]]]] = deque()
        threads = ThreadPoolExecutor(wanted, thread_name_prefix="parse")
        try:
            for group in groups:
                waiting.append(threads.submit(self._parse, group, run))
                while len(waiting) > _AHEAD * wanted:
                    yield from waiting.popleft().result()()
            while waiting:
                yield from waiting.popleft().result()()
        finally:
            for future in waiting:
                future.cancel()
            run.is_over = True
            for worker in list(run.busy):
                worker.kill()
            threads.shutdown(wait=True)

    def _parse(self, group: Sequence[Content], run: _Run) -> Callable[[], list[Answer]]:
        """Has the group parsed, and returns how to unpack it: the worker need not wait for that."""
        parts: list[Callable[[], list[Answer]]] = []
        rest, is_suspect = group, False
        while rest and not run.is_over:
            if time.monotonic() > run.until:
                parts.append(partial(list, [(content, None) for content in rest]))
                break
            with CREW.one(self._count, unused=is_suspect) as worker:
                if run.is_over:  # while this waited for its turn
                    break
                run.busy.add(worker)
                is_new = worker.used == 0
                answers, embedded = worker.parse(self._parser, run.chunking, rest, run.embedder, run.missing)
                run.busy.discard(worker)
            parts.append(partial(_answered, rest[: len(answers)], answers, embedded))
            rest = rest[len(answers) :]
            if not rest:
                break
            # It died on the first of the rest; of a crash the files before may be the cause, so it is tried alone.
            is_suspect = not worker.took_too_long and not (is_new and not answers)
            if not is_suspect:
                skipped = Skipped(path=rest[0].path, reason=worker.why_ended, failed=True)
                parts.append(partial(list, [(rest[0], skipped)]))
                rest = rest[1:]
        return lambda: [answer for part in parts for answer in part()]


def _answered(contents: Sequence[Content], answers: Sequence[bytes], embedded: bytes) -> list[Answer]:
    return list(zip(contents, unpacked(answers, embedded), strict=True))


def _grouped(contents: Iterable[Content], most: int) -> Iterator[list[Content]]:
    group: list[Content] = []
    size = 0
    for content in contents:
        group.append(content)
        size += len(content.data)
        if size >= _GROUP_BYTES or len(group) >= most:
            yield group
            group, size = [], 0
    if group:
        yield group
