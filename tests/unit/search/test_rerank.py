"""The learned second stage: what it must keep to, whatever was learned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.desk.desk import Desk
from refdesk.embed.static import StaticEmbedder
from refdesk.ingest.prepare import together
from refdesk.model import Query
from refdesk.search import rerank
from refdesk.search import rerank as features
from refdesk.search.engine import Engine
from refdesk.search.rerank import apart
from tests.conftest import Tree

FILES = {
    "src/store.py": "class PageStore:\n    def flush_pages(self):\n        return self.write(self.pages)\n",
    "src/use.py": "def run(store):\n    store.flush_pages()\n    return 'flush_pages flush_pages'\n",
    "tests/test_store.py": "def test_flush_pages():\n    assert PageStore().flush_pages() == 1\n",
    "gen/store.py": "def flush_pages_stub(self):\n    return self.write(self.pages)\n",
    "docs/store.md": "# Store\n\n## Flushing pages\n\nCall flush_pages to write all pages of the store to disk.\n",
}


@pytest.fixture
def library(desk: Desk, tree: Tree) -> Desk:
    desk.index(tree(FILES), "code", name="code")
    return desk


@pytest.mark.parametrize("alpha", [None, 0.0, 0.5, 1.0])
def test_the_definition_of_a_symbol_is_first_whatever_the_blend(library: Desk, alpha: float | None) -> None:
    best = library.search(Query(text="flush_pages", alpha=alpha)).hits[0]
    assert best.stored.document.path == "src/store.py"
    assert "definition" in library.search(Query(text="flush_pages", alpha=alpha, explain=True)).hits[0].explanation


NAMESAKES = {
    "src/model.py": "class Filters:\n    languages: tuple[str, ...] = ()\n    paths: tuple[str, ...] = ()\n",
    "src/search.py": "def _filters(options):\n    return Filters(filters=options['filters'])\n",
    "src/ask.py": "def filters(given):\n    filters = Filters(given)\n    return filters\n",
    "src/desk.py": "def languages():\n    return list(LANGUAGES)\n",
}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("Filters", "src/model.py"),
        ("filters()", "src/ask.py"),
        ("_filters", "src/search.py"),
        ("Filters.languages", "src/model.py"),
        ("languages", "src/desk.py"),
    ],
)
def test_a_name_that_is_spelt_as_it_was_typed_comes_before_its_namesakes(
    desk: Desk, tree: Tree, asked: str, path: str
) -> None:
    desk.index(tree(NAMESAKES), "code", name="code")
    assert desk.search(Query(text=asked)).hits[0].stored.document.path == path


def test_tests_and_generated_code_stand_behind(library: Desk) -> None:
    found = [hit.stored.document.path for hit in library.search(Query(text="flush the pages of the store")).hits]
    assert found.index("src/store.py") < found.index("tests/test_store.py")
    assert found.index("src/store.py") < found.index("gen/store.py")


@pytest.mark.parametrize("alpha", [None, 0.0, 0.7])
def test_what_is_explained_adds_up(library: Desk, alpha: float | None) -> None:
    hits = library.search(Query(text="write pages", alpha=alpha, explain=True)).hits
    assert len(hits) > 2
    totals = []
    for hit in hits:
        told = {name: value for name, value in hit.explanation.items() if isinstance(value, float)}
        totals.append(sum(value for name, value in told.items() if name in ("fused", "whole file", *features.NAMES)))
    assert totals == sorted(totals, reverse=True)
    assert ("words" in hits[0].explanation or "prose words" in hits[0].explanation) == (alpha != 0.0)


def test_words_are_met_alike_whether_they_were_spelt_before_or_not(library: Desk) -> None:
    model = StaticEmbedder()
    documents = library._store.documents("code", 100, 0)
    kept = [one for document in documents for one in library._store.chunks_of(document.id)]
    unkept = [one._replace(kept=b"") for one in kept]
    # As an earlier RefDesk kept them:
    before = [one._replace(kept=apart(one.kept)[0]) for one in kept]
    assert len(kept) == 5 and all(apart(one.kept)[1] for one in kept)
    met = [model.match_words("flush all pages to disk", features.texts(those)) for those in (kept, unkept, before)]
    assert met[0] == met[1] == met[2]
    assert any(met[0][len(kept) : 2 * len(kept)])


@given(st.binary(max_size=192), st.binary(max_size=192))
def test_pieces_are_taken_apart_as_they_were_put_together(text: bytes, head: bytes) -> None:
    text, head = text[: len(text) // 2 * 2], head[: len(head) // 2 * 2]
    assert apart(together(text, head)) == (text, head)
    assert apart(text) == (text, b"")


def test_single_words_need_an_embedder_that_compares_them(library: Desk) -> None:
    class Plain:
        identity = library.embedder.identity if library.embedder else None
        similarity_floor = 0.3

        def embed_queries(self, texts: list[str]) -> object:
            assert library.embedder is not None
            return library.embedder.embed_queries(texts)

    hit = Engine(library._store, Plain()).search(Query(text="write the pages", explain=True)).hits[0]  # type: ignore[arg-type]
    assert not set(features.WORDS) & set(hit.explanation)
    assert "meaning" in hit.explanation


def test_single_words_are_compared_for_questions_and_not_for_names(library: Desk) -> None:
    asked = {"write the pages of the store": True, "flush_pages": False, "src/store.py": False}
    for text, compares in asked.items():
        told = library.search(Query(text=text, explain=True)).hits[0].explanation
        names = {name.removeprefix("prose ") for name in told}
        assert bool(names.intersection(features.WORDS)) == compares, text


@pytest.mark.parametrize("weights", [rerank.weights().with_words, rerank.weights().without_words])
def test_signs_are_as_they_must_be(weights: dict[str, float]) -> None:
    assert set(weights) <= set(features.NAMES)
    assert all(weights[name] < 0 for name in ("test", "generated", "example", "outline"))
    assert all(weights[name] > 0 for name in ("definition", "named", "file", "phrase"))
    assert weights["definition"] > weights["named"]
    others = (*features.WORDS, "title", "path", "neighbours")
    assert all(weights.get(prefix + name, 0.0) >= 0 for name in others for prefix in ("", "prose "))


def test_every_kind_of_query_has_its_blend() -> None:
    kinds = {"symbol", "path", "error", "code", "words"}
    assert set(rerank.weights().window) - {"report"} == set(rerank.weights().blend) == kinds
    assert all(0 <= share <= 1 for share in rerank.weights().blend.values())
