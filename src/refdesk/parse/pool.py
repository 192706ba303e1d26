"""The pool of worker processes that parse; a file that crashes or stalls one is skipped and affects no other file."""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import pickle
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from refdesk.errors import Cancelled, ParseFailed
from refdesk.ingest.prepare import Missing, Prepared
from refdesk.model import Chunking, Content, Skipped
from refdesk.parse.worker import NOT_UNDERSTOOD, Limits, limits_of, too_much_memory, unpacked
from refdesk.ports import Embedder, Parser
from refdesk.system.pipes import loaded, receive, send, started

_IDLE_S = 600.0  # after which an idle worker is ended
_TICK_S, _IDLE_TICK_S = 0.5, 5.0  # between looks at the workers, while some are busy and while none is
_SLACK = 5.0  # wall-clock limit as a multiple of the limit of processor time,
_SLACK_S = 20.0  # plus this much, since the machine may be busy
_EMBEDDING_S = 120.0  # to start, or to embed a group: both take less than a second on a free machine
_TRY_LATER = "Try again; if it stays so, what the log says before this tells why."
_TIMED_OUT = -getattr(signal, "SIGPROF", 0)
_HAS_PROC = Path("/proc/self/statm").exists()  # then the worker limits its own memory


class Worker:
    """A worker process; it ends with its pipe, or if a file exceeds its limits."""

    def __init__(self) -> None:
        try:
            self._process = started("refdesk.parse.worker", "main")
        except OSError as error:
            raise ParseFailed(f"A process that reads files can't be started: {error.strerror}.", _TRY_LATER) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._embedder: Embedder | None = None  # that was sent to it
        self._is_ready = False
        self._limits = Limits(0, 0)
        self._why = ""
        self.used = 0  # number of requests
        self.deadline = math.inf  # of the current request
        self.idle_since = math.inf

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def parse(
        self, parser: Parser, chunking: Chunking, group: Sequence[Content], embedder: Embedder | None, missing: Missing
    ) -> tuple[list[bytes], bytes]:
        """The answers, packed, and the vectors; fewer answers than contents if the process died on the next one."""
        answers: list[bytes] = []
        self._await_start()
        self.used += 1
        try:
            new = embedder if embedder is not self._embedder else None
            request = (parser, chunking, group, embedder is not None, new)
            send(self._requests, pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
            self._embedder = embedder or self._embedder
            for content in group:
                self._limits = limits_of(content)
                self.deadline = time.monotonic() + self._limits.seconds * _SLACK + _SLACK_S
                answers.append(receive(self._answers))
            if embedder is None:
                return answers, b""
            self.deadline = time.monotonic() + _EMBEDDING_S
            send(self._requests, pickle.dumps(missing(loaded(receive(self._answers)))))
            return answers, receive(self._answers)
        except (OSError, EOFError) as error:
            self.end()
            if self._process.returncode == NOT_UNDERSTOOD:
                raise ParseFailed("A process that reads files has other code than this one.", "Restart it.") from error
            return answers, b""
        except BaseException:
            self.end()  # it would wait for ever for an answer
            raise
        finally:
            self.deadline = math.inf

    def _await_start(self) -> None:
        if not self._is_ready:
            self.deadline = time.monotonic() + _EMBEDDING_S
            try:
                receive(self._answers)
            except EOFError as error:
                self.end()
                raise ParseFailed(
                    f"A process that reads files ended as it started (status {self._process.returncode}).", _TRY_LATER
                ) from error
            self._is_ready = True

    def kill(self) -> None:
        """Kills the process; a thread that waits for its answer sees the end of the pipe."""
        self._process.kill()

    def end(self) -> None:
        """Ends an idle process and frees its resources."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    @property
    def took_too_long(self) -> bool:
        """Whether it ended because a file took too much time."""
        return self._process.returncode == _TIMED_OUT or self._why == "time"

    @property
    def why_ended(self) -> str:
        """The reason to skip the file that it ended on."""
        if self.took_too_long:
            return f"reading it took longer than {self._limits.seconds:.0f} s"
        memory = too_much_memory(self._limits)
        return memory if self._why == "memory" else f"the parser crashed on it, or {memory}"

    def watch(self, now: float) -> None:
        """Kills the process if it exceeds its limits and the system did not."""
        if now > self.deadline:
            self._why = "time"
        elif not _HAS_PROC and self.deadline < math.inf and _resident(self._process.pid) > self._limits.memory:
            self._why = "memory"
        if self._why:
            self.kill()


def _resident(pid: int) -> int:
    """The resident memory of a process in bytes, by `ps`."""
    try:
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=5, check=False)
        return int(told.stdout or 0) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


class Crew:
    """The workers of this process; each takes one group of files at a time, from the caller that waited longest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: set[Worker] = set()
        self._idle: list[Worker] = []
        self._waiting: deque[queue.SimpleQueue[Worker | None]] = deque()  # None: start a new one
        self._watches = False
        self.ends = 0  # how often all workers were ended

    @contextlib.contextmanager
    def one(self, most: int, *, unused: bool = False) -> Iterator[Worker]:
        """Lends a worker; starts a new one if there are fewer than `most`, or if it must be `unused`."""
        worker = self._take(most)
        try:
            if unused and worker.used:
                with self._lock:
                    self._forget(worker)
                    worker = self._started()
            yield worker
        finally:
            self._give(worker)

    def _take(self, most: int) -> Worker:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.is_alive:
                    return worker
                self._forget(worker)
            if len(self._all) < most:
                return self._started()
            turn: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
            self._waiting.append(turn)
        handed = turn.get()
        if handed is not None:
            return handed
        with self._lock:
            return self._started()

    def _give(self, worker: Worker) -> None:
        with self._lock:
            if not worker.is_alive:
                self._forget(worker)
            if self._waiting:
                self._waiting.popleft().put(worker if worker in self._all else None)
            elif worker in self._all:
                worker.idle_since = time.monotonic()
                self._idle.append(worker)

    def _forget(self, worker: Worker) -> None:
        self._all.discard(worker)
        worker.end()

    def _started(self) -> Worker:
        worker = Worker()
        self._all.add(worker)
        if not self._watches:
            self._watches = True
            threading.Thread(target=self._watch, name="parse-watch", daemon=True).start()
        return worker

    def _watch(self) -> None:
        """Runs in a thread until the last worker has ended."""
        busy: set[Worker] = set()
        while True:
            time.sleep(_TICK_S if busy else _IDLE_TICK_S)
            now = time.monotonic()
            with self._lock:
                for worker in [one for one in self._idle if now - one.idle_since > _IDLE_S or not one.is_alive]:
                    self._idle.remove(worker)
                    self._forget(worker)
                if not self._all:
                    self._watches = False
                    return
                busy = self._all.difference(self._idle)
            for worker in busy:
                worker.watch(now)

    def rest(self) -> None:
        """Ends the workers that are not in use."""
        with self._lock:
            while self._idle:
                self._forget(self._idle.pop())

    def end(self) -> None:
        """Ends all workers, including those in use, whose runs are cancelled."""
        self.rest()
        with self._lock:
            self.ends += 1
            for worker in self._all:
                worker.kill()


CREW = Crew()
atexit.register(CREW.end)


Answer = tuple[Content, Prepared | Skipped | None]

_BYTES_A_WORKER = 1_500_000  # are parsed in less time than another worker takes to start
_GROUP_BYTES = 200_000  # sent at once: about .1 s of work, so that all workers end at about the same time
_GROUP_FILES = 32  # of small files
_LARGE_BYTES = 50_000_000  # after so many, workers are ended: what they hold is needed to write the vectors
_AHEAD = 10  # groups per worker in progress: writing a batch and flushing the full-text index take a second


@dataclass(slots=True)
class _Run:
    """One call of `parse_all`."""

    chunking: Chunking
    missing: Missing
    embedder: Embedder | None
    until: float
    ends: int  # of the crew, when it began
    busy: set[Worker] = field(default_factory=set)
    is_over: bool = False


class Pool:
    """Parses contents with one parser, in order, in at most `workers` worker processes.

    For large runs the workers also embed; for small ones the caller, which has the model loaded, is faster.
    """

    def __init__(
        self, parser: Parser, embedder: Embedder | None = None, workers: int = 0, crew: Crew | None = None
    ) -> None:
        self._crew = crew or CREW
        self._parser = parser
        self._embedder = embedder
        cores = os.cpu_count() or 1
        # One core is left for queries, but not of two: a single worker and the writer would wait for each other.
        self._count = workers or min(8, cores - 1 if cores > 2 else cores)

    def parse_all(
        self, contents: Iterable[Content], chunking: Chunking, missing: Missing, size: int = 0, until: float = math.inf
    ) -> Iterator[Answer]:
        """Yields each content in order with what was found in it, or with why it is skipped.

        With None if parsing had not started by `until`.
        """
        wanted = min(self._count, 1 + size // _BYTES_A_WORKER)
        embedder = self._embedder if wanted > 1 else None
        run = _Run(chunking, missing, embedder, until, self._crew.ends)
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
            if size > _LARGE_BYTES:
                self._crew.rest()

    def _parse(self, group: Sequence[Content], run: _Run) -> Callable[[], list[Answer]]:
        """Parses the group and returns a function that unpacks the answers, so that the worker is free before."""
        parts: list[Callable[[], list[Answer]]] = []
        rest, is_suspect = group, False
        while rest and not run.is_over:
            if time.monotonic() > run.until:
                parts.append(partial(list, [(content, None) for content in rest]))
                break
            with self._crew.one(self._count, unused=is_suspect) as worker:
                if run.is_over:  # it ended while this waited for a worker
                    break
                run.busy.add(worker)
                is_new = worker.used == 0
                try:
                    answers, embedded = worker.parse(self._parser, run.chunking, rest, run.embedder, run.missing)
                finally:
                    if self._crew.ends != run.ends:  # what it read is not to blame
                        raise Cancelled("The processes that read files were ended.", _TRY_LATER)
                run.busy.discard(worker)
            parts.append(partial(_answered, rest[: len(answers)], answers, embedded))
            rest = rest[len(answers) :]
            if not rest:
                break
            # It died on the first of the rest; earlier files may have caused a crash, so that file is retried alone.
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
