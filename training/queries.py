"""Libraries and queries with known answers for the second stage, from packages that no model of ours has seen.

Three libraries are doctored like those of bench.quality (docs and headings taken out, and asked for); one holds whole
packages, of which symbols, paths, error messages, lines of code, headings and written questions are asked.
"""

from __future__ import annotations

import ast
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import exclude
import yaml

from bench import authored, corpora, sets
from bench.sets import Asked, Item, KnownItems

HERE = Path(__file__).parent
WHOLE = 14  # packages of the whole library, beside those with written questions
PER_KIND = 14  # queries of each kind a package
sets.KINDS["whole"] = "code"


def packages() -> list[corpora.HeldOut]:
    """The list, or an error where a package of it may not be used."""
    found = []
    mined = {line.split()[1].partition("==")[0] for line in _lines(HERE / "packages.txt")}
    for line in _lines(HERE / "second_stage.txt"):
        part, registry, pinned, sha256 = line.split()[:4]
        name, _, version = pinned.partition("==")
        if exclude.is_excluded(name) or name in mined:
            raise SystemExit(f"{name} is reserved, held out or mined")
        found.append(corpora.HeldOut(part, corpora.Pin(registry, name, version, sha256)))
    return found


def known_items(name: str, cache: Path, folder: Path) -> KnownItems:
    """The training set of that name, all of its queries under `tune`."""
    home = folder / name
    own = [one.pin for one in packages() if one.set == name]
    if name == "whole":
        return _whole([one.pin for one in packages() if one.set == "python"], cache, home)
    if not (home / "items.json").is_file():
        shutil.rmtree(home, ignore_errors=True)
        roots = [(pin.folder, corpora.fetch(pin, cache)) for pin in own]
        items = sets.build(name, roots, home / "files")
        if name == "python":
            items += [item for package, root in roots for item in _classes(package, root, home / "files")]
        (home / "items.json").write_text(json.dumps([asdict(one) for one in items]))
    items = [Item(**one) for one in json.loads((home / "items.json").read_text())]
    return KnownItems(name=name, folder=home / "files", report=(), tune=tuple(items))


def _classes(package: str, root: Path, files: Path) -> list[Item]:
    """Classes by the first sentence of their docstrings, so that not every answer is a function."""
    found = []
    for path in sorted((files / package).rglob("*.py")):
        inner = path.relative_to(files / package).as_posix()
        try:
            before = ast.parse((root / inner).read_text(encoding="utf-8"))
            after = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        places = {one.name: one for one in after.body if isinstance(one, ast.ClassDef)}
        for one in before.body:
            said = ast.get_docstring(one) if isinstance(one, ast.ClassDef) else None
            if said and isinstance(one, ast.ClassDef) and one.name in places and "test" not in inner:
                sentence = " ".join(re.split(r"(?<=[.!?])\s|\n\n", said.strip())[0].split())
                if 4 <= len(sentence.split()) <= 30:
                    there = places[one.name]
                    found.append(
                        Item(sentence, package, f"{package}/{inner}", there.lineno, there.end_lineno or there.lineno)
                    )
    return random.Random(package).sample(found, min(20, len(found)))


def _whole(pins: list[corpora.Pin], cache: Path, home: Path) -> KnownItems:
    asked = yaml.safe_load((HERE / "second_stage.yaml").read_text(encoding="utf-8"))
    chosen = [pin for pin in pins if pin.name in asked]
    chosen += [pin for pin in pins if pin.name not in asked][:WHOLE]
    items: list[Asked] = []
    for pin in chosen:
        if not (home / "files" / pin.folder).is_dir():
            corpora.copy(corpora.fetch(pin, cache), home / "files" / pin.folder)
        for one in asked.get(pin.name, ()):
            right = [place for at in one["at"] for place in authored.places(home / "files", f"{pin.folder}/{at}")]
            items.append(authored.Question(one["ask"], pin.folder, tuple(right)))
        items += _drawn(pin.folder, home / "files")
    return KnownItems(name="whole", folder=home / "files", report=(), tune=tuple(items))


def _drawn(package: str, files: Path) -> Iterator[Asked]:
    """Queries drawn from a package's Python and Markdown: each kind's own, said of few places."""
    kinds: dict[str, list[Asked]] = {"symbol": [], "error": [], "code": [], "path": [], "heading": []}
    names: Counter[str] = Counter()
    for path in sorted((files / package).rglob("*")):
        inner = path.relative_to(files).as_posix()
        if "test" in inner or not path.is_file():
            continue
        if path.suffix == ".py":
            _draw_code(package, inner, path, kinds, names)
        elif path.suffix in (".md", ".rst"):
            _draw_headings(package, inner, path, kinds)
    kinds["symbol"] = [one for one in kinds["symbol"] if names[one.query.rpartition(".")[2]] == 1 or "." in one.query]
    for kind, own in kinds.items():
        yield from random.Random(package + kind).sample(own, min(PER_KIND, len(own)))


def _draw_code(package: str, inner: str, path: Path, kinds: dict[str, list[Asked]], names: Counter[str]) -> None:
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (SyntaxError, UnicodeDecodeError):
        return
    lines = text.splitlines()
    if len(lines) > 20:
        short = "/".join(inner.split("/")[-2:])
        kinds["path"].append(authored.Question(short, package, (authored.Place(inner, 1, len(lines)),)))
    for owner, one in _definitions(tree):
        first, last = one.lineno, one.end_lineno or one.lineno
        names[one.name] += 1
        if len(one.name) > 3 and not one.name.startswith("__"):
            kinds["symbol"].append(Item(one.name, package, inner, first, last))
            if owner:
                kinds["symbol"].append(Item(f"{owner}.{one.name}", package, inner, first, last))
        if isinstance(one, ast.ClassDef):
            continue
        kinds["error"] += [Item(said, package, inner, first, last) for said in _raised(one)]
        inside = [line.strip() for line in lines[first:last] if 25 < len(line.strip()) < 90 and "(" in line]
        kinds["code"] += [Item(line, package, inner, first, last) for line in inside[:2]]


def _definitions(tree: ast.Module) -> Iterable[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for one in tree.body:
        if isinstance(one, kinds):
            yield "", one
        if isinstance(one, ast.ClassDef):
            yield from ((one.name, inner) for inner in one.body if isinstance(inner, kinds))


def _raised(function: ast.AST) -> Iterator[str]:
    """Messages as a user would see them, with something in the place of what is filled in."""
    for one in ast.walk(function):
        call = one.exc if isinstance(one, ast.Raise) else None
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.func, ast.Name):
            continue
        said = call.args[0]
        if isinstance(said, ast.Constant) and isinstance(said.value, str):
            text = re.sub(r"%[sdr]|\{[^}]*\}", "42", said.value)
        elif isinstance(said, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "foo" for part in said.values)
        else:
            continue
        if 4 <= len(text.split()) <= 25:
            yield f"{call.func.id}: {' '.join(text.split())}"


def _draw_headings(package: str, inner: str, path: Path, kinds: dict[str, list[Asked]]) -> None:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    seen = Counter(lines)
    for row, line in enumerate(lines[:-1]):
        marked = re.match(r"#{2,4} (.{8,60})$", line)
        ruled = re.fullmatch(r"([=\-~^])\1{5,}", lines[row + 1]) and re.fullmatch(r"\w.{7,59}", line)
        if (marked or ruled) and seen[line] == 1 and len(line.split()) > 2:
            heading = marked[1] if marked else line
            place = authored.Place(inner, row + 1, row + 3)
            kinds["heading"].append(authored.Question(heading.strip("`* "), package, (place,)))


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
