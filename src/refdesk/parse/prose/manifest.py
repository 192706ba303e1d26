"""`.docs-mcp.json` manifests: a corpus's chunking, metadata and facets."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refdesk.errors import InvalidInput
from refdesk.parse.prose.frontmatter import Strategy, read_strategy
from refdesk.system.files import read_rules
from refdesk.text.globs import manifest_glob

if TYPE_CHECKING:
    from refdesk.parse.prose.frontmatter import FrontMatter

FILE_NAME = ".docs-mcp.json"
_MOST_OVERRIDES = 1_000  # each is tried on every file below
_NOT_ENTERED = frozenset({"node_modules", "__pycache__", "venv"})
_KEYS = frozenset({"$schema", "version", "strategy", "metadata", "taxonomy", "mcpServerInstructions", "overrides"})
_STRATEGY_KEYS = frozenset({"chunk_by", "max_chunk_size", "min_chunk_size"})
_OVERRIDE_KEYS = frozenset({"pattern", "strategy", "metadata"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A manifest's description of a key to filter by."""

    description: str = ""
    values: tuple[str, ...] = ()
    vector_collapse: bool = False  # its values are variants of one content
    resources: tuple[str, ...] = ()  # values whose documents are offered as resources


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
    taxonomy: Mapping[str, Facet] = field(default_factory=dict)
    instructions: str = ""
    overrides: tuple[Override, ...] = ()
    unknown: tuple[str, ...] = ()  # unknown keys, probably misspelt


@dataclass(frozen=True, slots=True, kw_only=True)
class Governing:
    """What a manifest sets for one file; the file's front matter takes precedence."""

    strategy: Strategy | None = None  # None: no corpus, so the collection's token limits apply
    metadata: Mapping[str, str] = field(default_factory=dict)
    taxonomy: Mapping[str, Facet] = field(default_factory=dict)

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
    def taxonomy(self) -> dict[str, Facet]:
        """The facets of all manifests; outer ones take precedence."""
        merged: dict[str, Facet] = {}
        for manifest in sorted(self.manifests, key=lambda one: one.folder.count("/") + bool(one.folder)):
            for key, facet in manifest.taxonomy.items():
                known = merged.get(key, Facet())
                merged[key] = Facet(
                    description=known.description or facet.description,
                    values=tuple(sorted({*known.values, *facet.values})),
                    vector_collapse=known.vector_collapse or facet.vector_collapse,
                    resources=tuple(sorted({*known.resources, *facet.resources})),
                )
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
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _NOT_ENTERED)
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
    overrides = _list(given.get("overrides"), f"{where}: overrides")
    if len(overrides) > _MOST_OVERRIDES:
        raise InvalidInput(f"{where}: there are {len(overrides)} overrides.", f"At most {_MOST_OVERRIDES} are read.")
    return Manifest(
        folder=folder,
        strategy=_strategy(given.get("strategy"), f"{where}: strategy"),
        metadata=_strings(given.get("metadata"), f"{where}: metadata"),
        taxonomy=_taxonomy(given.get("taxonomy"), f"{where}: taxonomy"),
        instructions=_text(given.get("mcpServerInstructions"), f"{where}: mcpServerInstructions"),
        overrides=tuple(_override(one, f"{where}: overrides[{at}]") for at, one in enumerate(overrides)),
        unknown=tuple(_unknown(given)),
    )


def _override(given: Any, where: str) -> Override:
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} must be an object.")
    pattern = _text(given.get("pattern"), f"{where}.pattern")
    if not pattern:
        raise InvalidInput(f"{where}.pattern is missing.", 'Write a glob such as "guides/**/*.md".')
    try:
        manifest_glob(pattern)
    except InvalidInput as error:
        raise InvalidInput(f"{where}.pattern can't be used: {error.message}", error.what_next) from error
    return Override(
        pattern=pattern,
        strategy=_strategy(given.get("strategy"), f"{where}.strategy"),
        metadata=_strings(given.get("metadata"), f"{where}.metadata"),
    )


def _strategy(given: Any, where: str) -> Strategy | None:
    return None if given is None else read_strategy(given, where)


def _taxonomy(given: Any, where: str) -> dict[str, Facet]:
    facets: dict[str, Facet] = {}
    for key, value in _dict(given, where).items():
        one = _dict(value, f"{where}.{key}")
        properties = _dict(one.get("properties"), f"{where}.{key}.properties")
        facets[key.strip()] = Facet(
            description=_text(one.get("description"), f"{where}.{key}.description"),
            values=tuple(str(value) for value in _list(one.get("values"), f"{where}.{key}.values")),
            vector_collapse=one.get("vector_collapse") is True,
            resources=tuple(
                name for name, said in properties.items() if isinstance(said, dict) and said.get("mcp_resource") is True
            ),
        )
    return facets


def _strings(given: Any, where: str) -> dict[str, str]:
    strings: dict[str, str] = {}
    for key, value in _dict(given, where).items():
        if isinstance(value, bool):
            value = str(value).lower()
        if not isinstance(value, str | int | float) or not str(value).strip() or not key.strip():
            raise InvalidInput(f"{where}.{key} must be a non-empty string.")
        strings[key.strip()] = str(value).strip()
    return strings


def _dict(given: Any, where: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise InvalidInput(f"{where} must be an object.")
    return given


def _list(given: Any, where: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise InvalidInput(f"{where} must be an array.")
    return given


def _text(given: Any, where: str) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise InvalidInput(f"{where} must be a string.")
    return given.strip()


def _unknown(given: dict[str, Any]) -> list[str]:
    unknown = [key for key in given if key not in _KEYS]
    unknown += [f"strategy.{key}" for key in _dict(given.get("strategy"), "strategy") if key not in _STRATEGY_KEYS]
    for at, override in enumerate(given.get("overrides") or []):
        unknown += [f"overrides[{at}].{key}" for key in override if key not in _OVERRIDE_KEYS]
        strategy = override.get("strategy") or {}
        unknown += [f"overrides[{at}].strategy.{key}" for key in strategy if key not in _STRATEGY_KEYS]
    return unknown
