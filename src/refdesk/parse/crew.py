"""Who keeps the processes that parse?  They are started when needed, shared by all calls, and ended when idle."""

from __future__ import annotations

import atexit
import contextlib
import math
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content
from refdesk.parse.worker import NOT_UNDERSTOOD, Limits, limits_of, loaded, receive, send, too_much_memory
from refdesk.ports import Embedder, Parser
from refdesk.prepare import Missing

_IDLE_S = 600.0  # a worker that nobody needed for so long is ended
_TICK_S, _IDLE_TICK_S = 0.5, 5.0
_SLACK = 5.0  # by the clock a file may take this many times its processor time, and
_SLACK_S = 20.0  # this much more: the machine may be busy with other things
_EMBEDDING_S = 120.0
_TRY_LATER = "Try again; if it stays so, what the log says before this tells why."
_TIMED_OUT = -getattr(signal, "SIGPROF", 0)
_HAS_PROC = Path("/proc/self/statm").exists()  # then the worker limits its own memory
# -P: what lies in the current folder, which may be anybody's, is not imported.
_START = "import sys; sys.path[:] = sys.argv[1:]; from refdesk.parse.worker import main; main()"


class Worker:
    """A process that parses; it ends with its pipe, or when a file takes more than it may."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-c", _START, *filter(None, sys.path)]
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)
        except OSError as error:
            raise ParseFailed(f"A process that reads files can't be started: {error.strerror}.", _TRY_LATER) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._embedder: Embedder | None = None  # the one it was sent
        self._is_ready = False
        self._limits = Limits(0, 0)
        self._why = ""
        self.used = 0  # how often it was asked
        self.deadline = math.inf  # by which it must have answered
        self.idle_since = math.inf

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def parse(
        self, parser: Parser, chunking: Chunking, group: Sequence[Content], embedder: Embedder | None, missing: Missing
    ) -> tuple[list[bytes], bytes]:
        """The answers, packed, and the vectors; fewer answers than contents when the process died on the next one."""
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
            self.end()  # it waits for an answer that nobody will give
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
        """Ends the process at once; whoever waits for its answer sees it end."""
        self._process.kill()

    def end(self) -> None:
        """Ends the process, for which nobody waits, and gives back what it held."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                pipe.close()

    @property
    def took_too_long(self) -> bool:
        """Whether it ended since its file took more time than it may."""
        return self._process.returncode == _TIMED_OUT or self._why == "time"

    @property
    def why_ended(self) -> str:
        """What is wrong with the file that it ended on."""
        if self.took_too_long:
            return f"reading it took longer than {self._limits.seconds:.0f} s"
        memory = too_much_memory(self._limits)
        return memory if self._why == "memory" else f"the parser crashed on it, or {memory}"

    def watch(self, now: float) -> None:
        """Ends the process where it is over its limits and the system did not see to it."""
        if now > self.deadline:
            self._why = "time"
        elif not _HAS_PROC and self.deadline < math.inf and _resident(self._process.pid) > self._limits.memory:
            self._why = "memory"
        if self._why:
            self.kill()


def _resident(pid: int) -> int:
    """The bytes that a process holds in memory, as far as `ps` tells."""
    try:
        told = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, timeout=5, check=False)
        return int(told.stdout or 0) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


class Crew:
    """The workers of this process: each serves whoever waited longest, one group of files at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: set[Worker] = set()
        self._idle: list[Worker] = []
        self._waiting: deque[queue.SimpleQueue[Worker | None]] = deque()  # None: the turn to start one
        self._watches = False

    @contextlib.contextmanager
    def one(self, most: int, *, unused: bool = False) -> Iterator[Worker]:
        """A worker, for as long as it takes; it is a new one where there are fewer than `most`, or if it must be."""
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
        """Until the last worker is gone."""
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

    def end(self) -> None:
        """Ends all workers."""
        with self._lock:
            for worker in self._all:
                worker.kill()


CREW = Crew()
atexit.register(CREW.end)
