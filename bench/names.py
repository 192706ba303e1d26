"""Does a name find its definition?  Qualified names, types with a method, keywords with a name, in eight languages.

python -m bench.names [--half report|tune] [--libraries FOLDER] [--show] [--json FILE]

Asked are names of pinned packages, indexed as they are, that stand for one definition of their package; the first hit
of the served search_code must define it and show its first line.  Files are in one half or the other.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath

from bench import corpora, metrics, tables
from bench.served import Search, as_served
from bench.sets import TEST
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Document, Filters, Query, StoredChunk, Symbol
from refdesk.settings import Settings
from refdesk.text import analyse

FLOOR = 0.97
PER_LANGUAGE = 40
# Packages by registry, name and the folder that holds what people wrote.
PACKAGES = (
    ("pypi", "werkzeug", ""), ("pypi", "celery", ""), ("pypi", "scrapy", ""),
    ("pypi", "tokenizers", ""), ("pypi", "maturin", ""), ("pypi", "cryptography", ""),
    ("pypi", "wandb", "core/internal"), ("pypi", "jpype1", ""),
    ("pypi", "psutil", ""), ("pypi", "tree-sitter", ""), ("pypi", "brotli", ""),
    ("pypi", "pybind11", ""), ("pypi", "nanobind", ""), ("pypi", "xgboost", ""),
    ("npm", "mongoose", "lib"), ("npm", "fastify", ""), ("npm", "rxjs", "src"), ("npm", "effect", "src"),
)  # fmt: skip
_LANGUAGES = {
    "py": "Python", "rs": "Rust", "go": "Go", "java": "Java", "c": "C", "cc": "C++", "cpp": "C++", "hpp": "C++",
    "js": "JavaScript", "ts": "TypeScript",
}  # fmt: skip
_TYPES = frozenset({"class", "struct", "enum", "interface", "trait"})
_FUNCTIONS = {
    "Python": "def", "Rust": "fn", "Go": "func", "C": "function", "C++": "function", "Java": "method",
    "JavaScript": "function", "TypeScript": "function",
}  # fmt: skip
_BETWEEN = {"Rust": ("::", " "), "C++": ("::", " "), "Java": (".", " ", "#")}
_UNNAMED = frozenset({"__init__", "index", "mod", "lib", "main"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{2,}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A name as somebody types it, and the definition it means."""

    query: str
    language: str
    form: str
    package: str
    path: str
    symbol: Symbol

    def is_met_by(self, stored: StoredChunk) -> bool:
        """Whether the passage defines the symbol and shows its first line."""
        chunk = stored.chunk
        named = any(one.rpartition(".")[2] == self.symbol.name for one in (*chunk.symbols, chunk.title))
        shown = chunk.start_line <= self.symbol.start_line <= chunk.end_line
        return stored.document.path == self.path and named and shown


def names(desk: Desk, package: str) -> Iterator[Asked]:
    """Every way to ask for every name of a package that means one definition."""
    documents = desk.documents(package, 100_000, 0)
    defined = [(document, symbol) for document in documents for symbol in desk._store.symbols_of(document.id)]
    alone = Counter(_key(symbol.name) for _, symbol in defined)
    owned = Counter((_key(_owner(symbol)), _key(symbol.name)) for _, symbol in defined)
    there = Counter((_key(_module(document)), _key(symbol.name)) for document, symbol in defined)
    types = {symbol.name for _, symbol in defined if symbol.kind in _TYPES}
    for document, symbol in defined:
        language = _LANGUAGES.get(document.path.rpartition(".")[2], "")
        if not language or TEST.search(document.path) or not _NAME.fullmatch(symbol.name):
            continue

        def asked(form: str, query: str, document: Document = document, symbol: Symbol = symbol) -> Asked:
            return Asked(query, _LANGUAGES[document.path.rpartition(".")[2]], form, package, document.path, symbol)

        owner, module = _owner(symbol), _module(document)
        if alone[_key(symbol.name)] == 1:
            if symbol.kind in _TYPES:
                keyword = "type" if language == "Go" else symbol.kind
                yield asked("keyword and name", f"{keyword} {symbol.name}")
            elif symbol.kind in ("function", "method"):
                yield asked("keyword and name", f"{_FUNCTIONS[language]} {symbol.name}")
        if owner in types and symbol.kind in ("method", "function") and owned[_key(owner), _key(symbol.name)] == 1:
            for between in _BETWEEN.get(language, (".", " ")):
                yield asked("type and method", f"{owner}{between}{symbol.name}")
        is_free = not owner and symbol.kind in ("function", *_TYPES)
        if is_free and language in ("Python", "Go", "JavaScript") and there[_key(module), _key(symbol.name)] == 1:
            yield asked("module and name", f"{module}.{symbol.name}")


