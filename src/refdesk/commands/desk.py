"""Shared by all commands: opening the desk, JSON on stdout, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from refdesk.settings import Settings, load

if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.ingest.prepare import Progress

_LINE_EVERY_S = 3.0
_REDRAWN_EVERY_S = 0.1
_AGAIN_S = 0.05
_STEERING = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
Tell = Callable[[int, int, str], None]  # done, total, current item

json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")


class LibraryPath(click.Path):
    """A folder, or the address of a shared library."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if "://" in str(value) else super().convert(value, param, ctx)


def settings_from(context: click.Context, **more: Any) -> Settings:
    """The settings that the program's flags, the environment and refdesk.toml give."""
    flags: Mapping[str, Any] = context.find_root().obj or {}
    return load({**flags, **more})


@contextmanager
def desk_from(context: click.Context, **more: Any) -> Iterator[Desk]:
    """The desk that the program's flags name."""
    from refdesk.app import open_desk

    with open_desk(settings_from(context, **more)) as desk:
        yield desk


def collections_here(
    desk: Desk, named: tuple[str, ...], *, everywhere: bool = False, quietly: bool = False
) -> tuple[str, ...]:
    """The named collections, else those that contain the current folder (with a message); () means all."""
    if named:
        return tuple(desk.collection(one).name for one in named)
    here = Path.cwd()
    local = [one for one in desk.collections() if one.root and "://" not in one.root]
    around = [one for one in local if here.is_relative_to(one.root)]
    around = [one for one in around if not desk.other_machine(one)] or around
    nearest = tuple(one.name for one in around if one.root == max((one.root for one in around), key=len))
    if everywhere or not nearest or len(nearest) == len(desk.collections()):
        return ()
    if not quietly:
        click.echo(f"Within {', '.join(nearest)}, which holds this folder; --all looks everywhere.", err=True)
    return nearest


def pair(text: str) -> tuple[str, str]:
    """The key and the value of KEY=VALUE, as --meta takes it."""
    key, mark, value = text.partition("=")
    if not mark or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--meta")
    return key, value


def print_json(value: Any) -> None:
    """Prints JSON with all control characters escaped, U+0080 to U+009F too."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    click.echo(_STEERING.sub(lambda found: f"\\u{ord(found.group()):04x}", text))


def on_one_line(text: str) -> str:
    """The text with line breaks and other control characters escaped, as file names may have them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str) -> str:
    """The text with terminal control and bidirectional characters escaped."""
    return _STEERING.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)


@contextmanager
def interruptible(then: str) -> Iterator[Callable[[str], None]]:
    """Ends what runs within in order, on Ctrl-C and when the process is told to end, and says what that leaves.

    Which is `then`, or what the function that it gives was told last.
    """
    import contextlib
    import os
    import signal
    import threading

    by = int(signal.SIGINT)

    def tell(said: str) -> None:
        nonlocal then
        then = said

    def stop(number: int, frame: object) -> None:
        nonlocal by
        by = number
        for one in told_by:  # told twice, it ends at once; both come when a session ends
            signal.signal(one, signal.SIG_DFL if one == number else signal.SIG_IGN)
        raise KeyboardInterrupt

    def lost(about: sys.UnraisableHookArgs) -> None:
        """Interrupts again where Python was removing an object: it shows what is raised then, and goes on."""
        if not isinstance(about.exc_value, KeyboardInterrupt):
            hook(about)
            return
        again = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    told_by: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        told_by = [one for one in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
                   if signal.getsignal(one) is signal.SIG_DFL]  # fmt: skip
    for one in told_by:
        signal.signal(one, stop)
    hook, sys.unraisablehook = sys.unraisablehook, lost
    try:
        yield tell
    except (click.Abort, KeyboardInterrupt):
        with contextlib.suppress(OSError):  # the terminal may be closed
            click.echo(f"Interrupted. {then}", err=True)
        sys.exit(128 + by)
    finally:
        sys.unraisablehook = hook
        for one in told_by:
            signal.signal(one, signal.SIG_DFL)


@contextmanager
def bar_on_stderr(what: str) -> Iterator[Tell]:
    """Shows progress: on a line that is overwritten if stderr is a terminal, else on one every few seconds."""
    from shutil import get_terminal_size
    from threading import Event, Thread

    is_terminal = sys.stderr.isatty()
    now, ended = ("", ""), Event()

    def draw() -> None:
        drawn = now
        while not ended.wait(_REDRAWN_EVERY_S if is_terminal else _LINE_EVERY_S):
            if now is not drawn:
                drawn = now
                said = f"{what}: {drawn[0]} {on_one_line(drawn[1])}"
                if is_terminal:
                    said = f"\r{said[: get_terminal_size().columns - 1]}\x1b[K"
                click.echo(said, nl=not is_terminal, err=True)

    def tell(done: int, total: int, at: str) -> None:
        nonlocal now
        now = (f"{done} of {total}" if total else str(done), at)

    thread = Thread(target=draw, daemon=True)
    thread.start()
    try:
        yield tell
    finally:
        ended.set()
        thread.join()
        if is_terminal:
            click.echo("\r\x1b[K", nl=False, err=True)


@contextmanager
def progress_on_stderr(what: str) -> Iterator[Progress]:
    """The progress bar as a `Progress`, for indexing."""
    from refdesk.ingest.prepare import Progress

    with bar_on_stderr(what) as tell:
        yield Progress(report=tell)
