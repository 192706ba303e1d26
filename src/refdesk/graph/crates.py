"""Which file does a Rust path mean?  A module of the same crate, or of another one in the workspace."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_LOCAL = frozenset(["crate", "self", "super"])
_PARTS = frozenset(["src", "tests", "benches", "examples"])
_INDEX = frozenset(["mod", "lib", "main"])


def is_module(path: str, module: str, importer: str, root: str) -> bool:
    """Whether the file is the module that a `use` names."""
    crate, inner = _crate(path, root)
    home = _crate(importer, root)[0]
    parts = _split(module)
    outer = [part for part in parts if part not in _LOCAL]
    if parts[:1] == ["crate"]:
        return crate == home and inner == outer
    if parts[0] in _LOCAL:
        return crate == home and _ends(inner, outer)
    if _is_named(crate, parts[0]):
        return inner == parts[1:]
    return crate == home and _ends(inner, parts)


def is_in_crate(path: str, module: str, importer: str, root: str) -> bool:
    """Whether the file belongs to the crate that a `use` names: crates hand on what their modules define."""
    crate, _ = _crate(path, root)
    parts = _split(module)
    if parts[0] in _LOCAL:
        return crate == _crate(importer, root)[0]
    return any(_is_named(crate, part) for part in parts)


def _split(module: str) -> list[str]:
    return [part for part in re.split(r"::|\.", module) if part] or [""]


def _ends(inner: list[str], tail: list[str]) -> bool:
    return not tail or inner[-len(tail) :] == tail


def _is_named(crate: str, name: str) -> bool:
    """A crate's folder often leaves out the workspace's prefix: crates/matcher is grep_matcher."""
    folder = crate.rpartition("/")[2].replace("-", "_")
    return bool(folder) and (name == folder or name.endswith(f"_{folder}"))


def _crate(path: str, root: str) -> tuple[str, list[str]]:
    """The crate's folder and the module path inside it."""
    pure = PurePosixPath(path)
    folders = list(pure.parent.parts)
    at = next((n for n in range(len(folders) - 1, -1, -1) if folders[n] in _PARTS), -1)
    inside = folders[at + 1 :] if at >= 0 else folders[2:]
    crate = folders[:at] if at >= 0 else folders[:2]
    return "/".join(crate) or root, inside if pure.stem in _INDEX else [*inside, pure.stem]
