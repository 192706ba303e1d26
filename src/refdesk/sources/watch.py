"""What changed in a folder just now?  Paths that the rules do not leave out, in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import watchfiles

from refdesk.sources.ignore import CONTROL, Layer, outer_layer
from refdesk.sources.skips import why_not_file, why_not_folder

_DEBOUNCE_MS = 400  # how long a burst of changes may grow before it is told
_RULES = CONTROL - {".git"}


def watch(root: Path, stop: Event) -> Iterator[set[str]]:
    """Sets of changed paths, relative to the root with "/", until `stop` is set; a changed ignore file counts."""
    top = os.path.realpath(root)
    batches = watchfiles.watch(
        top,
        stop_event=stop,
        debounce=_DEBOUNCE_MS,
        watch_filter=None,
        raise_interrupt=False,
        ignore_permission_denied=True,
    )
    for batch in batches:
        # Rules are read afresh for every batch: it may be they that changed.
        interesting = Interest(top)
        paths = {os.path.relpath(path, top).replace(os.sep, "/") for _, path in batch}
        if changed := {path for path in paths if interesting.has(path)}:
            yield changed


class Interest:
    """Which paths of a folder the rules of this moment do not leave out, whether they exist or not."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._layers: dict[str, Layer | None] = {}

    def has(self, path: str) -> bool:
        """Whether a change of the path may change what is indexed."""
        folder, _, name = path.rpartition("/")
        if path in ("", ".") or path.startswith("../"):
            return False
        layer = self._layer(folder)
        if layer is None:
            return False
        here = f"{self._root}/{folder}" if folder else self._root
        if name in _RULES:
            return True
        if Path(here, name).is_dir() and not Path(here, name).is_symlink():
            return not why_not_folder(here, name, layer, ())
        return not why_not_file(here, name, layer)

    def _layer(self, folder: str) -> Layer | None:
        """The layer of a relative folder, None for one that is left out."""
        if folder not in self._layers:
            self._layers[folder] = self._find(folder)
        return self._layers[folder]

    def _find(self, folder: str) -> Layer | None:
        here = f"{self._root}/{folder}" if folder else self._root
        if folder:
            above, _, name = folder.rpartition("/")
            layer = self._layer(above)
            if layer is None or why_not_folder(str(Path(here).parent), name, layer, ()):
                return None
        else:
            layer, _ = outer_layer(self._root or "/")
        present = [name for name in CONTROL if os.path.lexists(f"{here}/{name}")]
        return layer.below(here, folder + "/" if folder else "", present)[0] if present else layer
