"""Does any file end or stall more than the worker that reads it?  Damaged sources for every grammar and every parser.

`python -m bench.faults_parsers [--each N] [--languages a,b] [--seed S]`
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from refdesk.ingest.prepare import Prepared
from refdesk.model import Chunking, Content, Parsed, Skipped
from refdesk.parse import AnyParser
from refdesk.parse.pool import Pool

FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "code"
FORMATS = ("md", "html", "rst", "json", "jsonl", "yaml", "toml", "ini", "csv", "ipynb", "xml", "txt", "pdf", "docx", "")
OPENERS = (
    "(", "[", "{", "<", "A<", '"', "'", "`", '"""', "'''", "/*", "//", "<!--", "<%", "{{", "{%", "${", "#{", "$(", "@{",
    "%{", "<<A\n", '<<A\n"#{', "r#", "m#", "q#", "qw#", "s#a", 'R"x(', "--[[", "[==[", "(*", "#|", "{-", "=begin\n",
    "\\", "if x then\n", "begin\n", "\n  ", "\n\t\t", "- ", "* ", "> ", "| a ", "&a *a ", "a: {", "a = [",
)  # fmt: skip
MARKS = ("\0", "\ufeff", "\u202e", "é", "漢", "🦀", "\x1b[", "\r", "\f", "\x7f")
# For grammars without a sample of their own: several shapes of text, none of them right everywhere.
SHAPES = (
    "def area(width, height)\n  let total = width * height;\n  return total\nend\n\nclass Box : A {\n  int side;\n}\n",
    "(define (area width height)\n  ; in metres\n  (let ((total (* width height))) total))\n",
    "<box id='a' side=\"2\"><p>text &amp; more</p><!-- note --><br/></box>\n",
    '[section]\nkey = value\nother: [1, 2.5, true]\n- item\n  nested: "text"\n# note\n',
    "module top(input clk);\n  assign a = b & 1'b0;\nendmodule\nSELECT a, b FROM t WHERE a = 'x';\n@media x { a: b }\n",
    "PROGRAM main\n  MOVE 1 TO total.\n  IF total > 1 THEN GO TO done END-IF.\n100 FORMAT (I5)\nEND PROGRAM\n",
)
MOST_CHARS = 6_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What became of one grammar's or one format's damaged files."""

    name: str
    files: int
    crashed: int  # the worker ended on the file
    stalled: int  # or was ended for the time it took
    refused: int  # skipped without harm to the worker
    survived: bool  # an honest file was read afterwards


class ByGrammar:
    """A parser that takes any text for one language."""

    def __init__(self, language: str) -> None:
        self._language = language

    def parse(self, content: Content, chunking: Chunking) -> Parsed:
        from refdesk.parse.code.parser import parse_code

        return parse_code(content.data.decode("utf-8", "replace"), content.path, self._language, chunking)


def sweep(names: Iterable[str] = (), each: int = 200, seed: int = 1) -> Iterator[Swept]:
    """Damages `each` sources for each grammar and format, or for those named, and has them read."""
    samples = _samples()
    for name in names or (*grammars(), *(f".{ending}" for ending in FORMATS)):
        own = samples.get(name.removeprefix("."), SHAPES)
        chance = random.Random(f"{seed} {name}")
        ending = name.removeprefix(".") if name.startswith(".") else "txt"
        contents = [
            Content(uri=str(number), path=f"{number}.{ending}", data=damaged(own, chance)) for number in range(each)
        ]
        yield _read(name, contents)


def _read(name: str, contents: Sequence[Content]) -> Swept:
    pool = Pool(AnyParser() if name.startswith(".") else ByGrammar(name))
    crashed = stalled = refused = 0
    for _, found in pool.parse_all(contents, Chunking(), lambda keys: set()):
        if isinstance(found, Skipped):
            crashed += "crashed" in found.reason
            stalled += "took longer" in found.reason
            refused += "crashed" not in found.reason and "took longer" not in found.reason
    honest = Content(uri="honest", path="honest.md", data=b"# Honest\n\nWords.\n")
    ((_, last),) = Pool(AnyParser()).parse_all([honest], Chunking(), lambda keys: set())
    return Swept(
        name=name,
        files=len(contents),
        crashed=crashed,
        stalled=stalled,
        refused=refused,
        survived=isinstance(last, Prepared),
    )


def damaged(samples: Sequence[str], chance: random.Random) -> bytes:
    """One of the sources with one to four things done to it."""
    text = chance.choice(samples)
    for _ in range(chance.randint(1, 4)):
        start, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
        opener = chance.choice(OPENERS)
        text = chance.choice(
            (
                text[:end],  # cut off
                text[:start] + text[end:],
                text[:end] + text[start:end] * chance.randint(1, 5) + text[end:],
                text[:start] + opener + text[start:],  # never closed
                text[:start] + opener,
                text[:start] + opener * chance.choice((3, 50, 400)) + text[start:],  # deep
                text[:start] + chance.choice(MARKS) + text[start:],
                text[:start] + chance.choice(samples)[:end] + text[start:],
                text[start:end][::-1] + text[end:],
                text.replace("\n", " " * chance.randint(0, 3)),
            )
        )[:MOST_CHARS]
    data = bytearray(text.encode())
    for _ in range(chance.choice((0, 0, 1, 5, 50)) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def grammars() -> tuple[str, ...]:
    """Every grammar that is installed with RefDesk."""
    from tree_sitter_language_pack import SupportedLanguage

    return tuple(sorted(get_args(SupportedLanguage)))


def _samples() -> dict[str, tuple[str, ...]]:
    """Sources by grammar or ending: those of the tests, cut into pieces, beside what fits anywhere."""
    from refdesk.parse.detect import by_name

    found: dict[str, tuple[str, ...]] = {}
    for file in sorted(FIXTURES.iterdir()):
        text = file.read_text("utf-8")
        found[by_name(file.name)] = tuple(text[at : at + 2_000] for at in range(0, len(text), 2_000))
    prose = "# Title\n\n[A link](x.md) and `code`.\n\n```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- item\n"
    found |= dict.fromkeys(("md", "rst", "txt", "markdown"), (prose, *SHAPES))
    records = (
        '[{"a": 1, "b": ["x", null, {"c": 2.5e3}]}]\n',
        '{"cells": [{"cell_type": "code", "source": ["x = 1"]}]}\n',
    )
    found |= dict.fromkeys(("json", "jsonl", "ipynb", "yaml", "toml"), (*records, SHAPES[3]))
    found["pdf"] = ("%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF\n",)
    found["docx"] = ("PK\x03\x04\x14\0\0\0\x08\0word/document.xml",)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=200)
    parser.add_argument("--languages", default="")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.perf_counter()
    rows = []
    for row in sweep(filter(None, given.languages.split(",")) if given.languages else (), given.each, given.seed):
        rows.append(row)
        print(f"{row.name:20} {row.files} files, {row.crashed} crashed, {row.stalled} stalled, {row.refused} refused"
              f"{'' if row.survived else '  NOT SURVIVED'}", flush=True)  # fmt: skip
    crashed, stalled = sum(row.crashed for row in rows), sum(row.stalled for row in rows)
    print(f"{len(rows)} parsers, {sum(row.files for row in rows)} files: {crashed} workers crashed, {stalled} stopped;"
          f" {sum(not row.survived for row in rows)} not survived; {time.perf_counter() - began:.0f} s")  # fmt: skip


if __name__ == "__main__":
    from bench import faults_parsers

    faults_parsers.main()  # there workers find its parser by name
