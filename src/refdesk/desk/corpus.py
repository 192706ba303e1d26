"""The description of the docs corpus and its facets: `metadata.json` in the library folder."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refdesk.library import Library
from refdesk.system.files import replace_file

if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.model import Collection

_log = logging.getLogger(__name__)

VERSION = "1"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)
_NO_CORPUS = "documentation in this library"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facet:
    """A key that hits can be filtered by, and its values as written."""

    values: tuple[str, ...]
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What the server tells agents of the documentation."""

    description: str = _NO_CORPUS
    taxonomy: Mapping[str, Facet] = field(default_factory=dict)


def docs_collections(desk: Desk) -> list[Collection]:
    """The documentation of the library: docs collections, or where there are none all that are not code."""
    every = desk.collections()
    return [one for one in every if one.kind == "docs"] or [one for one in every if one.kind != "code"]


def has_corpus(desk: Desk) -> bool:
    """Whether somebody made documentation a part of the library, by indexing or crawling it."""
    return any(one.kind in ("docs", "web") for one in desk.collections())


def write_metadata(desk: Desk) -> None:
    """Writes metadata.json from the library's docs collections, unless it says that already."""
    docs = [one for one in desk.collections() if one.kind == "docs"]
    identity = desk.embedder_identity()
    stats = [desk.stats(one.name) for one in docs]
    commits = sorted({one.properties["commit"] for one in docs if one.properties.get("commit")})
    body: dict[str, Any] = {
        "metadata_version": VERSION,
        "corpus_description": "; ".join(one.description or f"{one.name} documentation" for one in docs) or _NO_CORPUS,
        "taxonomy": _taxonomy(desk, docs),
        "stats": {
            "total_chunks": sum(one.chunks for one in stats),
            "total_files": sum(one.documents for one in stats),
            "indexed_at": "",
            **({"source_commit": ", ".join(commits)} if commits else {}),
        },
        "embedding": {"provider": identity.name, "model": identity.version, "dimensions": identity.dimension}
        if identity
        else None,
    }
    file = desk.library.metadata
    with contextlib.suppress(*_UNREADABLE):
        known = json.loads(file.read_text(encoding="utf-8"))
        known["stats"]["indexed_at"] = ""
        if known == body:
            return
    body["stats"]["indexed_at"] = datetime.now(tz=UTC).isoformat(timespec="seconds")
    replace_file(file, json.dumps(body, ensure_ascii=False, indent=2) + "\n")
    desk.share_metadata()


def read_metadata(library: Library) -> Corpus:
    """The corpus as metadata.json describes it; an empty one where there is no such file or it can't be read."""
    try:
        return _read(library.metadata)
    except FileNotFoundError:
        return Corpus()
    except _UNREADABLE as error:
        _log.warning("%s can't be read, `refdesk doctor` writes it anew: %s", library.metadata, error)
        return Corpus()


def metadata_problem(library: Library) -> str | None:
    """What is wrong with metadata.json, if it is there."""
    try:
        _read(library.metadata)
    except FileNotFoundError:
        return None
    except _UNREADABLE as error:
        return f"can't be read: {error}"
    return None


def _read(file: Path) -> Corpus:
    body = json.loads(file.read_text(encoding="utf-8"))
    taxonomy = {
        key: Facet(values=tuple(_clean(one["values"])), description=str(one.get("description", "")))
        for key, one in body["taxonomy"].items()
    }
    return Corpus(
        description=str(body["corpus_description"]).strip() or _NO_CORPUS,
        taxonomy={key: one for key, one in taxonomy.items() if one.values},
    )


def _taxonomy(desk: Desk, docs: Sequence[Collection]) -> dict[str, Any]:
    found: dict[str, set[str]] = {}
    descriptions: dict[str, str] = {}
    for collection in docs:
        for key, values in desk.facets(collection.name).items():
            found.setdefault(key, set()).update(values)
        for key, declared in json.loads(collection.properties.get("taxonomy", "{}")).items():
            descriptions.setdefault(key, declared.get("description", ""))
    return {
        key: {
            **({"description": descriptions[key]} if descriptions.get(key) else {}),
            "values": _clean(found[key]),
        }
        for key in sorted(found)
        if _clean(found[key])
    }


def _clean(values: Any) -> list[str]:
    """Trimmed, each once, sorted, casing kept."""
    return sorted({str(value).strip() for value in values} - {""})
