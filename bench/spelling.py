"""Does a misspelt word still find what was meant?  Queries of bench.quality and names, with one or two slips in a word.

python -m bench.spelling [--sets python code docs authored symbols] [--half report|tune] [--libraries FOLDER] [--show]

Asked are the search tools of a real server, with queries whose answer is among the first ten as they are.  A slip is a
swap, a letter left out, doubled or added, a neighbouring key or a like sound; what a slip makes must be no word that
the set holds.  Symbols are names of bench.names that their package defines once.  Everyday questions have no answer
there: a word of theirs that is searched for in another spelling is a wrong correction.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench import authored, corpora, metrics, names, sets, tables
from bench.quality import indexed, rank_of
from bench.served import Search, Tool, as_served
from bench.sets import Asked
from refdesk.desk.desk import Desk
from refdesk.model import Filters, Query
from refdesk.text import analyse

PER_SET = 80
WRONG = 0.02  # of everyday questions
STAYS = 2  # ranks that the answer may fall by
FLOOR = 0.9
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_HEARD = "ei/ie ie/ei ph/f a/e e/a i/e c/s s/c c/k tion/sion ance/ence ence/ance able/ible or/er"
_SOUNDS = [(pair.partition("/")[0], pair.partition("/")[2]) for pair in re.findall(r"\S+", _HEARD)]
_WORD = re.compile(r"[A-Za-z]{5,}")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A query before and after a slip, and the rank of its answer."""

    set: str
    edits: int
    query: str
    misspelt: str
    before: int
    after: int | None
    note: str

    @property
    def stays(self) -> bool:
        return self.after is not None and self.after <= self.before + STAYS


def slip(word: str, pick: random.Random) -> str:
    """The word with one slip in it; one in twenty in its first letter."""
    for _ in range(20):
        at = 0 if pick.random() < 0.05 else pick.randrange(1, len(word))
        way = pick.choices(("swap", "drop", "double", "key", "add", "sound"), (25, 25, 15, 15, 8, 12))[0]
        if way == "swap" and at + 1 < len(word):
            made = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        elif way == "drop":
            made = word[:at] + word[at + 1 :]
        elif way == "double":
            made = word[:at] + word[at] + word[at:]
        elif way in ("key", "add") and (near := _beside(word[at].lower())):
            made = word[:at] + pick.choice(near) + word[at + (way == "key") :]
        else:
            heard = [(one, other) for one, other in _SOUNDS if one in word[1:]]
            one, other = pick.choice(heard) if heard else ("", "")
            made = word[0] + word[1:].replace(one, other, 1)
        if made != word:
            return made
    return word[:-2] + word[-1]


def misspell(query: str, edits: int, desk: Desk, pick: random.Random) -> str | None:
    """The query with so many slips in one of its longer words, such that nothing holds what they make."""
    words = [one for one in _WORD.finditer(query) if len(one.group()) >= 5 + 2 * (edits - 1)]
    words = [one for one in words if desk.view().document_frequency(analyse.terms(one.group())[:1])]
    for match in pick.sample(words, len(words)):
        made = match.group()
        for _ in range(edits):
            made = slip(made, pick)
        whole = query[: match.start()] + made + query[match.end() :]
        run = next(one for one in re.finditer(r"\w+", whole) if one.start() <= match.start() < one.end()).group()
        first = analyse.terms(run)[:1]
        if made.lower() != match.group().lower() and first and first[0] in desk.view().unknown(first):
            return whole
    return None


def ask(desk: Desk, search: Search, name: str, items: Sequence[Asked], most: int) -> Iterator[Outcome]:
    """Queries of the set in turn with one slip and with two."""
    pick = random.Random(name)
    asked = 0
    for one in pick.sample(items, len(items)):
        collection = one.package if name == "symbols" else name
        edits = 1 + asked % 2
        before = _rank(search, one, collection, one.query)[0]
        misspelt = misspell(one.query, edits, desk, pick) if before else None
        if before is None or misspelt is None:
            continue
        yield Outcome(name, edits, one.query, misspelt, before, *_rank(search, one, collection, misspelt))
        asked += 1
        if asked == most:
            break


