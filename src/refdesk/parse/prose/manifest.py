"""Front matter of documents, and the `.docs-mcp.json` manifests of a corpus."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from refdesk.errors import InvalidInput
from refdesk.system.files import read_rules
from refdesk.text.globs import manifest_glob

ChunkBy = Literal["auto", "h1", "h2", "h3", "file"]

# About 6,700 tokens: the default of the tool that introduced the manifest.
DEFAULT_MAX_CHUNK_SIZE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The heading level that starts a section and the size limits in characters; auto is h2 or the next used level."""

    chunk_by: ChunkBy = "auto"
    max_chunk_size: int = DEFAULT_MAX_CHUNK_SIZE
    min_chunk_size: int = 0

    @property
    def level(self) -> int:
        """The deepest heading level that starts a section, 0 for none."""
        return {"file": 0, "h1": 1, "h2": 2, "h3": 3, "auto": 2}[self.chunk_by]


def read_strategy(value: Any, where: str) -> Strategy:
    """The strategy in a manifest or a front matter; raises InvalidInput with the name of a wrong field."""
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where} must be an object.", 'Write for example {"chunk_by": "h2"}.')
    return Strategy(
        chunk_by=read_chunk_by(value.get("chunk_by", "h2"), f"{where}.chunk_by"),
        max_chunk_size=_positive(value.get("max_chunk_size"), f"{where}.max_chunk_size") or DEFAULT_MAX_CHUNK_SIZE,
        min_chunk_size=_positive(value.get("min_chunk_size"), f"{where}.min_chunk_size"),
    )


def read_chunk_by(value: Any, where: str) -> ChunkBy:
    """One of the four levels."""
    if value not in ("h1", "h2", "h3", "file"):
        raise InvalidInput(f"{where} is {value!r}.", "It must be one of: h1, h2, h3, file.")
    return value  # type: ignore[no-any-return]  # one of the four, as was checked


def _positive(value: Any, where: str) -> int:
    if value is None:
        return 0
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise InvalidInput(f"{where} is {value!r}.", "It must be a positive integer, in characters.")
    return value


