"""Links that come and go while somebody reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def swapping(path: Path, target: Path) -> Iterator[None]:
    """Puts a link to the target in the path's place and the path back again, as fast as it goes."""
    aside, link = path.with_name(path.name + ".aside"), path.with_name(path.name + ".link")
    stop = threading.Event()

    def swap() -> None:
        link.symlink_to(target)
        while not stop.is_set():
            path.rename(aside)
            link.rename(path)
            path.rename(link)
            aside.rename(path)
        link.unlink()

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()
