"""Joins mined records into one corpus: near-duplicates dropped, packages and languages balanced, packed for the device.

python training/pairs.py --records RECORDS --out CORPUS
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import multiprocessing as mp
import random
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from zlib import crc32

MAX_TEXT = 1_200
PER_PACKAGE = {"f": 1_500, "s": 700, "o": 80}
PER_LANGUAGE = 160_000
SHARD = 100_000_000  # characters before compression
_WORD = re.compile(r"[A-Za-z]+")


def sketch(text: str) -> bytes:
    """Equal for texts that share almost all runs of four words: the smallest hashes of those runs."""
    found = _WORD.findall(text.lower())[:200]
    if len(found) < 8:
        return hashlib.blake2b(" ".join(found).encode(), digest_size=8).digest()
    runs = {crc32(" ".join(found[i : i + 4]).encode()) for i in range(len(found) - 3)}
    return repr(sorted(runs)[:3]).encode()


def trimmed(record: dict[str, object]) -> dict[str, object] | None:
    """A record as it is trained on, or nothing if it teaches too little."""
    if record["k"] == "f":
        body = re.sub(r"[ \t]+", " ", str(record["b"]))[:MAX_TEXT]
        signature = " ".join(str(record["s"]).split())[:300]
        if len(body) < 40 and not record["d"]:
            return None
        kept = {"k": "f", "l": record["l"], "n": record["n"], "o": record["o"], "s": signature, "b": body}
        kept |= {"d": str(record["d"])[:600], "p": record["p"], "t": record["t"]}
        return kept | {key: record[key] for key in ("c", "e") if record.get(key)}
    if record["k"] == "s":
        return {"k": "s", "h": record["h"], "b": re.sub(r"[ \t]+", " ", str(record["b"]))[:MAX_TEXT], "p": record["p"]}
    return record


def prepared(path: Path) -> list[tuple[dict[str, object], bytes]]:
    """The records of one package that may be trained on, each with its sketch."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    # Documented ones first: what is undocumented only fills what is left of a package's share.
    records.sort(key=lambda one: (not one.get("d"), not one.get("c")))
    documented = 1 + sum(1 for one in records if one.get("d"))
    taken: Counter[str] = Counter()
    found = []
    for record in records:
        kind = record["k"]
        bare = kind == "f" and not record["d"]
        if taken[kind] >= PER_PACKAGE[kind] or (bare and taken["bare"] > documented + 20):
            continue
        kept = trimmed(record)
        if kept is not None:
            taken[kind] += 1
            taken["bare"] += bare
            found.append((kept, sketch(str(kept.get("s", "")) + str(kept["b"]))))
    return found


def corpus(folder: Path, seed: int, jobs: int) -> Iterator[dict[str, object]]:
    """The records of all packages in a fixed random order of packages, each passage once."""
    seen: set[bytes] = set()
    languages: Counter[str] = Counter()
    files = sorted(folder.glob("*.jsonl.xz"))
    random.Random(seed).shuffle(files)
    with mp.Pool(jobs) as pool:
        for number, found in enumerate(pool.imap(prepared, files, chunksize=8)):
            for record, key in found:
                language = str(record.get("l", record["k"]))
                if key in seen or languages[language] >= PER_LANGUAGE:
                    continue
                seen.add(key)
                languages[language] += 1
                yield record | {"g": number}
    print(dict(languages), sum(languages.values()))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--records", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--jobs", type=int, default=2)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    records = corpus(options.records, options.seed, options.jobs)
    shard = 0
    while first := next(records, None):
        path = options.out / f"corpus-{shard:02}.jsonl.xz"
        # Level 1 keeps the core busy less long than finding the last tenth would.
        with lzma.open(path, "wt", preset=1, encoding="utf-8", errors="replace") as file:
            written = 0
            for record in chain([first], records):
                line = json.dumps(record, ensure_ascii=False) + "\n"
                file.write(line)
                written += len(line)
                if written > SHARD:
                    break
        shard += 1


if __name__ == "__main__":
    main()
