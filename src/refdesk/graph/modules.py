"""Which file does an import mean?"""

from __future__ import annotations

import re
from functools import lru_cache

from refdesk.graph import crates

_INDEX = frozenset(["__init__", "index", "mod", "lib", "main", "package"])


def is_meant(path: str, module: str, importer: str, root: str = "") -> bool:
    """Whether the file at `path` is, or lies in, the module that `importer` names; `root` is the folder above both."""
    if importer.endswith(".rs"):
        return crates.is_module(path, module, importer, root)
    wanted = _absolute(module, importer)
    if module.startswith("."):  # from here, so exactly there
        exact = _parts_of(path, "")
        return bool(wanted) and wanted in (exact, exact[:-1])
    there = _parts_of(path, root)
    if len(wanted) == 1:  # a lone name is a top module or a neighbour, not any file's
        near = path.rpartition("/")[0] in ("", "src", "lib", wanted[0], f"src/{wanted[0]}", importer.rpartition("/")[0])
        return near and wanted[0] in there[-2:]
    return bool(wanted) and (_ends_with(there, wanted) or _ends_with(there[:-1], wanted))


def is_inside(path: str, module: str, importer: str, root: str = "") -> bool:
    """Whether the file lies anywhere below the module: a package may hand on names of its inner files."""
    if importer.endswith(".rs"):
        return crates.is_in_crate(path, module, importer, root)
    wanted = _absolute(module, importer)
    there = _parts_of(path, root)
    return bool(wanted) and any(there[at : at + len(wanted)] == wanted for at in range(len(there)))


def last_part(module: str, importer: str) -> str:
    """What every path of a file has in it that the module can mean; "" where nothing has to be."""
    wanted = _absolute(module, importer) if not importer.endswith(".rs") else []
    return wanted[-1] if wanted else ""


def is_index(name: str) -> bool:
    """Whether a file of that name stands for its folder."""
    return name.partition(".")[0] in _INDEX


@lru_cache(maxsize=65_536)
def _parts_of(path: str, root: str) -> list[str]:
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    parts = [*folders, stem]
    inner = folders if stem in _INDEX else parts
    return [root, *inner] if root else inner or parts


def _absolute(module: str, importer: str) -> list[str]:
    """The module's path parts; a relative one starts from the importing file's folder."""
    return _from_folder(module, importer.rpartition("/")[0])


@lru_cache(maxsize=65_536)
def _from_folder(module: str, folder_path: str) -> list[str]:
    text = module.strip("\"'`<> ")
    folder = folder_path.split("/") if folder_path else []
    if re.match(r"\.+[^./]|\.+$", text):  # Python: .model, ..pkg.sub
        dots = len(text) - len(text.lstrip("."))
        base = folder[: len(folder) - (dots - 1)] if dots > 1 else folder
        return [*base, *filter(None, text.lstrip(".").split("."))]
    if text.startswith("."):  # JavaScript: ./model, ../pkg/sub.js
        parts = folder
        for part in text.split("/"):
            parts = parts[:-1] if part == ".." else parts if part in (".", "") else [*parts, part]
        return _clean(parts)
    if text.startswith("@"):  # @scope/package: the package's folder in a monorepo
        return _clean(text.split("/")[1:])
    parts = [part for part in re.split(r"::|[./\\]", text) if part not in ("crate", "self", "super", "*", "")]
    return _clean(parts if "/" not in text else [part for part in text.split("/") if part])


def _clean(parts: list[str]) -> list[str]:
    if not parts:
        return parts
    last = re.sub(r"\.(?:[cm]?[jt]sx?|py|h|hpp|hh|vue|svelte|rb|php|lua|sh)$", "", parts[-1])
    return parts[:-1] if last in _INDEX and len(parts) > 1 else [*parts[:-1], last]


def _ends_with(there: list[str], wanted: list[str]) -> bool:
    """Whether the path ends in the module, or the module in the path: either may begin further out."""
    shared = min(len(wanted), len(there))
    return shared > 1 and there[-shared:] == wanted[-shared:]
