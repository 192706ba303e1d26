"""Rules by language: what is visible from where, and which file an import means."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from refdesk.model import Document
from refdesk.text import word_set
from refdesk.text.analyse import is_of_tests

TYPES = word_set(
    "class struct enum interface protocol trait actor extension object record union type typealias module impl "
    "mixin namespace category"
)
CALLABLES = word_set("function method constructor initializer deinitializer macro subscript operator test")
# Methods of every language's own strings, lists, maps, files, threads, events and loggers: a lone method of that name
# is no evidence.
COMMON = word_set(
    "acquire add addEventListener all and_then any any? append apply as_bytes as_ref as_str assign begin bind bytes "
    "c_str call catch chars clear clone close cmp collect concat contains copy count critical current debug decode "
    "default delete drain drop dup each emit emplace_back empty? encode end endswith entries eq error every "
    "exception exists expect extend fatal fill filter find findall first flush forEach format freeze from get group "
    "has hash include? includes index indexOf info insert inspect into is_empty isArray isEmpty items iter join "
    "keys last len length level lines lock log lower map map_err match max min new next nil? notice off ok_or on "
    "once open parse pop push push_back push_str put read readline reduce release remove removeListener replace "
    "reset resolve reverse run search seek send set size slice some sort split start startswith stop strip sub "
    "submit sum take tap test then to_a to_h to_owned to_s to_string toByte toChar toDouble toFloat toInt toList "
    "toLong toMap toSet toShort toString trace trim unlock unwrap unwrap_or unwrap_or_else update upper value "
    "values wait warn warning with write"
)
EXTENSIONS = frozenset(["extension", "impl", "category"])  # further parts of a type that is defined elsewhere
VALUES = frozenset(["field", "property", "variable", "constant"])
SELF = frozenset(["self", "this", "cls", "Self", "@self", "$this", "static"])
LEFT_OUT = "."  # a receiver that is not written, since only one type is possible: Swift's .init(…)
RESULT = "->"  # the same where it is what a function returns
INITIALIZERS = frozenset(["constructor", "initializer"])
SUPER = {"csharp": "base", "php": "parent"}  # others say super

_FAMILIES = (
    {"typescript", "tsx", "javascript", "jsx", "vue", "svelte"},
    {"java", "kotlin", "scala", "groovy"},
    {"swift", "objc", "c", "cpp", "cuda"},
)

# Names of the same package, which is mostly a folder, are visible without an import.
PACKAGE_WIDE = word_set("go java kotlin scala csharp groovy terraform")
# A package is declared and may lie in several folders: those of tests, of platforms.
PACKAGED = frozenset(["java", "kotlin", "scala", "groovy"])
# Every name of the codebase is visible: one module, a linker, or requires that bind no names.
CODEBASE_WIDE = word_set("swift objc c cpp cuda ruby php lua bash sql elixir csharp r julia cmake")
# A name of another file is seen only where it is imported.
IMPORTING = word_set("python typescript tsx javascript jsx vue svelte")
# A class is in one place, its home: no extension elsewhere adds to it.
WHOLE = word_set("python typescript tsx javascript jsx java vue svelte go")
# A member is called without naming its object.
IMPLICIT_SELF = word_set("swift java kotlin csharp cpp ruby scala groovy objc elixir")


def home(document: Document) -> str:
    """The scope of a type's members: its file, in Go its folder."""
    return document.path.rpartition("/")[0] if document.content_type == "go" else document.id


def family(language: str) -> frozenset[str]:
    """The languages whose files can name each other's symbols."""
    return frozenset(next((one for one in _FAMILIES if language in one), {language}))


_TRIED_OUT = re.compile(r"(?:^|/)(?:benches|[Ee]xamples?)/")


@lru_cache(maxsize=65_536)
def is_test(path: str) -> bool:
    """Whether the file is a test or an example: other code does not use what it defines."""
    return is_of_tests(path) or _TRIED_OUT.search(path) is not None