def _rank(search: Search, item: Asked, collection: str, text: str) -> tuple[int | None, str]:
    page = search(Query(text=text, filters=Filters(collections=(collection,))))
    return rank_of(item, [(hit.stored, *hit.more) for hit in page.hits]), "; ".join(page.notes)


def corrected(search: Search, collection: str, half: str) -> Iterator[tuple[str, str]]:
    """Everyday questions and what was searched for instead, "" where nothing else was.

    The other spelling of a word in Britain or America is no wrong correction.
    """
    for text in corpora.FOREIGN[half].read_text(encoding="utf-8").splitlines():
        notes = search(Query(text=text, filters=Filters(collections=(collection,)))).notes
        found = next((note for note in notes if note.startswith("searched for ")), "")
        yield text, "" if re.search(r"says (?:\w*colour|\w*ence|metre|litre)$", found) else found


def _beside(key: str) -> str:
    for row in _ROWS:
        if (at := row.find(key)) >= 0:
            return row[max(0, at - 1) : at] + row[at + 1 : at + 2]
    return ""


def rows(outcomes: Sequence[Outcome]) -> list[tables.Row]:
    """How often the answer stays, for all, by the number of slips and by set."""
    parts = {"all": list(outcomes)}
    parts |= {f"{edits} edits": [one for one in outcomes if one.edits == edits] for edits in (1, 2)}
    parts |= {name: [one for one in outcomes if one.set == name] for name in dict.fromkeys(o.set for o in outcomes)}
    found = []
    for label, own in parts.items():
        share = metrics.estimate([float(one.stays) for one in own])
        said = f"95% {share.low:.3f} to {share.high:.3f}, {len(own)} queries"
        floor = FLOOR if label == "all" else None
        found.append(tables.Row(f"answer stays, {label}", share.mean, "", floor, at_least=True, note=said))
    return found


def wrong_row(everyday: Sequence[tuple[str, str]]) -> tables.Row:
    """How many everyday questions were searched for with a word that nobody asked for."""
    share = metrics.estimate([float(bool(found)) for _, found in everyday])
    said = f"95% {share.low:.3f} to {share.high:.3f}, {len(everyday)} queries"
    return tables.Row("everyday questions corrected", share.mean, "", WRONG, note=said)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = [*sets.NAMES, "authored", "symbols"]
    options.add_argument("--sets", nargs="*", default=every, choices=every)
    options.add_argument("--half", default="report", choices=["report", "tune"])
    options.add_argument("--show", action="store_true", help="the queries whose answer is lost")
    options.add_argument("--libraries", type=Path, help="where indexed sets are kept, to save time")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    outcomes: list[Outcome] = []
    everyday: list[tuple[str, str]] = []
    for name in given.sets:
        if name == "symbols":
            with (
                names.named(given.half, given.cache, given.libraries) as (desk, asked),
                as_served(desk, "search_code") as search,
            ):
                outcomes += ask(
                    desk,
                    search,
                    name,
                    [replace(one, query=one.symbol.name) for one in asked if one.form == "keyword and name"],
                    PER_SET,
                )
            continue
        known = authored.known_items(given.cache) if name == "authored" else sets.known_items(name, given.cache)
        items = known.report if given.half == "report" else known.tune
        tool: Tool = "search_docs" if sets.KINDS[name] == "docs" else "search_code"
        with indexed(known, "static", given.libraries) as desk, as_served(desk, tool) as search:
            outcomes += ask(desk, search, name, items, PER_SET)
            everyday += corrected(search, name, given.half)
    if given.show:
        for text, found in everyday:
            if found:
                print(f"{text!r}: {found}")
        for one in outcomes:
            if not one.stays:
                print(f"{one.set}: {one.query!r} at {one.before}, {one.misspelt!r} at {one.after}: {one.note}")
    told = [*rows(outcomes), *([wrong_row(everyday)] if everyday else [])]
    print(tables.show_rows("spelling", told))
    print("kept in", tables.keep("spelling", {"rows": [asdict(row) for row in told]}, given.json))


if __name__ == "__main__":
    main()