def _owner(symbol: Symbol) -> str:
    owner = symbol.qualified.rpartition(".")[0].rpartition(".")[2]
    return owner if _NAME.fullmatch(owner) else ""


def _module(document: Document) -> str:
    path = PurePosixPath(document.path)
    if path.suffix == ".go" or path.stem in _UNNAMED:
        return path.parent.name
    return path.stem


def _key(name: str) -> str:
    return analyse.joined_name(name)


def sample(found: Sequence[Asked], most: int, half: str) -> list[Asked]:
    """So many of each language, its forms and packages in turn, each definition once."""
    picked: list[Asked] = []
    for language in sorted({one.language for one in found}):
        pick = random.Random(language)
        own = [one for one in found if one.language == language and _half(one.path) == half]
        groups: dict[tuple[str, str], list[Asked]] = {}
        seen: set[tuple[str, str]] = set()
        for one in pick.sample(own, len(own)):
            if (definition := (one.path, one.symbol.qualified)) not in seen:
                seen.add(definition)
                groups.setdefault((one.form, one.package), []).append(one)
        turns = itertools.chain.from_iterable(itertools.zip_longest(*groups.values()))
        taken = list(itertools.islice(filter(None, turns), most))
        picked += taken
    return picked


def _half(path: str) -> str:
    return "tune" if zlib.crc32(path.encode()) % 2 else "report"


def rank(search: Search, one: Asked) -> int | None:
    """The place of the first hit that meets it, among ten."""
    hits = search(Query(text=one.query, filters=Filters(collections=(one.package,)))).hits
    return next((place for place, hit in enumerate(hits, 1) if one.is_met_by(hit.stored)), None)


def rows(asked: Sequence[Asked], ranks: Sequence[int | None]) -> list[tables.Row]:
    """How often the definition is first, for all, by form and by language."""
    every = list(zip(asked, ranks, strict=True))
    parts = {"all": every}
    parts |= {form: [one for one in every if one[0].form == form] for form in sorted({one.form for one in asked})}
    parts |= {name: [one for one in every if one[0].language == name] for name in sorted({o.language for o in asked})}
    found = []
    for label, own in parts.items():
        share = metrics.estimate([float(rank == 1) for _, rank in own])
        said = f"95% {share.low:.3f} to {share.high:.3f}, {len(own)} queries"
        floor = FLOOR if label == "all" else None
        found.append(tables.Row(f"definition first, {label}", share.mean, "", floor, at_least=True, note=said))
    return found


@contextmanager
def named(half: str, cache: Path, libraries: Path | None) -> Iterator[tuple[Desk, list[Asked]]]:
    """A library with a collection for each package, and the names of that half."""
    pins = corpora.pins()
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        settings = Settings(library=(libraries or Path(scratch)) / "names", embedder="static")
        with open_desk(settings) as desk:
            for registry, name, folder in PACKAGES:
                desk.index(corpora.fetch(pins[registry, name], cache) / folder, "code", name=name)
            found = [one for _, name, _ in PACKAGES for one in names(desk, name)]
            yield desk, sample(found, PER_LANGUAGE, half)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--half", default="report", choices=["report", "tune"])
    options.add_argument("--show", action="store_true", help="the names whose definition is not first")
    options.add_argument("--libraries", type=Path, help="where what was indexed is kept, to save time")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with named(given.half, given.cache, given.libraries) as (desk, asked), as_served(desk, "search_code") as search:
        ranks = [rank(search, one) for one in asked]
        for one, place in zip(asked, ranks, strict=True):
            if given.show and place != 1:
                hits = desk.engine.search(
                    Query(text=one.query, filters=Filters(collections=(one.package,)), limit=1, explain=True)
                ).hits
                best = [f"{hit.stored.document.path}#{hit.stored.chunk.key} {dict(hit.explanation)}" for hit in hits]
                print(f"{one.query!r} of {one.package}: {one.path}:{one.symbol.start_line} at {place}, not {best}")
    told = rows(asked, ranks)
    print(tables.show_rows("names", told))
    print("kept in", tables.keep("names", {"rows": [asdict(row) for row in told]}, given.json))


if __name__ == "__main__":
    main()