_FOR_TESTS = re.compile(r"(?:^|/)(?:testing|test_?utils?|_*mocks?_*|_*fakes?_*)(?:/|\.\w+$)")
# A GreeterStub is what gRPC calls a real client.
_STANDS_IN = re.compile(r"_*(?:Mock|Fake|Stub|Dummy|Spy)(?![a-z])|\w*[a-z\d](?:Mock|Fake|Dummy|Spy)$")


@lru_cache(maxsize=65_536)
def is_for_tests(path: str) -> bool:
    """Whether the file is a test, or is shipped for tests."""
    return is_test(path) or _FOR_TESTS.search(path) is not None


def stands_in(path: str, type_name: str) -> bool:
    """Whether a type is a test double: only code that names it calls it."""
    return is_for_tests(path) or _STANDS_IN.match(type_name) is not None


# --- the file that an import means ------------------------------------------------------------------

INDEX = frozenset(["__init__", "index", "mod", "lib", "main", "package"])
_LOCAL = frozenset(["crate", "self", "super"])
_CRATE_PARTS = frozenset(["src", "tests", "benches", "examples"])
_GO_VERSION = re.compile(r"(?:/v\d+|\.v\d+)$")  # echo/v5, yaml.v3
_CRATE_NAME = re.compile(r'^name\s*=\s*"([^"\n]+)"', re.M)
_GO_MODULE = re.compile(r'^module\s+"?([^\s"]+)', re.M)


def is_meant(path: str, module: str, importer: str, root: str = "") -> bool:
    """Whether the file at `path` is, or lies in, the module that `importer` names; `root` is the folder above both."""
    wanted = _absolute(module, importer.rpartition("/")[0])
    if module.startswith("."):  # from here, so exactly there
        exact = _parts_of(path, "")
        return bool(wanted) and wanted in (exact, exact[:-1])
    there = _parts_of(path, root)
    if len(wanted) == 1:  # a lone name is a top module or a neighbour, not any file's
        folder, _, name = path.rpartition("/")
        is_scoped = module.startswith("@") and not module.startswith("@/")  # @scope/package: a folder's index
        if is_scoped and name.partition(".")[0] in INDEX:
            return wanted in (there[-1:], there[-2:-1] if there[-1] in ("src", "lib") else [])
        near = ["", "src", "lib", wanted[0], f"src/{wanted[0]}", *([] if is_scoped else [importer.rpartition("/")[0]])]
        return folder in near and wanted[0] in there[-2:]
    return bool(wanted) and (_ends_with(there, wanted) or _ends_with(there[:-1], wanted))


def is_inside(path: str, module: str, importer: str, root: str = "") -> bool:
    """Whether the file is anywhere below the module: a package may re-export names of its inner files."""
    wanted = _absolute(module, importer.rpartition("/")[0])
    there = _parts_of(path, root)
    return bool(wanted) and any(there[at : at + len(wanted)] == wanted for at in range(len(there)))


def last_part(module: str, importer: str) -> str:
    """The last part of the module, which is in the path of every file that it can mean; "" for none."""
    wanted = _absolute(module, importer.rpartition("/")[0]) if not importer.endswith(".rs") else []
    return wanted[-1] if wanted else ""


@lru_cache(maxsize=65_536)
def _parts_of(path: str, root: str) -> list[str]:
    *folders, name = path.split("/")
    stem = name.partition(".")[0]
    parts = [*folders, stem]
    inner = folders if stem in INDEX else parts
    return [root, *inner] if root else inner or parts


@lru_cache(maxsize=65_536)
def _absolute(module: str, folder_path: str) -> list[str]:
    """The module's path parts; a relative one starts from the importing file's folder."""
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
    return parts[:-1] if last in INDEX and len(parts) > 1 else [*parts[:-1], last]


def _ends_with(there: list[str], wanted: list[str]) -> bool:
    """Whether one of the path and the module is a suffix of the other."""
    shared = min(len(wanted), len(there))
    return shared > 1 and there[-shared:] == wanted[-shared:]


# --- Rust ----------------------------------------------------------------------------------------------


