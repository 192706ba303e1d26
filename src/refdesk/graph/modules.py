"""Which file does an import mean?  By path, by Rust's crates, by Go's modules."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_INDEX = frozenset(["__init__", "index", "mod", "lib", "main", "package"])
_LOCAL = frozenset(["crate", "self", "super"])
_CRATE_PARTS = frozenset(["src", "tests", "benches", "examples"])
_GO_VERSION = re.compile(r"(?:/v\d+|\.v\d+)$")  # echo/v5, yaml.v3
_GO_MODULE = re.compile(r'^module\s+"?([^\s"]+)', re.M)


def is_meant(path: str, module: str, importer: str, root: str = "") -> bool:
    """Whether the file at `path` is, or lies in, the module that `importer` names; `root` is the folder above both."""
    if importer.endswith(".rs"):
        return _is_rust_module(path, module, importer, root)
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
        return _is_in_crate(path, module, importer, root)
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


# --- Rust ----------------------------------------------------------------------------------------------


def _is_rust_module(path: str, module: str, importer: str, root: str) -> bool:
    """Whether the file is the module that a `use` names, of the same crate or of another one in the workspace."""
    crate, inner = _crate(path, root)
    home = _crate(importer, root)[0]
    parts = [part for part in re.split(r"::|\.", module) if part] or [""]
    if parts[0] == "crate":
        return crate == home and inner == [part for part in parts if part not in _LOCAL]
    if parts[0] not in _LOCAL and _is_crate_named(crate, parts[0]):
        return inner == parts[1:]
    tail = [part for part in parts if part not in _LOCAL]
    return crate == home and (not tail or inner[-len(tail) :] == tail)


def _is_in_crate(path: str, module: str, importer: str, root: str) -> bool:
    """Whether the file belongs to the crate that a `use` names: crates hand on what their modules define."""
    crate, _ = _crate(path, root)
    parts = [part for part in re.split(r"::|\.", module) if part] or [""]
    if parts[0] in _LOCAL:
        return crate == _crate(importer, root)[0]
    return any(_is_crate_named(crate, part) for part in parts)


def _is_crate_named(crate: str, name: str) -> bool:
    """A crate's folder often leaves out the workspace's prefix: crates/matcher is grep_matcher."""
    folder = crate.rpartition("/")[2].replace("-", "_")
    return bool(folder) and (name == folder or name.endswith(f"_{folder}"))


def _crate(path: str, root: str) -> tuple[str, list[str]]:
    """The crate's folder and the module path inside it."""
    *folders, name = path.split("/")
    stem = name.rpartition(".")[0]
    at = next((n for n in range(len(folders) - 1, -1, -1) if folders[n] in _CRATE_PARTS), -1)
    inside = folders[at + 1 :] if at >= 0 else folders[2:]
    crate = folders[:at] if at >= 0 else folders[:2]
    return "/".join(crate) or root, inside if stem in ("mod", "lib", "main") else [*inside, stem]


# --- Go ------------------------------------------------------------------------------------------------


def go_name(module: str) -> str:
    """What an import without an alias is called: the last part that is no version."""
    return _GO_VERSION.sub("", module).rpartition("/")[2]


class GoPackages:
    """Finds the files that an import path means, by the go.mod above the file that imports."""

    def __init__(self, text_at: Callable[[str], str | None]) -> None:
        self._text_at = text_at
        self._modules: dict[str, tuple[str, str] | None] = {}

    def holds(self, module: str, importer: str, path: str) -> bool | None:
        """Whether the file belongs to the package that is imported; None where it can't be told."""
        there = path.rpartition("/")[0]
        home = self._module_of(importer.rpartition("/")[0])
        if home is None:  # the codebase is a part of a module: the folder's name has to do
            is_standard = "." not in module.partition("/")[0]
            return not is_standard and there.rpartition("/")[2] == go_name(module)
        folder, name = home
        if module == name:
            return there == folder
        if module.startswith(f"{name}/"):
            return there == f"{folder}/{module[len(name) + 1 :]}".lstrip("/")
        return None

    def _module_of(self, folder: str) -> tuple[str, str] | None:
        """The folder of the nearest go.mod and the module's name."""
        if folder not in self._modules:
            text = self._text_at(f"{folder}/go.mod" if folder else "go.mod")
            if text and (named := _GO_MODULE.search(text)):
                self._modules[folder] = (folder, named[1])
            else:
                self._modules[folder] = self._module_of(folder.rpartition("/")[0]) if folder else None
        return self._modules[folder]
