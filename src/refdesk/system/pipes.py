"""Processes of our own: how one is started, and the messages that it exchanges with its parent."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from typing import IO, Any

_HEADER = 8  # bytes for the length of a message
_NICENESS = 5  # queries come first
# -P: nothing is imported from the current folder, which may be untrusted.
_START = "import sys; sys.path[:] = sys.argv[1:]; from {0} import {1}; {1}()"


def started(module: str, function: str) -> subprocess.Popen[bytes]:
    """A process that runs the function and reads and writes messages; Ctrl-C in a terminal does not reach it.

    It has no session of its own: Linux may share the processor by sessions, and its niceness would not count then.
    """
    command = [sys.executable, "-P", "-c", _START.format(module, function), *filter(None, sys.path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)


def claimed() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes from and to the parent, for a process that was just started; libraries can't print into them."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it may write to the terminal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    return requests, answers


def send(pipe: IO[bytes], message: bytes) -> None:
    """Writes a message with its length, for `receive`."""
    pipe.write(len(message).to_bytes(_HEADER, "big"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """The next message; raises EOFError at the end of the pipe."""
    header = pipe.read(_HEADER)
    message = pipe.read(int.from_bytes(header, "big"))
    if len(header) < _HEADER or len(message) < int.from_bytes(header, "big"):
        raise EOFError
    return message


def loaded(message: bytes) -> Any:
    """Unpickles a message."""
    return pickle.loads(message)  # noqa: S301 - both ends are ours
