"""Does the engine say when it has nothing, or nothing for certain?  Queries that are answered, and foreign ones.

python -m bench.abstention [--half report|tune] [--served] [--library FOLDER] [--show] [--json FILE]

Each of the smaller packages of bench.quality's sets is a collection, some of its files are collections of about 5, 20
and 50 passages, and the packages of bench.authored are collections as they are.  Good questions are asked as they are,
misspelt, and a word of them alone, and so are names of bench.names; foreign ones are those of other packages, everyday
questions and gibberish.  training/confidence.py learned from the tuning half; the reported half shares no package and
no everyday question with it.  As served, one collection is asked at a time.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import shutil
import string
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import authored, corpora, metrics, names, sets, tables
from bench.served import as_served
from bench.sets import Asked, KnownItems
from bench.spelling import misspell
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.model import Filters, Page, Query, StoredChunk
from refdesk.settings import Settings

PER_SET = 7  # packages, the smallest ones
PER_SIZE = 4  # of them, for small collections
SMALL = (5, 20, 50)  # passages of small collections
BYTES = 800  # of a passage, about
MOST = 500  # good questions
MOST_OF_SMALL = 6  # questions of a small collection
CERTAIN = 0.8  # a score from which on as many must be right
FEW = 20  # that say nothing for certain
SEVERAL = 4  # collections asked at once
FLOORS: dict[str, tuple[float | None, float | None]] = {  # hidden, hidden or weak: at most for good ones, else at least
    "good": (0.005, 0.1),
    "gibberish": (0.98, None),
    "everyday": (None, 0.98),
    "other package": (None, 0.7),
}


@dataclass(frozen=True, slots=True)
class Question:
    """A query, where it is asked, of what group it is, and what answers it if anything does."""

    group: str
    where: str
    text: str
    collections: tuple[str, ...]
    answer: Callable[[StoredChunk], bool] | None = None


@contextmanager
def packages(half: str, cache: Path, library: Path | None) -> Iterator[tuple[Desk, dict[str, list[Asked]]]]:
    """A library with a collection for each package of the half, and the questions that each answers."""
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        home = library or Path(scratch)
        with open_desk(Settings(library=home / half, embedder="static")) as desk:
            found: dict[str, list[Asked]] = {}
            every = [sets.known_items(name, cache) for name in sets.NAMES]
            every += [authored.known_items(cache)] if half == "report" else []
            for known in every:
                items: Sequence[Asked] = known.report if half == "report" else known.tune
                names = sorted({one.package for one in items}, key=lambda name: (_size(known.folder / name), name))
                for name in names[:PER_SET]:
                    own = [one for one in items if one.package == name]
                    collection = re.sub(r"\W+", "-", f"{known.name}-{name}")
                    desk.index(known.folder / name, sets.KINDS[known.name], name=collection)
                    found[collection] = own
                for name, size in itertools.product(names[:PER_SIZE], SMALL if known.name in sets.NAMES else ()):
                    files = [one for one in items if one.package == name and isinstance(one, sets.Item)]
                    collection = re.sub(r"\W+", "-", f"{known.name}-{name}-about-{size}")
                    found[collection] = list(_some(desk, known, files, size, collection, home / "files" / half))
            yield desk, found


def _some(
    desk: Desk, known: KnownItems, items: Sequence[sets.Item], size: int, collection: str, home: Path
) -> Iterator[Asked]:
    """Indexes files that answer questions, up to about so many passages, and gives the questions."""
    target = home / collection
    shutil.rmtree(target, ignore_errors=True)
    room = size * BYTES
    for path, own in itertools.groupby(items, key=lambda one: one.path):
        if (known.folder / path).stat().st_size <= room:
            room -= (known.folder / path).stat().st_size
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(known.folder / path, target / path)
            yield from own
    if target.is_dir():
        desk.index(target, sets.KINDS[known.name], name=collection)


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def questions(desk: Desk, by_collection: dict[str, list[Asked]], half: str) -> Iterator[Question]:
    """All of them, the same every time."""
    pick = random.Random(half)
    foreign = corpora.FOREIGN[half].read_text(encoding="utf-8").splitlines()
    names = sorted(by_collection)
    small = [name for name in names if "-about-" in name]
    for name in filter(by_collection.get, small):
        where = f"about {name.rpartition('-')[2]} passages"
        for item in by_collection[name][:MOST_OF_SMALL]:
            yield Question("good", where, item.query, (name,), _answer(item, name))
            other = pick.choice(by_collection[pick.choice([one for one in names if one not in small])])
            if other.package != item.package:
                yield Question("other package", where, other.query, (name,))
        yield Question("everyday", where, pick.choice(foreign), (name,))
        yield Question("gibberish", where, gibberish(pick), (name,))
    names = [name for name in names if name not in small]
    good = [(name, item) for name in names for item in by_collection[name]]
    for at, (name, item) in enumerate(pick.sample(good, min(MOST, len(good)))):
        met = _answer(item, name)
        others = pick.sample([other for other in names if other != name], SEVERAL)
        where = "collection"
        yield Question("good", where, item.query, (name,), met)
        yield Question("other package", "collection", item.query, (others[0],))
        if at % 3 == 0:
            yield Question("good", "several collections", item.query, (name, *others[1:]), met)
            yield Question("gibberish", "collection", gibberish(pick), (pick.choice(names),))
        if at % 3 == 1:
            yield Question("good", "all collections", item.query, tuple(names), met)
            if (misspelt := misspell(item.query, 1, desk, pick)) is not None:
                yield Question("misspelt", where, misspelt, (name,), met)
        if at % 3 == 2 and (words := re.findall(r"[A-Za-z]{5,}", item.query)):
            yield Question("one word", where, pick.choice(words).lower(), (name,))
    for text in foreign:
        yield Question("everyday", "collection", text, (pick.choice(names),))
        yield Question("everyday", "several collections", text, tuple(pick.sample(names, SEVERAL)))
        yield Question("everyday", "all collections", text, tuple(names))


def of_names(asked: Sequence[names.Asked]) -> Iterator[Question]:
    """Names of bench.names, each asked of its package and of another one."""
    for at, name in enumerate(asked):
        other = asked[at - len(asked) // 2].package
        yield Question("good", "name", name.query, (name.package,), name.is_met_by)
        if other != name.package:
            yield Question("other package", "name", name.query, (other,))


def _answer(item: Asked, collection: str) -> Callable[[StoredChunk], bool]:
    """Whether a passage of that collection, whose paths lack the package, answers the item."""

    def met(stored: StoredChunk) -> bool:
        document = stored.document
        path = document.path if "-about-" in collection else f"{item.package}/{document.path}"
        if document.collection != collection:
            return False
        return item.is_met_by(stored._replace(document=replace(document, path=path)))

    return met


def gibberish(pick: random.Random) -> str:
    """One to three words of keys that were hit at random, lie side by side or are held down."""
    made = []
    for _ in range(pick.choice((1, 1, 1, 2, 3))):
        keys = pick.choice((string.ascii_lowercase, "asdfghjkl", pick.choice("qzxjvkw") + pick.choice("qzxjvkwp")))
        made.append("".join(pick.choice(keys) for _ in range(pick.randint(5, 10))))
    return " ".join(made)


def answered(desk: Desk, every: Iterator[Question], *, served: bool) -> Iterator[tuple[Question, Page]]:
    """Each question with its page; rag_search, if served, is asked of one collection."""
    with as_served(desk, "rag_search") if served else nullcontext(desk.engine.search) as search:
        for one in every:
            if not served or len(one.collections) == 1:
                yield one, search(Query(text=one.text, filters=Filters(collections=one.collections)))


def rows(asked: Sequence[tuple[Question, Page]]) -> list[tables.Row]:
    """Of each group, in each place, how many pages are hidden and how many are hidden or weak."""
    parts: dict[tuple[str, str], list[tuple[bool, bool]]] = {}
    for one, page in asked:
        for where in dict.fromkeys((one.where, "name" if one.where == "name" else "anywhere")):
            parts.setdefault((one.group, where), []).append((not page.hits, not page.hits or page.weak))
    found = []
    for group, where in sorted(parts):
        own = parts[group, where]
        for label, at in (("hidden", 0), ("hidden or weak", 1)):
            share = metrics.estimate([float(one[at]) for one in own])
            floor = FLOORS.get(group, (None, None))[at] if where == "anywhere" else None
            told = f"95% {share.low:.3f} to {share.high:.3f}, {len(own)} queries"
            what = f"{group}, {where}: {label}"
            found.append(tables.Row(what, share.mean, "", floor, at_least=group != "good", note=told))
    return found


def calibration(asked: Sequence[tuple[Question, Page]]) -> list[tables.Row]:
    """Of first hits by their score, how many are right."""
    known = [(page.hits[0], one.answer) for one, page in asked if page.hits and (one.answer or one.group != "one word")]
    found = []
    for tenth in range(10):
        low, high = tenth / 10, (tenth + 1) / 10
        own = [(hit, met) for hit, met in known if low <= hit.score and (hit.score < high or tenth == 9)]
        if own:
            right = sum(met is not None and met(hit.stored) for hit, met in own) / len(own)
            mean = sum(hit.score for hit, _ in own) / len(own)
            floor = CERTAIN if low >= CERTAIN and len(own) >= FEW else None
            said = f"mean score {mean:.3f}, {len(own)} queries"
            label = f"first hits right at {low} to {high}"
            found.append(tables.Row(label, right, "", floor, at_least=True, note=said))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--half", default="report", choices=["report", "tune"])
    options.add_argument("--library", type=Path, help="where what was indexed is kept, to save time")
    options.add_argument("--served", action="store_true", help="ask rag_search of a real server, not the engine")
    options.add_argument("--show", action="store_true", help="good questions that are hidden or weak, others shown")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    with packages(given.half, given.cache, given.library) as (desk, by_collection):
        asked = list(answered(desk, questions(desk, by_collection, given.half), served=given.served))
    with names.named(given.half, given.cache, given.library) as (desk, every):
        asked += answered(desk, of_names(every), served=given.served)
    if given.show:
        for one, page in asked:
            is_good = one.group in ("good", "misspelt", "one word")
            if (not page.hits or page.weak) == is_good:
                print(f"{one.group}: {one.text!r} of {one.collections[0]}: {page.confidence} {page.notes[:1]}")
    told = [*rows(asked), *calibration(asked)]
    print(tables.show_rows("abstention", told))
    print("kept in", tables.keep("abstention", {"rows": [asdict(row) for row in told]}, given.json))


if __name__ == "__main__":
    main()
