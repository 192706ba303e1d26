"""Asks the engine about mined packages and keeps what it finds: the lists that the precise model learns to reorder.

    python training/precise_lists.py --out LISTS --pypi URL --npm URL --debian URL [--packages 400]
    python training/precise_lists.py --out HELD --held LIBRARIES

Packages come from packages.txt in a fixed random order, none of them reserved or held out.  Groups of them are stripped
of their comments and headings as the quality sets are, indexed, and asked.  Each group leaves LISTS/SET-NN.jsonl.xz; a
stopped run goes on with the groups that are missing.  The second form does the same for the quality sets: their tuning
halves to learn the blend, their reported halves for a last look.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import exclude
import mine

from bench import authored, corpora, quality, sets
from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.ingest.prepare import embedding_text
from refdesk.model import Query, StoredChunk
from refdesk.settings import Settings

DEPTH = 30
PER_PACKAGE = 110
GROUP = 24
MOST_FILES = 700
LONGEST = 4_000  # characters of a passage that are kept


def chosen(path: Path, many: int) -> list[tuple[str, str, str]]:
    """Registry, name and version of some packages: half Python, the rest of the other registries."""
    by_registry: dict[str, list[tuple[str, str, str]]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            registry, pinned = line.split()[:2]
            name, _, version = pinned.partition("==")
            if not exclude.is_excluded(name):
                by_registry.setdefault(registry, []).append((registry, name, version))
    shares = {"pypi": 0.45, "npm": 0.2, "debian": 0.35}
    found = []
    for registry, share in shares.items():
        found += random.Random(7).sample(sorted(by_registry[registry]), round(share * many))
    random.Random(8).shuffle(found)
    return found


def unpack(job: tuple[str, str, str], folder: Path) -> Path | None:
    """The package's files that may be mined, written below the folder."""
    registry, name, version = job
    target = folder / f"{registry}-{name.replace('/', '+')}-{version}"
    if target.is_dir():
        return target
    try:
        _, archives = mine.archives(registry, name, version)
        files = [one for archive in archives for one in mine.members(archive)][:MOST_FILES]
    except Exception as error:  # one broken package must not stop the run
        print("left out", name, repr(error)[:120], flush=True)
        return None
    partial = target.with_name(target.name + ".partial")
    for path, content in files:
        head = content[:3000].decode("utf-8", "ignore")
        if exclude.FOREIGN_MARKS.search(head) or mine._COPYLEFT_TEXT.search(head):
            continue
        place = partial.joinpath(*Path(path).parts[1:])
        if ".." in place.parts or not place.name:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    if not partial.is_dir():
        return None
    return partial.rename(target)


def asked(desk: Desk, items: Sequence[sets.Asked]) -> list[dict[str, object]]:
    """For each query the passages the engine finds, each with its score and whether it is the right one."""
    found = []
    for item in items:
        hits = desk.search(Query(text=item.query, limit=DEPTH)).hits
        rows = [(hit.stored, hit.score) for hit in hits]
        right = [item.is_met_by(stored) for stored, _ in rows]
        if not any(right):
            extra = next((one for one in _own(desk, item) if item.is_met_by(one)), None)
            if extra is not None:
                rows.append((extra, 0.0))
                right.append(True)
        found.append(
            {
                "query": item.query,
                "package": item.package,
                "passages": [passage(stored) for stored, _ in rows],
                "scores": [round(score, 5) for _, score in rows],
                "right": [place for place, good in enumerate(right) if good],
                "found": any(right[: len(hits)]),
            }
        )
    return found


def _own(desk: Desk, item: sets.Asked) -> list[StoredChunk]:
    if not isinstance(item, sets.Item):
        return []
    collection = desk.collections()[0]
    document = desk.document_by_path(collection.name, item.path)
    return desk.chunks_of(document.id) if document else []


def passage(stored: StoredChunk) -> tuple[str, str]:
    """Where the passage stands, and what the engine embeds of it."""
    return stored.document.path, embedding_text(stored.chunk)[:LONGEST]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--list", type=Path, default=Path(__file__).parent / "packages.txt")
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--packages", type=int, default=400)
    arguments.add_argument("--part", type=int, nargs=2, default=(0, 1), help="which of how many processes this is")
    arguments.add_argument("--held", type=Path, help="the folder of the quality sets' libraries")
    options = mine.take_addresses(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.held:
        held_lists(options.held, options.out)
        return
    jobs = chosen(options.list, options.packages)
    mine.MAX_ARCHIVE = 6_000_000
    mine.debian_index()
    groups = [jobs[start : start + GROUP] for start in range(0, len(jobs), GROUP)]
    sets.PER_PACKAGE.update(dict.fromkeys(sets.NAMES, PER_PACKAGE))
    for number, group in enumerate(groups):
        if number % options.part[1] != options.part[0]:
            continue
        wanted = [name for name in sets.NAMES if not (options.out / f"{name}-{number:02}.jsonl.xz").exists()]
        if wanted:
            with tempfile.TemporaryDirectory(prefix="lists-") as scratch:
                group_lists(group, number, wanted, options.out, Path(scratch))


def group_lists(group: list[tuple[str, str, str]], number: int, wanted: list[str], out: Path, scratch: Path) -> None:
    """Writes the lists of one group of packages."""
    with ThreadPoolExecutor(6) as pool:
        folders = [one for one in pool.map(lambda job: unpack(job, scratch / "packages"), group) if one]
    for name in wanted:
        files = scratch / name / "files"
        items = sets.build(name, [(folder.name, folder) for folder in folders], files)
        found: list[dict[str, object]] = []
        if items:
            settings = replace(Settings(), library=scratch / name / "library", workers=1)
            with open_desk(settings) as desk:
                desk.index(files, sets.KINDS[name], name=name)
                found = asked(desk, items)
        keep(found, out / f"{name}-{number:02}.jsonl.xz")
        there = sum(bool(one["found"]) for one in found)
        print(name, number, len(found), "lists, right passage among the found in", there, flush=True)
        shutil.rmtree(scratch / name, ignore_errors=True)


def held_lists(libraries: Path, out: Path) -> None:
    """Writes the lists of the quality sets' two halves."""
    for name in (*sets.NAMES, "authored"):
        cache = corpora.DEFAULT_CACHE
        known = authored.known_items(cache) if name == "authored" else sets.known_items(name, cache)
        with quality.indexed(known, "static", libraries) as desk:
            for half in ("tune", "report"):
                found = asked(desk, getattr(known, half))
                keep(found, out / f"{name}-{half}.jsonl.xz")
                print(name, half, len(found), sum(bool(one["found"]) for one in found), flush=True)


def keep(found: list[dict[str, object]], target: Path) -> None:
    lines = "\n".join(json.dumps(one, ensure_ascii=False) for one in found)
    partial = target.with_suffix(".partial")
    partial.write_bytes(lzma.compress(lines.encode("utf-8", "replace"), preset=1))
    partial.rename(target)


if __name__ == "__main__":
    main()