class Crates:
    """Finds the files that a path of modules means, by the Cargo.toml of their crates."""

    def __init__(self, text_at: Callable[[str], str | None], root: str = "") -> None:
        self._text_at = text_at
        self._root = root
        self._names: dict[str, frozenset[str]] = {}

    def is_meant(self, path: str, module: str, importer: str) -> bool:
        """Whether the file is the module that `importer` names: of its own crate, or of another in the workspace."""
        crate, inner = _crate(path)
        home = _crate(importer)[0]
        parts = [part for part in re.split(r"::|\.", module) if part] or [""]
        tail = [part for part in parts if part not in _LOCAL]
        if parts[0] == "crate":
            return crate == home and inner == tail
        if parts[0] not in _LOCAL and self._is_named(crate, parts[0]):
            return inner == parts[1:]
        return crate == home and (not tail or inner[-len(tail) :] == tail)

    def is_inside(self, path: str, module: str, importer: str) -> bool:
        """Whether the file is anywhere in the crate: crates re-export what their modules define."""
        crate, _ = _crate(path)
        parts = [part for part in re.split(r"::|\.", module) if part] or [""]
        if parts[0] in _LOCAL:
            return crate == _crate(importer)[0]
        return any(self._is_named(crate, part) for part in parts)

    def _is_named(self, crate: str, name: str) -> bool:
        if crate not in self._names:
            declared = self._text_at(f"{crate}/Cargo.toml" if crate else "Cargo.toml") or ""
            sections = re.split(r"^\[", declared, flags=re.M)
            own = [one for one in sections if one.startswith(("package]", "lib]"))]
            found = (_CRATE_NAME.search(one) for one in own)
            self._names[crate] = frozenset(one[1].replace("-", "_") for one in found if one)
        if self._names[crate]:
            return name in self._names[crate]
        # Its folder often leaves out the workspace's prefix: crates/matcher is grep_matcher.
        folder = (crate or self._root).rpartition("/")[2].replace("-", "_")
        return bool(folder) and (name == folder or name.endswith(f"_{folder}"))


@lru_cache(maxsize=65_536)
def _crate(path: str) -> tuple[str, list[str]]:
    """The crate's folder and the module path inside it."""
    *folders, name = path.split("/")
    stem = name.rpartition(".")[0]
    at = next((n for n in range(len(folders) - 1, -1, -1) if folders[n] in _CRATE_PARTS), -1)
    inside = folders[at + 1 :] if at >= 0 else folders[2:]
    crate = folders[:at] if at >= 0 else folders[:2]
    return "/".join(crate), inside if stem in ("mod", "lib", "main") else [*inside, stem]


# --- Go ------------------------------------------------------------------------------------------------


def go_name(module: str) -> str:
    """The local name of an import without an alias: its last part that is not a version."""
    return _GO_VERSION.sub("", module).rpartition("/")[2]


class GoPackages:
    """Finds the files that an import path means, by the go.mod above the file that imports."""

    def __init__(self, text_at: Callable[[str], str | None]) -> None:
        self._text_at = text_at
        self._modules: dict[str, tuple[str, str] | None] = {}

    def holds(self, module: str, importer: str, path: str) -> bool | None:
        """Whether the file belongs to the imported package; None if unknown."""
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

    def imported_as(self, path: str) -> str:
        """The name by which others import the file's package: its folder's, or the module's in the folder of that."""
        there = path.rpartition("/")[0]
        home = self._module_of(there)
        return go_name(home[1] if home is not None and home[0] == there else there)

    def _module_of(self, folder: str) -> tuple[str, str] | None:
        """The folder of the nearest go.mod and the module's name."""
        if folder not in self._modules:
            text = self._text_at(f"{folder}/go.mod" if folder else "go.mod")
            if text and (named := _GO_MODULE.search(text)):
                self._modules[folder] = (folder, named[1])
            else:
                self._modules[folder] = self._module_of(folder.rpartition("/")[0]) if folder else None
        return self._modules[folder]
