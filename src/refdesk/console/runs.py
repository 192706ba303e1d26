"""Runs that a user starts: each in a thread, with its state in a file so that every process can show and stop it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from refdesk.errors import Cancelled, NotFound, RefdeskError
from refdesk.ingest.prepare import Progress
from refdesk.library import new_id
from refdesk.system.files import replace_file

_log = logging.getLogger(__name__)

_EVERY_S = 0.25  # how often a run writes its state and checks whether to stop
_KEPT = 100  # runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The state of a run."""

    id: str
    what: str  # index, ingest, crawl, evaluate, check
    target: str
    begun: int
    pid: int = 0
    state: str = "running"  # running, done, failed, stopped, interrupted
    done: int = 0
    total: int = 0
    at: str = ""  # what it is at
    ended: int = 0
    collection: str = ""
    counts: Mapping[str, int | float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason → how many
    findings: tuple[Mapping[str, Any], ...] = ()

    @property
    def over(self) -> bool:
        return self.state != "running"


Work = Callable[[Progress], Mapping[str, Any]]  # the fields of the run that its end fills


class Runs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, what: str, target: str, work: Work, collection: str = "") -> Run:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        run = Run(id=new_id(), what=what, target=target, begun=_now(), pid=os.getpid(), collection=collection)
        self._write(run)
        for old in sorted(self._folder.glob("*.json"), reverse=True)[_KEPT:]:
            old.unlink(missing_ok=True)
        threading.Thread(target=self._work, args=(run, work), name="refdesk-run", daemon=True).start()
        return run

    def run(self, run_id: str) -> Run:
        if not run_id.isalnum():
            raise NotFound("There is no such run.")
        try:
            found = json.loads((self._folder / f"{run_id}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise NotFound("There is no such run.", "Only the last ones are kept.") from error
        fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        run = Run(**fields)
        return replace(run, state="interrupted") if not run.over and not _is_alive(run.pid) else run

    def last(self, most: int = _KEPT) -> list[Run]:
        """The runs, newest first."""
        found = []
        for file in sorted(self._folder.glob("*.json"), reverse=True)[:most]:  # ids sort by time
            with contextlib.suppress(NotFound, TypeError):
                found.append(self.run(file.stem))
        return found

    def stop(self, run_id: str) -> None:
        if not self.run(run_id).over:
            (self._folder / f"{run_id}.stop").touch()

    def _work(self, run: Run, work: Work) -> None:
        stop = self._folder / f"{run.id}.stop"
        looked = written = 0.0
        is_stopped = False

        def cancelled() -> bool:
            nonlocal looked, is_stopped
            if not is_stopped and time.monotonic() - looked > _EVERY_S:
                looked = time.monotonic()
                is_stopped = stop.exists()
            return is_stopped

        def report(done: int, total: int, at: str) -> None:
            nonlocal run, written
            run = replace(run, done=done, total=total, at=at)
            if time.monotonic() - written > _EVERY_S:
                written = time.monotonic()
                self._write(run)
            if cancelled():
                raise Cancelled("Stopped.", "What was done before is kept.")

        try:
            run = replace(run, state="done", **work(Progress(report=report, cancelled=cancelled)))
        except Cancelled as error:
            run = replace(run, state="stopped", notes=(str(error),))
        except RefdeskError as error:
            run = replace(run, state="failed", notes=(str(error),))
        except Exception as error:
            _log.exception("a run failed")
            run = replace(run, state="failed", notes=(f"Unexpected: {error!r}. The server's log has the details.",))
        self._write(replace(run, ended=_now()))
        with contextlib.suppress(OSError):
            stop.unlink()

    def _write(self, run: Run) -> None:
        with contextlib.suppress(OSError):  # a full disk must not end the run
            replace_file(self._folder / f"{run.id}.json", json.dumps(asdict(run)))


def _now() -> int:
    return time.time_ns() // 1_000_000


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # where os.kill ends a process whatever the signal
        return pid == os.getpid()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
