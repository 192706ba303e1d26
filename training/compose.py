"""What pairs does a record teach?  A query, the passage it should find, and the kind of pair."""

from __future__ import annotations

import json
import lzma
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# How often a pair of a kind is drawn in an epoch.
KINDS = {
    "doc": 1.0,
    "docfull": 0.8,
    "name": 0.4,
    "signature": 0.25,
    "call": 0.3,
    "test": 1.0,
    "first": 0.5,
    "heading": 1.0,
    "path": 0.8,
    "question": 1.0,
    "lead": 0.6,
    "outline": 0.4,
}
MAX_PASSAGE = 1_300
_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z@\[`*\-])|\n\s*\n|\n\s*(?=[@:\\]\w)|\n\s*(?=Args|Param|Return|Example)")
_QUESTION = re.compile(
    r"^(how|what|why|when|where|which|can|does|do|is|are|should)\b|\?$|^(using|creating|adding|writing)\b", re.I
)

Pair = tuple[str, str, str]


def split_lead(text: str) -> tuple[str, str]:
    """The first sentence and the rest."""
    found = _SENTENCE.split(text.strip(), maxsplit=1)
    lead = " ".join(found[0].split())
    return lead[:300], found[1] if len(found) > 1 else ""


def pairs(record: dict[str, Any]) -> Iterator[Pair]:
    """Each pair as its kind, the query and the passage."""
    if record["k"] == "f":
        yield from _of_function(record)
    elif record["k"] == "s":
        yield from _of_section(record)
    else:
        yield "outline", record["p"], "\n".join(record["b"])[:MAX_PASSAGE]


def _of_function(record: dict[str, Any]) -> Iterator[Pair]:
    body, whole = record["b"], f"{record['s']}\n{record['b']}"[:MAX_PASSAGE]
    if record["d"]:
        lead, rest = split_lead(record["d"])
        if len(lead) >= 12:
            yield "doc", lead, whole
        if len(rest) > 60:
            yield "docfull", record["d"][:500], whole
            yield "first", lead, rest
    if len(body) > 60:
        yield "name", f"{record['o']} {record['n']}".strip(), body
        yield "signature", record["s"], body
    for site in record.get("c", [])[:1]:
        yield "call", site, whole
    for test in record.get("e", [])[:1]:
        yield "test", test, whole


def _of_section(record: dict[str, Any]) -> Iterator[Pair]:
    headings, body = record["h"], record["b"]
    yield ("question" if _QUESTION.search(headings[-1]) else "heading"), headings[-1], body
    if len(headings) > 1:
        yield "path", " ".join(headings[-3:]), body
    lead, rest = split_lead(body)
    if len(lead) > 30 and len(rest) > 150:
        yield "lead", lead, rest


def shard(path: Path) -> Iterator[dict[str, Any]]:
    """The records of one file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def corpus(folder: Path) -> Iterator[dict[str, Any]]:
    """The records of all shards."""
    for path in sorted(folder.glob("corpus-*.jsonl.xz")):
        yield from shard(path)
