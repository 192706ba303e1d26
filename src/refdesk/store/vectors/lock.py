"""The lock of an index that many read and few change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Shared:
    """A lock with two doors, not to be entered twice by one thread; readers do not keep out who waits to change."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers = 0
        self._closed = False  # to readers
        self._changer = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """While inside, nobody changes anything."""
        with self._turn:
            while self._closed:
                self._turn.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers -= 1
                if self._closed and not self._readers:
                    self._turn.notify_all()

    @contextmanager
    def changing(self) -> Iterator[None]:
        """While inside, nobody else is."""
        with self._changer:
            with self._turn:
                self._closed = True
            try:
                with self._turn:
                    while self._readers:
                        self._turn.wait()
                yield
            finally:
                with self._turn:
                    self._closed = False
                    self._turn.notify_all()
