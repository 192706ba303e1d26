"""What every store does."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import numpy as np
import pytest

from refdesk.errors import (
    CollectionExists,
    CollectionNotFound,
    DocumentNotFound,
    InvalidInput,
    LibraryBusy,
    StoreError,
)
from refdesk.model import Batch, EmbedderIdentity, Filters, Ranking, Reference, Skipped, Symbol
from refdesk.ports import Store
from refdesk.store.record import access, by_path
from refdesk.text.analyse import terms
from tests.ports.library import IDENTITY, batch, chunk, collection, key, vector, write

OpenStore = Callable[..., Store]


def found(store: Store, query: str, **filters: object) -> list[str]:
    """The texts that the words find, best first."""
    return texts(store, store.view(Filters(**filters)).lexical(terms(query), 50))  # type: ignore[arg-type]


def near(store: Store, query: str, **filters: object) -> list[str]:
    """The texts nearest to the query, best first."""
    return texts(store, store.view(Filters(**filters)).nearest(vector(query), 50))  # type: ignore[arg-type]


def spelt_like(store: Store, term: str, edits: int, **filters: object) -> list[str]:
    """The texts that hold a term spelt like this one."""
    return texts(store, store.view(Filters(**filters)).spelt_like([term], edits, 50))  # type: ignore[arg-type]


def texts(store: Store, found: Ranking) -> list[str]:
    held = store.chunks(found.ids)
    return [held[chunk_id].chunk.text for chunk_id in found.ids]


# --- collections --------------------------------------------------------------------------------


def test_a_collection_comes_back_as_it_was_put(store: Store) -> None:
    put = collection("docs", description="read me", root="/x", properties={"a": "b"}, created_at=5)
    store.put_collection(put)
    assert store.collection("docs") == put
    assert [c.name for c in store.collections()] == ["code", "docs"]
    assert store.collection("none") is None


def test_a_collection_is_renamed_with_what_it_holds(store: Store) -> None:
    store.apply(batch(write("d", ["alpha"])))
    assert near(store, "alpha", collections=("code",)) == ["alpha"]
    store.put_collection(dataclasses.replace(collection(), name="renamed"))
    assert found(store, "alpha", collections=("renamed",)) == ["alpha"]
    assert near(store, "alpha", collections=("renamed",)) == ["alpha"]
    assert found(store, "alpha", collections=("code",)) == near(store, "alpha", collections=("code",)) == []
    assert store.document("d").collection == "renamed"  # type: ignore[union-attr]


def test_a_collection_tells_when_it_was_last_written(store: Store) -> None:
    before = store.collection("code")
    assert before is not None
    first = write("d", ["alpha"])
    store.apply(batch(dataclasses.replace(first, document=dataclasses.replace(first.document, updated_at=77))))
    store.put_collection(dataclasses.replace(before, description="as it was known before"))
    after = store.collection("code")
    assert after is not None
    assert (after.description, after.updated_at) == ("as it was known before", 77)


def test_two_collections_do_not_share_a_name(store: Store) -> None:
    with pytest.raises(CollectionExists):
        store.put_collection(dataclasses.replace(collection(), id="OTHER"))


def test_removing_a_collection_removes_its_documents_only(store: Store) -> None:
    store.put_collection(collection("other"))
    store.apply(batch(write("a", ["alpha"]), write("b", ["beta"])))
    store.apply(batch(write("c", ["alpha"], name="other"), name="other"))
    assert store.remove_collection("code") == 2
    assert found(store, "alpha beta") == near(store, "alpha") == ["alpha"]
    assert store.document("a") is None
    assert store.stats().documents == 1
    with pytest.raises(CollectionNotFound):
        store.remove_collection("code")


def test_writing_to_no_collection_is_refused(store: Store) -> None:
    with pytest.raises(CollectionNotFound):
        store.apply(batch(write("a", ["x"], name="none"), name="none"))


# --- documents ----------------------------------------------------------------------------------


def test_a_document_comes_back_as_it_was_written(store: Store) -> None:
    one = chunk(
        "def f(): ...",
        3,
        title="f",
        breadcrumb=("m", "C"),
        symbols=("f",),
        signature="f()",
        doc_comment="does",
        metadata={"visibility": "public"},
    )
    written = write("d", [one, "tail é 漢字"], metadata={"branch": "main"})
    store.apply(batch(written))
    assert store.document("d") == written.document
    assert store.document_by_uri(written.document.uri) == written.document
    assert store.document_by_uri(written.document.uri, "other") is None
    assert store.document_by_path("code", "src/d.py") == written.document
    assert store.raw("d") == written.raw
    held = store.chunks_of("d")
    assert [h.chunk for h in held] == list(written.chunks)
    assert [h.position for h in held] == [0, 1]
    assert all(h.document == written.document for h in held)
    assert store.chunks([held[1].id, 999]) == {held[1].id: held[1]}


def test_what_is_not_there_is_not_found(store: Store) -> None:
    assert store.document("x") is None
    assert store.chunks_of("x") == []
    with pytest.raises(DocumentNotFound):
        store.raw("x")
    with pytest.raises(DocumentNotFound):
        store.apply(Batch(collection="code", touches=(write("x", []).document,)))
    store.apply(Batch(collection="code", removes=("x",)))


def test_documents_are_listed_by_path_in_pages(store: Store) -> None:
    store.apply(batch(*(write(f"d{i}", ["x"], path=f"{9 - i}.py") for i in range(5))))
    assert [d.path for d in store.documents("code", 3, 0)] == ["5.py", "6.py", "7.py"]
    assert [d.path for d in store.documents("code", 3, 3)] == ["8.py", "9.py"]
    assert store.count_documents("code") == store.count_documents("") == 5
    assert list(store.file_states("none")) == []


def test_states_of_files_are_read_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_PAGE", 2)
    paths = ["a/b.py", "a/b/c.py", "a/b/d.py", "a/b0.py", "a/é.py", "b", "\U0010fffe"]
    store.apply(batch(*(write(f"d{i}", ["x"], path=path) for i, path in enumerate(paths))))
    found = dict(store.file_states("code"))
    assert sorted(found) == sorted(paths) and found["b"].document_id == "d5"
    assert sorted(path for path, _ in store.file_states("code", ["a/b", "b"])) == ["a/b/c.py", "a/b/d.py", "b"]
    among = ["a", "none", "b", "a/b/d.py", "a/b0.py"]  # two pages of paths, and what is below them
    assert {path for path, _ in store.file_states("code", among)} == set(paths[:-1])
    same = [write(f"same{i}", ["x"], path="b") for i in range(3)]  # as of documents without a file
    store.apply(batch(*same))
    assert len(list(store.file_states("code", ["b"]))) == 4


def test_states_of_many_files_are_asked_for_at_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    read = by_path.file_states
    monkeypatch.setattr(by_path, "file_states", lambda *given: (asked.append(given), read(*given))[1])
    store.apply(batch(*(write(f"d{i}", ["x"], path=f"{i}.py") for i in range(100))))
    assert len(list(store.file_states("code", [f"{i}.py" for i in range(200)]))) == 100
    assert len(asked) <= 1


def test_rewriting_keeps_the_ids_of_chunks_that_stay(store: Store) -> None:
    store.apply(batch(write("d", [chunk("alpha", 1, key="a"), chunk("beta", 2, key="b")])))
    before = {h.chunk.text: h.id for h in store.chunks_of("d")}
    store.apply(batch(write("d", [chunk("new", 1, key="n"), chunk("alpha", 2, key="a"), chunk("gamma", 3, key="b")])))
    after = {h.chunk.text: h.id for h in store.chunks_of("d")}
    assert after["alpha"] == before["alpha"]
    assert [h.chunk.start_line for h in store.chunks_of("d")] == [1, 2, 3]
    assert found(store, "alpha beta new") and found(store, "beta") == []
    assert near(store, "gamma")[0] == "gamma"


def test_a_touched_document_keeps_its_chunks(store: Store) -> None:
    written = write("d", ["alpha"], path="old/a.py")
    store.apply(batch(written))
    chunk_id = store.chunks_of("d")[0].id
    moved = dataclasses.replace(written.document, path="new/b.md", metadata={"k": "v"}, size=9)
    store.apply(Batch(collection="code", touches=(moved,)))
    assert store.document("d") == moved
    assert store.chunks_of("d")[0].id == chunk_id
    for ask in (found, near):
        assert ask(store, "alpha", paths=("new",), extensions=("md",), metadata=(("k", ("v",)),)) == ["alpha"]
        assert ask(store, "alpha", paths=("old",)) == []
    assert store.raw("d") == written.raw


def test_a_batch_is_applied_whole_or_not_at_all(store: Store) -> None:
    store.apply(batch(write("a", ["alpha"])))
    before = store.sequence()
    bad = dataclasses.replace(write("c", ["gamma"]), vector_keys=(b"no such vector",))
    with pytest.raises(StoreError):
        store.apply(Batch(collection="code", writes=(write("b", ["beta"], vectors=False), bad), removes=("a",)))
    assert store.sequence() == before
    assert found(store, "alpha beta gamma") == ["alpha"]
    with pytest.raises(InvalidInput):
        store.apply(Batch(collection="code", writes=(dataclasses.replace(write("b", ["beta"]), vector_keys=()),)))
    assert store.document("b") is None


def test_the_sequence_grows_with_every_change_and_only_then(store: Store) -> None:
    before = store.sequence()
    store.apply(batch(write("a", ["alpha"])))
    after = store.sequence()
    assert after > before
    found(store, "alpha"), near(store, "alpha"), store.stats()
    store.put_collection(collection())
    store.replace_skipped("code", [])
    store.set_embedder_identity(IDENTITY)
    assert store.sequence() == after


def test_skipped_files_are_kept_until_replaced(store: Store) -> None:
    store.replace_skipped("code", [Skipped(path="b", reason="binary"), Skipped(path="a", reason="large")])
    assert [s.path for s in store.skipped("code")] == ["a", "b"]
    store.replace_skipped("code", [])
    assert store.skipped("code") == []
    with pytest.raises(CollectionNotFound):
        store.replace_skipped("none", [])


def test_odd_text_is_kept(store: Store) -> None:
    odd = "nul \x00 lone \ud800 emoji 😀 \x1f sep"
    store.apply(batch(write("d", [odd.replace("\ud800", "?")], metadata={"k\x1f": "v=\x1f;"})))
    assert store.raw("d") == odd.replace("\ud800", "?")
    store.apply(batch(write("e", [chunk(odd, 1, title=odd, symbols=(odd,))], vectors=False)))
    assert len(store.chunks_of("e")) == 1
    kept = found(store, "lone", metadata=(("k\x1f", ("v=\x1f;",)),))
    assert [text.replace("\ufffd", "\0") for text in kept] == [odd.replace("\ud800", "?")]  # Postgres refuses NUL


def test_odd_names_are_kept_beside_plain_ones(store: Store) -> None:
    names = ("plain", "nul \0 name", "lone \ud800", "naïve")
    symbols = tuple(Symbol(name, name, "function", 1, 1, name) for name in names)
    uses = tuple(Reference("calls", "plain", name, line) for line, name in enumerate(names, 1))
    store.apply(batch(write("d", ["text"], symbols=symbols, references=uses)))
    kept = [one.name.replace("\ufffd", "\0").replace("\ud800", "?") for one in store.symbols_of("d")]
    assert kept == ["plain", "nul \0 name", "lone ?", "naïve"]
    used = [one.target.replace("\ufffd", "\0").replace("\ud800", "?") for one in store.references_of("d")]
    assert used == kept


# --- words --------------------------------------------------------------------------------------


def test_words_are_found_in_every_field(store: Store) -> None:
    store.apply(
        batch(
            write("a", ["plain content word"], path="x/one.py"),
            write("b", [chunk("y", 1, title="heading word")], path="x/two.py"),
            write("c", [chunk("z", 1, breadcrumb=("crumb word",))], path="x/three.py"),
            write("d", ["w"], path="word/four.py"),
            write("e", [chunk("v", 1, symbols=("getWord",))], path="x/five.py"),
        )
    )
    assert sorted(found(store, "word")) == ["plain content word", "v", "w", "y", "z"]
    assert found(store, "getWord")[0] == "v"
    assert found(store, "nothing") == found(store, "") == []


def test_more_matching_words_score_higher_and_ties_go_by_id(store: Store) -> None:
    store.apply(batch(*(write(f"d{i}", [f"alpha filler{i}"], path="p.py") for i in range(30))))
    store.apply(batch(write("z", ["alpha omega"], path="p.py")))
    hits = store.view().lexical(terms("alpha omega"), 50)
    first, *ids = hits.ids
    assert store.chunks([first])[first].chunk.text == "alpha omega"
    assert ids == sorted(ids)
    assert store.view().lexical(terms("alpha omega"), 7) == Ranking(hits.ids[:7], hits.scores[:7])
    assert not store.view().lexical(terms("alpha"), 0)


def test_how_many_of_the_words_are_there_need_not_count(store: Store) -> None:
    often = "flush flush flush flush flush flush"
    store.apply(batch(write("a", [often, "flush the pages of a store to disk and close it at the end"])))
    wanted = terms("flush pages")
    by_number = store.view().lexical(wanted, 10).by_chunk()
    without = store.view().lexical(wanted, 10, by_number=False).by_chunk()
    gained = {chunk_id: score - without[chunk_id] for chunk_id, score in by_number.items()}
    assert by_number.keys() == without.keys()
    few, many = sorted(gained, key=lambda chunk_id: gained[chunk_id])
    assert (texts(store, Ranking([few], [0])), gained[few] > 0) == ([often], True)
    assert gained[many] > gained[few]


def test_a_word_that_all_have_counts_for_them_while_they_are_rewritten(store: Store) -> None:
    store.apply(batch(*(write(f"d{i}", [f"alpha filler{i}"], path="p.py") for i in range(40))))
    for many in range(5, 41, 5):
        store.apply(batch(*(write(f"d{i}", [f"alpha changed{i}"], path="p.py") for i in range(many))))
        hits = store.view().lexical(terms("alpha"), 50)
        assert len(hits) == 40
        assert all(score > 0 for score in hits.scores)


def test_phrases_need_the_words_in_order(store: Store) -> None:
    store.apply(batch(write("a", ["the quick brown fox"]), write("b", ["brown the quick fox"])))
    assert texts(store, store.view().phrase(["quick", "brown"], 10)) == ["the quick brown fox"]
    assert texts(store, store.view(Filters(collections=("none",))).phrase(["Quick"], 10)) == []
    assert len(store.view().phrase(["fox"], 10)) == 2


def test_a_phrase_of_names_is_found_as_written(store: Store) -> None:
    store.apply(batch(write("a", ["return parseHTTPResponse(body)"]), write("b", ["body of parseHTTPResponse"])))
    assert texts(store, store.view().phrase(["parseHTTPResponse", "body"], 10)) == ["return parseHTTPResponse(body)"]


def test_literal_text_is_found_to_the_letter(store: Store) -> None:
    store.apply(batch(write("a", ["a -> b", "A->B"]), write("b", ["x -> b"], path="docs/x.md")))
    assert sorted(texts(store, store.view().literal(" -> ", 10))) == ["a -> b", "x -> b"]
    assert texts(store, store.view(Filters(paths=("docs",))).literal("-> b", 10)) == ["x -> b"]
    assert len(store.view().literal("->", 2)) == 2
    store.apply(batch(write("c", ["def fooBar(self, x): return x", "def foo_bar(self, y)"])))
    assert texts(store, store.view().literal("oBar(self, x): ret", 10)) == ["def fooBar(self, x): return x"]
    assert sorted(texts(store, store.view(Filters(kinds=("function",))).literal("ar(self, ", 10))) == [
        "def fooBar(self, x): return x",
        "def foo_bar(self, y)",
    ]
    assert not store.view(Filters(kinds=("class",))).literal("ar(self, ", 10)
    assert not store.view().literal("", 10) and not store.view().literal("%", 10)


def test_terms_are_counted_in_a_small_collection_by_itself(store: Store) -> None:
    store.apply(batch(*(write(f"d{number}", ["transaction log"]) for number in range(9))))
    store.put_collection(collection("other"))
    store.apply(batch(write("x", ["facet", "facet again", "transaction"], name="other"), name="other"))
    facet, transaction = terms("facet transaction")
    small, large = store.view(Filters(collections=("other",))), store.view(Filters(collections=("code",)))
    assert (small.passages(), small.document_frequency([facet, transaction])) == (3, {facet: 2, transaction: 1})
    assert large.passages() >= 12
    assert large.document_frequency([transaction]) == {transaction: 10}
    assert (small.unknown([facet]), large.unknown([facet])) == (set(), {facet})
    store.apply(batch(write("x", ["transaction"], name="other"), name="other"))
    small = store.view(Filters(collections=("other",)))
    assert small.document_frequency([facet, transaction]) == {facet: 0, transaction: 1}
    assert small.unknown([facet, transaction]) == {facet}


def test_frequency_and_words_spelt_alike(store: Store) -> None:
    store.apply(batch(write("a", ["transaction log", "transaction"]), write("b", ["translate", "transport"])))
    transaction = terms("transaction")[0]
    assert store.view().document_frequency([transaction, "zzz"]) == {transaction: 2, "zzz": 0}
    assert store.view().passages() == 4
    assert store.view().unknown([transaction, "zzz"]) == {"zzz"}
    assert store.view(Filters(collections=("none",))).unknown([transaction]) == {transaction}
    assert spelt_like(store, "transport", 0) == ["transport"] == spelt_like(store, "tarnsport", 1)
    assert spelt_like(store, "rtansprot", 1) == spelt_like(store, "qqqq", 2) == []
    assert spelt_like(store, "rtansprot", 2) == ["transport"]
    assert spelt_like(store, "tarnsport", 1, collections=("none",)) == []


def test_facets_count_chunks_within_filters(store: Store) -> None:
    store.apply(
        batch(
            write("a", [chunk("x", 1, metadata={"lang": "de"}), "y"], metadata={"lang": "en", "v": "1"}),
            write("b", ["z"], metadata={"lang": "en"}, path="docs/b.py"),
        )
    )
    assert store.view().facet_values("lang") == {"en": 2, "de": 1}
    assert store.view(Filters(paths=("docs/*",))).facet_values("lang") == {"en": 1}
    assert store.view(Filters(kinds=("function",))).facet_values("v") == {"1": 2}
    assert (store.values("kind"), store.values("extension")) == ({"function": 3}, {"py": 3})
    assert store.view().facet_values("none") == {}
    store.apply(Batch(collection="code", removes=("a",)))
    assert store.view().facet_values("lang") == {"en": 1}


def test_what_has_a_word_is_counted_by_value(store: Store) -> None:
    store.apply(
        batch(
            write("a", ["retry later", chunk("retry", 2, kind="class"), "no"], path="src/a.py", metadata={"v": "1=2"}),
            write("b", [chunk("never retry", 1, language="rust"), "backoff"], path="lib/b.rs"),
        )
    )
    store.put_collection(collection("other"))
    store.apply(batch(write("c", ["backoff"], path="src/a.py", name="other"), name="other"))
    words = terms("retry backoff")
    everywhere = store.view()
    assert everywhere.tally("collection", words, 10) == {"code": 4, "other": 1}
    assert everywhere.tally("kind", words, 10) == {"function": 4, "class": 1}
    assert everywhere.tally("language", words, 10) == {"python": 4, "rust": 1}
    assert everywhere.tally("path", words, 10) == {"src/a.py": 3, "lib/b.rs": 2}
    assert everywhere.tally("metadata", words, 10) == {"v=1=2": 2}
    assert everywhere.tally("kind", words, 1) == {"function": 4}
    inside = store.view(Filters(collections=("code",), paths=("src/*",)))
    assert inside.tally("kind", words, 10) == {"function": 1, "class": 1}
    assert everywhere.tally("kind", ["zzz"], 10) == everywhere.tally("kind", [], 10) == {}
    assert store.view(Filters(collections=("none",))).tally("kind", words, 10) == {}


def test_metadata_may_be_any_json_and_is_compared_as_text(store: Store) -> None:
    own = {"level": 2, "draft": False, "tags": ["a", "b"]}
    store.apply(batch(write("a", [chunk("word", 1, metadata=own), "other"], metadata={"level": 1})))
    assert store.chunks_of("a")[0].chunk.metadata == own
    for accepted in (("level", ("2",)), ("draft", ("false",)), ("tags", ('["a", "b"]',))):
        assert found(store, "word", metadata=(accepted,)) == near(store, "word", metadata=(accepted,)) == ["word"]
    assert store.facets("code") == {"level": {"2": 1}, "draft": {"false": 1}, "tags": {'["a", "b"]': 1}}
    assert store.view().facet_values("level") == {"1": 1, "2": 1}


# --- vectors ------------------------------------------------------------------------------------


def test_the_nearest_come_with_cosines_to_two_digits(store: Store) -> None:
    names = [f"text {i}" for i in range(40)]
    store.apply(batch(write("d", names)))
    hits = store.view().nearest(vector("query"), 10)
    exact = {name: float(vector("query") @ vector(name)) for name in names}  # stored with 8 bits a number
    best = sorted(exact.values(), reverse=True)[:10]
    assert np.allclose([exact[name] for name in texts(store, hits)], best, atol=5e-3)
    assert np.allclose(hits.scores, best, atol=5e-3)
    assert hits.scores == sorted(hits.scores, reverse=True)
    assert store.view().cosines(vector("query"), hits.ids) == pytest.approx(hits.by_chunk(), abs=5e-4)
    assert not store.view().nearest(vector("query"), 0)


def test_a_topic_is_the_whole_of_a_document(store: Store) -> None:
    asked = vector("query")
    store.apply(
        batch(write("a", ["alpha", "beta", "gamma"]), write("b", ["delta"]), write("c", ["eps"], vectors=False))
    )
    ids = {one.chunk.text: one.id for name in "abc" for one in store.chunks_of(name)}

    def expected(*names: str) -> tuple[float, float, int]:
        mean = np.mean([vector(name) for name in names], axis=0)
        return float(asked @ mean / np.linalg.norm(mean)), float(asked @ mean), len(names)

    def topics(*names: str) -> dict[str, tuple[float, float, int]]:
        given = store.view().topics(asked, [ids[name] for name in names])
        return {name: dataclasses.astuple(given[ids[name]]) for name in names if ids[name] in given}

    assert list(topics("alpha", "delta", "eps")) == ["alpha", "delta"]
    assert np.allclose(topics("beta")["beta"], expected("alpha", "beta", "gamma"), atol=5e-3)
    assert np.allclose(topics("delta")["delta"], expected("delta"), atol=5e-3)
    store.apply(batch(write("a", ["alpha", "beta"])))
    assert np.allclose(topics("alpha")["alpha"], expected("alpha", "beta"), atol=5e-3)
    assert store.view().topics(asked[:3], [ids["alpha"]]) == store.view().topics(asked, []) == {}


def test_origins_are_known_without_reading_chunks(store: Store) -> None:
    store.apply(batch(write("a", ["alpha", "beta"]), write("b", ["alpha"]), write("c", ["eps"], vectors=False)))
    ids = {f"{name}/{one.chunk.text}": one.id for name in "abc" for one in store.chunks_of(name)}
    view = store.view()
    view.nearest(vector("alpha"), 1)  # an index in memory, if there is one, is in use
    found = {name: view.origins([*ids.values(), -1])[one] for name, one in ids.items()}
    assert len(view.origins([*ids.values(), -1])) == 4
    assert found["a/alpha"].text == found["b/alpha"].text != found["a/beta"].text
    assert found["a/alpha"].document == found["a/beta"].document != found["b/alpha"].document
    for name in "abc":
        path = store.chunks_of(name)[0].document.path
        assert {origin.path for of, origin in found.items() if of.startswith(name)} == {path}


def test_words_and_meaning_are_searched_at_once(store: Store) -> None:
    store.apply(batch(*(write(f"d{i}", ["same words", f"words {i}"]) for i in range(20))))
    for filters in (Filters(), Filters(collections=("elsewhere",)), Filters(documents=("d1", "d2"))):
        for words, asked in ((["words", "same"], vector("same words")), ([], vector("x")), (["same"], vector("x")[:3])):
            view = store.view(filters)
            both = view.both(words, asked, 10)
            assert both == (view.lexical(words, 10, by_number=False), view.nearest(asked, 10))
            known = view.cosines(asked, both[0].ids)
            assert known == pytest.approx(store.view(filters).cosines(asked, both[0].ids), abs=5e-4)
            wanted = [*both[0].ids, *both[1].ids]
            assert view.origins(wanted) == store.view(filters).origins(wanted)
    assert len(store.view().both(["same"], vector("same words"), 10)[1]) == 10


def test_equal_vectors_come_by_id(store: Store) -> None:
    store.apply(batch(*(write(f"d{i}", ["same"]) for i in range(20))))
    ids = store.view().nearest(vector("same"), 10).ids
    assert ids == sorted(ids) and len(ids) == 10


def test_what_an_embedder_wants_back_is_kept_with_the_vector(store: Store) -> None:
    kept = {key("alpha"): b"\x01\x00", key("beta"): b"\x02\x00\x03\x00"}
    store.apply(dataclasses.replace(batch(write("a", ["alpha", "beta"])), kept=kept))
    assert [one.kept for one in store.chunks_of("a")] == [b"\x01\x00", b"\x02\x00\x03\x00"]
    store.apply(batch(write("b", ["beta", "gamma"]), write("c", ["delta"], vectors=False)))
    there = store.chunks([one.id for one in (*store.chunks_of("b"), *store.chunks_of("c"))])
    assert {one.chunk.text: one.kept for one in there.values()} == {
        "beta": b"\x02\x00\x03\x00", "gamma": b"", "delta": b"",
    }  # fmt: skip


def test_vectors_are_kept_once_and_known_by_key(store: Store) -> None:
    store.apply(batch(write("a", ["alpha"])))
    assert store.missing_vectors([key("alpha"), key("beta"), b""]) == {key("beta")}
    store.apply(Batch(collection="code", writes=(write("b", ["alpha"]),)))
    assert near(store, "alpha") == ["alpha", "alpha"]


def test_chunks_without_vectors_are_found_by_words_only(store: Store) -> None:
    store.apply(batch(write("a", ["alpha"], vectors=False), write("b", ["beta"])))
    assert found(store, "alpha") == ["alpha"]
    assert near(store, "alpha") == ["beta"]
    assert store.stats().embeddings == 1


def test_another_embedder_drops_all_vectors(store: Store) -> None:
    store.apply(batch(write("a", ["alpha"])))
    chunk_id = store.chunks_of("a")[0].id
    assert near(store, "alpha") == ["alpha"]
    store.set_embedder_identity(IDENTITY)
    assert near(store, "alpha") == ["alpha"]
    other = EmbedderIdentity("other", "1", 8)
    store.set_embedder_identity(other)
    assert store.embedder_identity() == other
    assert near(store, "alpha") == []
    assert store.missing_vectors([key("alpha")]) == {key("alpha")}
    with pytest.raises(InvalidInput):
        store.apply(batch(write("a", ["alpha"])))
    eight = np.eye(8, dtype=np.float32)[0]
    store.apply(
        Batch(
            collection="code",
            writes=(dataclasses.replace(write("a", ["alpha"]), vector_keys=(b"k",)),),
            vectors={b"k": eight},
        )
    )
    assert texts(store, store.view().nearest(eight, 5)) == found(store, "alpha") == ["alpha"]
    assert store.chunks_of("a")[0].id == chunk_id


def test_a_library_without_vectors_answers_none(store: Store) -> None:
    assert near(store, "alpha") == []
    assert store.view().cosines(vector("alpha"), []) == {}


# --- filters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(collections=("code",)), "abcd"),
        (Filters(collections=("other",)), "e"),
        (Filters(collections=("code", "other")), "abcde"),
        (Filters(collections=("none",)), ""),
        (Filters(documents=("A", "E")), "ae"),
        (Filters(documents=("none",)), ""),
        (Filters(kinds=("section",)), "c"),
        (Filters(kinds=("section", "class")), "bc"),
        (Filters(types=("prose",)), "c"),
        (Filters(languages=("markdown", "swift")), "bc"),
        (Filters(extensions=("PY",)), "ad"),
        (Filters(extensions=("*.Py",)), "ad"),
        (Filters(extensions=(".md",)), "ce"),
        (Filters(paths=("src",)), "ab"),
        (Filters(paths=("src/**/*.py",)), "a"),
        (Filters(paths=("*.md", "src_utils")), "cde"),
        (Filters(paths=("docs/*.md",)), "ce"),
        (Filters(paths=("none/**",)), ""),
        (Filters(metadata=(("branch", ("main",)),)), "ab"),
        (Filters(metadata=(("branch", ("main", "dev")),)), "abc"),
        (Filters(metadata=(("branch", ("main",)), ("level", ("2",)))), "b"),
        (Filters(metadata=(("none", ("x",)),)), ""),
        (Filters(collections=("code",), extensions=("md", "py"), paths=("docs", "src")), "ac"),
    ],
)
def test_filters_hold_in_every_way_of_searching(store: Store, filters: Filters, expected: str) -> None:
    store.put_collection(collection("other"))
    store.apply(
        batch(
            write("A", [chunk("word a")], path="src/a.py", metadata={"branch": "main", "level": "1"}),
            write(
                "B",
                [chunk("word b", kind="class", language="swift", metadata={"level": "2"})],
                path="src/deep/b.swift",
                metadata={"branch": "main", "level": "1"},
            ),
            write(
                "C",
                [chunk("word c", kind="section", type="prose", language="markdown")],
                path="docs/c.md",
                metadata={"branch": "dev"},
            ),
            write("D", [chunk("word d")], path="src_utils/d.py"),
        )
    )
    store.apply(batch(write("E", [chunk("word e")], path="docs/e.md", name="other"), name="other"))
    expected_texts = [f"word {c}" for c in expected]
    for scored in (
        store.view(filters).lexical(["word"], 10),
        store.view(filters).phrase(["word"], 10),
        store.view(filters).literal("word ", 10),
        store.view(filters).nearest(vector("word a"), 10),
    ):
        assert sorted(texts(store, scored)) == expected_texts


# --- graph --------------------------------------------------------------------------------------


def test_symbols_and_references_are_found_by_name(store: Store) -> None:
    foo = Symbol(name="foo", qualified="A.foo", kind="method", start_line=1, end_line=2, signature="foo()")
    other = Symbol(name="foo", qualified="B.foo", kind="method", start_line=3, end_line=4)
    call = Reference(kind="calls", source="A.foo", target="bar", line=2, receiver="self", alias="b")
    base = Reference(kind="inherits", source="B", target="bar", line=3)
    store.apply(batch(write("d", ["x"], symbols=(foo, other), references=(call, base))))
    assert [s for _, s in store.symbols_named("foo")] == [foo, other]
    assert [s for _, s in store.symbols_named("B.foo", "code")] == [other]
    assert store.symbols_named("foo", "none") == store.symbols_named("oo") == []
    assert [(d.id, r) for d, r in store.references_to("bar")] == [("d", call), ("d", base)]
    assert [r for _, r in store.references_to("bar", kinds=("imports", "inherits"))] == [base]
    assert store.symbols_of("d") == [foo, other]
    assert store.references_of("d") == [call, base]
    assert store.references_of("d", ("calls",)) == [call]
    assert store.stats("code").symbols == 2
    store.apply(batch(write("d", ["x"])))
    assert store.symbols_of("d") == store.references_of("d") == []


# --- keeping ------------------------------------------------------------------------------------


def test_stats_count_what_is_there(store: Store) -> None:
    store.put_collection(collection("empty"))
    store.apply(batch(write("a", ["alpha", "beta"]), write("b", ["gamma"], vectors=False)))
    all_of_it, empty = store.stats(), store.stats("empty")
    assert (all_of_it.collections, all_of_it.documents, all_of_it.chunks, all_of_it.embeddings) == (2, 2, 3, 2)
    assert all_of_it.storage_bytes > store.stats("code").storage_bytes > empty.storage_bytes == 0
    assert (empty.documents, empty.chunks, empty.embeddings) == (0, 0, 0)
    with pytest.raises(CollectionNotFound):
        store.stats("none")


def test_a_sound_library_verifies(store: Store) -> None:
    store.apply(batch(write("a", ["alpha"])))
    assert all(finding.ok and not finding.repaired for finding in store.verify(repair=False))
    assert all(finding.ok for finding in store.verify(repair=True))


def test_a_write_is_seen_by_the_next_query_of_another_store(store: Store, open_store: OpenStore) -> None:
    other = open_store()
    assert found(other, "alpha") == near(other, "alpha") == []
    for i in range(3):
        store.apply(batch(write(f"d{i}", ["alpha"])))
        assert len(found(other, "alpha")) == len(near(other, "alpha")) == i + 1
    other.apply(Batch(collection="code", removes=("d0",)))
    assert len(found(store, "alpha")) == len(near(store, "alpha")) == 2


def test_a_second_writer_waits_and_then_says_who_writes(store: Store, open_store: OpenStore) -> None:
    other = open_store(lock_timeout_s=0.2)
    with store.writing():
        store.apply(batch(write("a", ["alpha"])))
        store.apply(batch(write("b", ["beta"])))
        assert found(other, "alpha") == ["alpha"]  # a reader does not wait for the writer to finish
        with pytest.raises(LibraryBusy, match="process"):
            other.apply(batch(write("c", ["gamma"])))
        with pytest.raises(LibraryBusy, match="at work"), other.stretch(wait=False):
            pass
    assert len(found(other, "alpha beta")) == 2
    other.apply(batch(write("c", ["gamma"])))
    assert found(store, "gamma") == ["gamma"]


def test_many_threads_use_one_store(store: Store) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(4):
                store.apply(batch(write(f"{number}-{i}", [f"alpha n{number}x{i}"])))
                assert f"alpha n{number}x{i}" in found(store, "alpha")
                assert f"alpha n{number}x{i}" in near(store, f"alpha n{number}x{i}")[:1]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(found(store, "alpha")) == 16
