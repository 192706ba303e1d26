"""What does finding the right file cost?  The tokens of the default search_code answer up to it, as served on stdio.

python -m bench.cost [--sets python code authored] [--questions 200] [--libraries FOLDER] [--json FILE]
python -m bench.cost --clones FOLDER [--repos NAME …]     asks the questions of bench.files of whole repositories

With clones, the same answers are asked for as JSON and as plain text too, to compare their sizes.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from bench import authored, corpora, files, sets, tables
from bench.quality import indexed
from bench.sets import Asked, Item, KnownItems
from refdesk.text import tokens

STEPS = (500, 1_000, 2_000, 4_000)
FLOOR_AT, FLOOR = 2_000, 0.98  # of those that are found at all
FORMS = ("toon", "json", "human")
OF_JSON = 0.6  # that TOON takes at most


async def costs(library: Path, folder: Path, asked: Sequence[Asked]) -> list[tuple[int | None, int]]:
    """For each question the tokens up to the right file's name, None where it is not there, and those of the answer."""
    run = StdioServerParameters(
        command="refdesk", args=["--library", str(library), "serve", "--toolsets", "code"], cwd=folder
    )
    found = []
    async with stdio_client(run) as streams, ClientSession(*streams) as session:
        await session.initialize()
        for one in asked:
            answer = await session.call_tool("search_code", {"query": one.query})
            text = "\n".join(block.text for block in answer.content if isinstance(block, TextContent))
            found.append((_cost(text, _files(one)), tokens.count(text)))
    return found


def of_repositories(clones: Path, repos: Sequence[str] | None) -> list[tables.Row]:
    """The same for the questions that bench.files asks of repositories, and what the formats take of each other."""
    found: list[tuple[int | None, int]] = []
    sizes: list[dict[str, int]] = []
    for entry, clone in files.repositories(clones, "report", repos):
        with files.served(clone, entry["commit"]) as search:
            for one in files.questions(entry):
                texts = {form: search(query=one.text, format=form)["content"][0]["text"] for form in FORMS}
                sizes.append({form: tokens.count(text) for form, text in texts.items()})
                found.append((_cost(texts["toon"], one.files), sizes[-1]["toon"]))
    told = rows("repositories", found)
    for other, most in (("json", OF_JSON), ("human", 1.0)):
        share = sum(one["toon"] for one in sizes) / sum(one[other] for one in sizes)
        larger = sum(one["toon"] > one[other] for one in sizes)
        note = f"{len(sizes)} answers, {larger} of them larger"
        told.append(tables.Row(f"repositories: tokens of toon to those of {other}", share, "", most, note=note))
    return told


def _cost(text: str, paths: Iterable[str]) -> int | None:
    """The tokens of the answer up to the first of these files; None where it names none of them."""
    ends = [text.find(f"\n  {path},") + len(path) + 3 for path in paths if f"\n  {path}," in text]
    return tokens.count(text[: min(ends)]) if ends else None


def _files(asked: Asked) -> set[str]:
    return {asked.path} if isinstance(asked, Item) else {place.path for place in asked.places}  # type: ignore[attr-defined]


def rows(name: str, found: Sequence[tuple[int | None, int]]) -> list[tables.Row]:
    there = [cost for cost, _ in found if cost is not None]
    whole = sorted(size for _, size in found)
    told = [
        tables.Row(f"{name}: right file in the answer", len(there) / len(found), "", note=f"{len(found)} questions"),
        tables.Row(f"{name}: tokens of an answer", whole[len(whole) // 2], "", note=f"the longest {whole[-1]}"),
    ]
    for step in STEPS:
        within = sum(cost <= step for cost in there)
        floor = FLOOR if step == FLOOR_AT else None
        note = f"{within / len(found):.3f} of all"
        label = f"{name}: of those, within {step} tokens"
        told.append(tables.Row(label, within / max(1, len(there)), "", floor, at_least=True, note=note))
    return told


def measure(known: KnownItems, questions: int, libraries: Path | None) -> list[tables.Row]:
    import anyio

    asked = list(known.report)
    random.Random(0).shuffle(asked)
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        kept = libraries or Path(scratch)
        with indexed(known, "static", kept):
            pass
        library = kept / f"{known.name}-static"
        return rows(known.name, anyio.run(costs, library, known.folder, asked[:questions]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["python", "code", "authored"]
    options.add_argument("--sets", nargs="*", default=names, choices=names)
    options.add_argument("--clones", type=Path, help="clones of the repositories of questions.yaml")
    options.add_argument("--repos", nargs="*", help="as owner/name, to ask only some")
    options.add_argument("--questions", type=int, default=200, help="of each set")
    options.add_argument("--libraries", type=Path, help="where indexed sets are kept, to save time")
    options.add_argument("--cache", type=Path, default=corpora.DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    told: list[tables.Row] = []
    if given.clones:
        told += of_repositories(given.clones, given.repos)
    for name in () if given.clones else given.sets:
        known = authored.known_items(given.cache) if name == "authored" else sets.known_items(name, given.cache)
        told += measure(known, given.questions, given.libraries)
    print(tables.show_rows("cost of finding the right file", told))
    print("kept in", tables.keep("cost", {"rows": [asdict(row) for row in told]}, given.json))


if __name__ == "__main__":
    main()
