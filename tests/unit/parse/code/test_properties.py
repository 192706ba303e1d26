"""What holds for the chunks of any text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refdesk.model import Chunking, Parsed
from refdesk.parse.code.languages import EXTENSIONS
from refdesk.parse.code.parser import parse_code
from refdesk.text import tokens

FIXTURES = sorted((Path(__file__).parents[3] / "fixtures" / "code").iterdir())
CHUNKINGS = [Chunking(), Chunking(max_tokens=60, min_tokens=10), Chunking(max_tokens=80, overlap_tokens=20)]
DAMAGE = ["", "{", "}", "(", ")", '"', "'", "\n", "\r", "\t", "é", "\0", "/*", "#", "🦊", "\u2028", "end"]
BY_LANGUAGE = {EXTENSIONS[path.suffix[1:]]: path for path in FIXTURES}


def check(text: str, parsed: Parsed, chunking: Chunking) -> None:
    rows = text.split("\n")
    covered: set[int] = set()
    keys = [chunk.key for chunk in parsed.chunks]
    assert len(set(keys)) == len(keys)
    for chunk in parsed.chunks:
        assert 1 <= chunk.start_line <= chunk.end_line <= len(rows)
        assert chunk.text.strip()
        assert chunk.tokens == tokens.pieces(chunk.text)
        assert chunk.type == "code"
        if chunk.kind != "outline":
            covered.update(range(chunk.start_line, chunk.end_line + 1))
            whole = "\n".join(rows[chunk.start_line - 1 : chunk.end_line]).rstrip("\r\n")
            assert chunk.text == whole or (chunk.start_line == chunk.end_line and chunk.text in whole)
            assert chunk.tokens <= chunking.max_tokens + 8 or chunk.start_line == chunk.end_line
    assert {number for number, row in enumerate(rows, 1) if row.strip()} <= covered
    assert all("" not in (symbol.name, symbol.qualified) for symbol in parsed.symbols)
    seen = [(r.kind, r.source, r.target, r.receiver, r.line, r.alias) for r in parsed.references]
    assert len(set(seen)) == len(seen)
    assert all(1 <= r.line <= len(rows) and r.target for r in parsed.references)


def parse(text: str, language: str, chunking: Chunking) -> Parsed:
    parsed = parse_code(text, f"src/sample.{language}", language, chunking)
    check(text, parsed, chunking)
    return parsed


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_fixtures_are_covered_and_read_the_same_twice(language: str, chunking: Chunking) -> None:
    text = BY_LANGUAGE[language].read_text("utf-8")
    assert parse(text, language, chunking) == parse(text, language, chunking)


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_crlf_gives_the_same_lines_and_symbols(language: str) -> None:
    text = BY_LANGUAGE[language].read_text("utf-8")
    unix, windows = parse(text, language, Chunking()), parse(text.replace("\n", "\r\n"), language, Chunking())
    assert [(c.start_line, c.end_line, c.kind, c.key) for c in unix.chunks] == [
        (c.start_line, c.end_line, c.kind, c.key) for c in windows.chunks
    ]
    assert unix.symbols == windows.symbols
    assert unix.references == windows.references


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=400), st.sampled_from(sorted(BY_LANGUAGE)), st.sampled_from(CHUNKINGS))
def test_any_text_is_chunked(text: str, language: str, chunking: Chunking) -> None:
    parse(text, language, chunking)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(BY_LANGUAGE)), st.integers(0, 2**32), st.sampled_from(CHUNKINGS))
def test_damaged_source_is_chunked(language: str, seed: int, chunking: Chunking) -> None:
    chance = random.Random(seed)
    text = BY_LANGUAGE[language].read_text("utf-8")
    for _ in range(chance.randint(1, 12)):
        at = chance.randint(0, len(text))  # of a short file all may be gone by then
        what = chance.choice(
            ["", "{", "}", "(", ")", '"', "'", "\n", "\r", "\t", "é", "\0", "/*", "#", "🦊", "\u2028", "end"]
        )
        text = text[:at] + what + text[at + chance.choice([0, 1, 1, 40]) :]
    parse(text, language, chunking)
