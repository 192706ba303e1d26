"""How does the server end in time, whatever its threads do?"""

from __future__ import annotations

import os
import select
import signal
import time

LATEST_S = 4.5
READY = b"\0"

_tell = -1  # the way to the process that looks on


def end_in_time() -> None:
    """Starts a process that kills this one where it is still there 4.5 s after it was told to stop.

    A thread inside native code may hold Python's lock; then nothing runs here, no signal handler and no timer. But the
    interpreter's C code still writes the signal's number to a pipe. Called before there are threads, since it forks.
    """
    if not hasattr(os, "fork"):
        return
    told, tell = os.pipe()
    server = os.getpid()
    if os.fork() == 0:
        try:
            _watch(server, told)
        finally:
            os._exit(0)
    os.close(told)
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    global _tell
    _tell = tell


def answered() -> None:
    """From now on the end of stdin is a sign to stop; before, what came with it waits for the server to start."""
    if _tell >= 0:
        os.write(_tell, READY)


def _watch(server: int, told: int) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    os.closerange(1, told)
    os.closerange(told + 1, 256)
    poll = select.poll()
    poll.register(told, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if 0 in ready:
            break
        said = os.read(told, 64)
        if not said:
            return  # it has ended
        if READY in said:
            poll.register(0, getattr(select, "POLLRDHUP", 0))
        if signal.SIGTERM in said or signal.SIGINT in said:
            break
    until = time.monotonic() + LATEST_S
    while os.getppid() == server:
        if time.monotonic() > until:
            os.kill(server, signal.SIGKILL)
        time.sleep(0.02)