_MAX_LINES = 2_000  # of front matter: a rule at the top of a long text is not searched for its end
_MAX_CHARS = 200_000
_HINT = re.compile(r"<!--\s*+mcp_chunking_hint:\s*+(\{[^{}]{1,1000}\})\s*+-->")
_HIDDEN = frozenset({"metadata", "mcp_metadata", "mcp_strategy", "mcp_chunking_hint"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """The block's fields, and the first line of the document (from 0)."""

    body: int = 0
    title: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)  # all scalar values
    facets: Mapping[str, str] = field(default_factory=dict)  # values to filter by
    strategy: Strategy | None = None
    problem: str = ""
    problem_line: int = 1


def read_front_matter(lines: list[str]) -> FrontMatter:
    """The fields between the fences at the top; an unreadable block sets `problem`."""
    fence = lines[0].rstrip() if lines else ""
    kind = {"---": "YAML", "---yaml": "YAML", "+++": "TOML"}.get(fence, "")
    mark, closing = (":", ("---", "...")) if kind == "YAML" else ("=", ("+++",))
    ends = (at for at in range(1, min(len(lines), _MAX_LINES)) if lines[at].rstrip() in closing)
    end = next(ends, 0) if kind else 0
    filled = [line for line in lines[1:end] if line.strip() and not line.lstrip().startswith("#")]
    # A horizontal rule at the top of a page is no fence: text follows it, not fields.
    if not end or (filled and not any(re.match(rf"\s*[\w\"'.$-][^{mark}]*{mark}(\s|$)", one) for one in filled[:3])):
        return FrontMatter()
    body = end + 1
    data, problem, line = _load("\n".join(line.rstrip("\r") for line in lines[1:end]), kind)
    if problem:
        return FrontMatter(body=body, problem=f"front matter is not valid {kind}: {problem}", problem_line=line + 2)
    if not data:
        return FrontMatter(body=body)
    if not isinstance(data, dict):
        return FrontMatter(body=body, problem="front matter is not a map of keys to values")
    fields = {str(key).strip(): _one(value) for key, value in data.items() if key not in _HIDDEN}
    facets: dict[str, str] = {}
    for name in ("metadata", "mcp_metadata"):
        given = data.get(name)
        if isinstance(given, dict):
            facets |= {str(key).strip(): _one(value) for key, value in given.items()}
        elif given:
            problem = f"{name} in the front matter must be a map of keys to values"
    strategy = None
    try:
        if data.get("mcp_strategy"):
            strategy = read_strategy(data["mcp_strategy"], "mcp_strategy")
        elif data.get("mcp_chunking_hint"):
            strategy = Strategy(chunk_by=read_chunk_by(data["mcp_chunking_hint"], "mcp_chunking_hint"))
    except InvalidInput as error:
        problem = str(error)
    facets = {key: value for key, value in facets.items() if key and value}
    kept = {key: value for key, value in fields.items() if key and value}
    title = kept.get("title") or kept.get("Title", "")
    return FrontMatter(body=body, title=title, fields=kept | facets, facets=facets, strategy=strategy, problem=problem)


def chunking_hint(text: str) -> ChunkBy | None:
    """The level that an HTML comment asks for, or None."""
    found = _HINT.search(text)
    try:
        return read_chunk_by(json.loads(found[1]).get("chunk_by"), "") if found else None
    except (ValueError, InvalidInput):
        return None


def _load(text: str, kind: str) -> tuple[Any, str, int]:
    """The block's data in strings, lists and maps; or what is wrong with it, and the line."""
    if len(text) > _MAX_CHARS:
        return None, "too large", 0
    import yaml

    try:
        if kind == "TOML":
            import tomllib

            return _toml_strings(tomllib.loads(text)), "", 0
        # The base loader creates strings, lists and maps only: no objects, and 1.10 stays "1.10".
        return yaml.load(text, Loader=yaml.CBaseLoader), "", 0  # noqa: S506 - creates strings only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return None, str(getattr(error, "problem", "") or error), mark.line if mark else 0
    except ValueError as error:
        return None, str(error), 0
    except RecursionError:
        return None, "too deeply nested", 0


def _toml_strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _toml_strings(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_toml_strings(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _one(value: Any) -> str:
    """A scalar as written, a list of scalars joined by commas, "" for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(one.strip() for one in value[:100])
    return ""


# ── manifests ──

T = TypeVar("T")

FILE_NAME = ".docs-mcp.json"
_CALLED: Mapping[type, str] = {dict: "an object", list: "an array", str: "a string"}
_MOST_OVERRIDES = 1_000  # each is tried on every file below
NOT_ENTERED = frozenset({"node_modules", "__pycache__", "venv"})
_KEYS = frozenset({"$schema", "version", "strategy", "metadata", "taxonomy", "mcpServerInstructions", "overrides"})
_STRATEGY_KEYS = frozenset({"chunk_by", "max_chunk_size", "min_chunk_size"})
_OVERRIDE_KEYS = frozenset({"pattern", "strategy", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An exception for paths that match a pattern, relative to the manifest's folder."""

    pattern: str
    strategy: Strategy | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One `.docs-mcp.json`."""

    folder: str  # relative to the corpus, "" for its root
    strategy: Strategy | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    taxonomy: Mapping[str, str] = field(default_factory=dict)  # descriptions of keys to filter by
    instructions: str = ""
    overrides: tuple[Override, ...] = ()
    unknown: tuple[str, ...] = ()  # unknown keys, probably misspelt


@dataclass(frozen=True, slots=True, kw_only=True)
class Governing:
    """What a manifest sets for one file; the file's front matter takes precedence."""

    strategy: Strategy | None = None  # None: no corpus, so the collection's token limits apply
    metadata: Mapping[str, str] = field(default_factory=dict)
    taxonomy: Mapping[str, str] = field(default_factory=dict)

    def facets(self, front: FrontMatter) -> dict[str, str]:
        """The file's facets; its front matter takes precedence over the manifest."""
        declared = {key: front.fields[key] for key in self.taxonomy if key in front.fields}
        inherited = {key: front.fields[key] for key in self.metadata if key in front.fields}
        return {**self.metadata, **inherited, **declared, **front.facets}


NO_RULES = Governing()


@dataclass(frozen=True, slots=True)
class ManifestSet:
    """The manifests of a corpus; an empty set means the defaults."""

    manifests: tuple[Manifest, ...] = ()

    def for_path(self, path: str) -> Governing:
        """What the nearest manifest above a relative path sets for it."""
        governing = max(
            (one for one in self.manifests if not one.folder or path.startswith(f"{one.folder}/")),
            key=lambda one: len(one.folder),
            default=None,
        )
        if governing is None:
            return Governing(strategy=Strategy())
        inner = path[len(governing.folder) + 1 :] if governing.folder else path
        strategy, metadata = governing.strategy or Strategy(), dict(governing.metadata)
        for override in governing.overrides:
            if manifest_glob(override.pattern).fullmatch(inner):
                strategy = override.strategy or strategy
                metadata |= override.metadata
        return Governing(strategy=strategy, metadata=metadata, taxonomy=governing.taxonomy)

    @property
    def taxonomy(self) -> dict[str, str]:
        """The descriptions of the keys of all manifests; outer ones take precedence."""
        merged: dict[str, str] = {}
        for manifest in sorted(self.manifests, key=lambda one: one.folder.count("/") + bool(one.folder)):
            for key, description in manifest.taxonomy.items():
                merged[key] = merged.get(key) or description
        return merged

    @property
    def instructions(self) -> str:
        """The outermost manifest's instructions to clients."""
        said = [one for one in self.manifests if one.instructions]
        return min(said, key=lambda one: len(one.folder)).instructions if said else ""


def load_manifests(root: Path) -> ManifestSet:
    """All manifests under a folder; raises InvalidInput with the file and field that is wrong."""
    found: list[Manifest] = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in NOT_ENTERED)
        if FILE_NAME in files:
            relative = Path(folder).relative_to(root).as_posix()
            try:
                data = read_rules(Path(folder, FILE_NAME))
            except OSError as error:
                where = f"{folder}/{FILE_NAME}"
                raise InvalidInput(f"{where} can't be read: {error.strerror}.", "Put a file there.") from error
            found.append(read_manifest(data, "" if relative == "." else relative))
    return ManifestSet(tuple(found))


def read_manifest(data: bytes, folder: str = "") -> Manifest:
    """Parses a manifest; raises InvalidInput if it is invalid, and lists unknown keys."""
    where = f"{folder}/{FILE_NAME}" if folder else FILE_NAME
    try:
        given = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where} is not valid JSON: {error}.", "Correct it, then index again.") from error
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} must be a JSON object.")
    if given.get("version") != "1":
        raise InvalidInput(f"{where}: version is {given.get('version')!r}.", 'Only "version": "1" is known.')
    where += ": "
    overrides = _field(given, "overrides", list, where)
    if len(overrides) > _MOST_OVERRIDES:
        raise InvalidInput(f"{where}there are {len(overrides)} overrides.", f"At most {_MOST_OVERRIDES} are read.")
    taxonomy = _field(given, "taxonomy", dict, where)
    read: list[Override] = []
    unknown = [key for key in given if key not in _KEYS]
    unknown += [f"strategy.{key}" for key in given.get("strategy") or () if key not in _STRATEGY_KEYS]
    for at, override in enumerate(overrides):
        name = f"overrides[{at}]"
        if not isinstance(override, dict):
            raise InvalidInput(f"{where}{name} must be an object.")
        pattern = _field(override, "pattern", str, f"{where}{name}.").strip()
        if not pattern:
            raise InvalidInput(f"{where}{name}.pattern is missing.", 'Write a glob such as "guides/**/*.md".')
        try:
            manifest_glob(pattern)
        except InvalidInput as error:
            raise InvalidInput(f"{where}{name}.pattern can't be used: {error.message}", error.what_next) from error
        read.append(Override(pattern=pattern, **_rules(override, f"{where}{name}.")))
        unknown += [f"{name}.{key}" for key in override if key not in _OVERRIDE_KEYS]
        unknown += [f"{name}.strategy.{key}" for key in override.get("strategy") or () if key not in _STRATEGY_KEYS]
    return Manifest(
        folder=folder,
        **_rules(given, where),
        taxonomy={
            key.strip(): _field(_field(taxonomy, key, dict, f"{where}taxonomy."), "description", str, f"{where}{key}.")
            for key in taxonomy
        },
        instructions=_field(given, "mcpServerInstructions", str, where).strip(),
        overrides=tuple(read),
        unknown=tuple(unknown),
    )


def _field(given: Mapping[str, Any], key: str, kind: type[T], where: str) -> T:
    """The value of a field, empty if it is missing; raises InvalidInput if it has another type."""
    value = given.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidInput(f"{where}{key} must be {_CALLED[kind]}.")
    return value


def _rules(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The strategy and the metadata of a manifest or an override."""
    metadata: dict[str, str] = {}
    for key, value in _field(given, "metadata", dict, where).items():
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float) or not str(value).strip() or not key.strip():
            raise InvalidInput(f"{where}metadata.{key} must be a non-empty string.")
        metadata[key.strip()] = str(value).strip()
    strategy = None if given.get("strategy") is None else read_strategy(given["strategy"], f"{where}strategy")
    return {"strategy": strategy, "metadata": metadata}
