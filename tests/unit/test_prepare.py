"""What is derived from a document in one go is what its parts give one by one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.embed.static import StaticEmbedder
from refdesk.ingest.prepare import Embedded, Missing, Readings, embed_missing, prepare
from refdesk.model import Parsed
from refdesk.text.analyse import joined
from tests.ports.library import chunk

_MODEL = StaticEmbedder()
_READINGS = Readings(_MODEL)
_TEXTS = st.one_of(
    st.text(),
    st.text("abzABZ019_ -.é日本語ß\u0301ى", max_size=60),
    st.lists(
        st.sampled_from(["getHTTPResponse2", "snake_case", "Title", "UPPER", "naïve", "日本語", "x1y2", "—", "größe"])
    ).map(" ".join),
)


@given(_TEXTS)
def test_terms_and_pieces_read_together_are_those_read_apart(text: str) -> None:
    assert _READINGS.read(text) == (joined(text), _MODEL.spell(text))
    assert _READINGS.spell(text) == _MODEL.spell(text)


@pytest.mark.parametrize("texts", [(), ("def first(): pass", "größe = second(größe)")])
def test_a_document_is_prepared_and_embedded_the_same_with_readings_and_without(texts: tuple[str, ...]) -> None:
    chunks = tuple(chunk(text, line)._replace(title=f"name{line}") for line, text in enumerate(texts, 1))
    parsed = Parsed(title="t", content_type="python", text="\n".join(texts), chunks=chunks)
    plain, read = prepare(parsed), prepare(parsed, _READINGS)
    assert replace(read, spelt=()) == plain
    assert len(read.spelt) == len(texts)
    given = list(zip(plain.vector_keys, chunks, strict=True))
    one = embed_missing(_MODEL, given, _all)
    other = embed_missing(_MODEL, given, _all, _READINGS, dict(zip(read.vector_keys, read.spelt, strict=True)))
    assert _bytes(one) == _bytes(other)


_all: Missing = set


def _bytes(made: Embedded) -> dict[bytes, tuple[bytes, bytes]]:
    return {key: (vector.tobytes(), made.kept[key]) for key, vector in made.vectors.items()}
