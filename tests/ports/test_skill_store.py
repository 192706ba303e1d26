"""One suite for every skill store: the contract's five functions and what stands around them."""

from __future__ import annotations

import asyncio
import multiprocessing
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refdesk.errors import SkillNotFound, StaleSkill, StoreError
from refdesk.model import EmbedderIdentity, Filters
from refdesk.skills.model import DUPLICATE, TOP_K, ContractFunctions, PlaybookStore, Skill, SkillUpdate
from refdesk.store.local import LocalStore
from refdesk.store.neo4j import Neo4jPlaybooks
from refdesk.store.playbooks import RecordPlaybooks
from refdesk.store.record.access import RecordAccess
from tests.ports.conftest import _shared
from tests.ports.library import IDENTITY, batch, collection, vector, write
from tests.ports.neo4j_server import PASSWORD, Neo4jServer

Make = Callable[[], PlaybookStore]


class Awaited(RecordPlaybooks):
    """The same store, its five contract functions called as the contract writes them."""

    def __init__(self, store: RecordAccess) -> None:
        super().__init__(store)
        self._contract = ContractFunctions(RecordPlaybooks(store))

    def hybrid_search(self, query_embedding: list[float], query_text: str, top_k: int = TOP_K) -> list[dict[str, Any]]:
        return asyncio.run(self._contract.hybrid_search(query_embedding, query_text, top_k))

    def create_skill(self, skill: Skill) -> Skill:
        return asyncio.run(self._contract.create_skill(skill))

    def get_skill(self, skill_id: str) -> Skill | None:
        return asyncio.run(self._contract.get_skill(skill_id))

    def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        return asyncio.run(self._contract.update_skill(skill_id, updates))

    def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        return asyncio.run(self._contract.check_duplicate(embedding, threshold))


STORES: dict[str, type[RecordPlaybooks]] = {"record": RecordPlaybooks, "contract": Awaited, "shared": RecordPlaybooks}


@pytest.fixture(params=[*STORES, "neo4j"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Opens the store under test; every call gives another handle on the same skills."""
    opened: list[Any] = []
    server: Neo4jServer | None = None
    if request.param == "neo4j":
        server = request.getfixturevalue("neo4j_server")
        server.query("MATCH (n) DETACH DELETE n")

    def open_store() -> PlaybookStore:
        if server is not None:
            opened.append(one := Neo4jPlaybooks(server.uri, "neo4j", PASSWORD))
            return one
        shared = request.param == "shared"
        opened.append(local := _shared(tmp_path) if shared else LocalStore(tmp_path / "library"))
        return STORES[request.param](local)

    yield open_store
    for store in opened:
        store.close()


def skill(title: str, *embedding: float, **more: Any) -> Skill:
    given: dict[str, Any] = {
        "skill_id": str(uuid.uuid4()), "title": title, "version": 1, "problem": f"problem with {title}",
        "resolution_md": f"# {title}\n", "conditions": ("a condition",), "keywords": ("word",), "embedding": embedding,
    }  # fmt: skip
    return Skill(**given | more)


def test_a_skill_is_kept_as_it_is(make: Make) -> None:
    store = make()
    kept = store.create_skill(skill("Refund", 1.0, 0.0, product_area="billing", issue_type="bug"))
    assert kept.created_at and kept.updated_at
    assert make().get_skill(kept.skill_id) == kept
    assert store.get_skill("sk_123") is None
    with pytest.raises(StoreError, match="exists already"):
        store.create_skill(kept)
    assert [each.skill_id for each in store.list_skills()] == [kept.skill_id]


def test_skills_are_listed_in_pages_the_oldest_first(make: Make) -> None:
    store = make()
    days = ("2025-03-01", "2025-01-01", "2025-02-01", "2025-02-01", "2024-12-31")
    kept = [store.create_skill(skill(day, created_at=f"{day}T00:00:00.000Z")) for day in days]
    expected = [each.skill_id for each in sorted(kept, key=lambda each: (each.created_at, each.skill_id))]
    pages = [store.list_skills(2, offset) for offset in (0, 2, 4, 6)]
    assert [[each.skill_id for each in page] for page in pages] == [expected[:2], expected[2:4], expected[4:], []]


def test_hybrid_search_by_words_and_by_vector(make: Make) -> None:
    store = make()
    refund = store.create_skill(skill("Refund a duplicate charge", 1.0, 0.0, 0.0))
    router = store.create_skill(skill("Restart the router", 0.0, 1.0, 0.0))
    by_words = store.hybrid_search([0.0, 0.0, 1.0], "routers restarting")
    assert by_words[0]["skill"] == router
    by_vector = store.hybrid_search([0.9, 0.1, 0.0], "zebra")
    assert by_vector[0]["skill"] == refund
    assert all(0.0 <= each["score"] <= 1.0 for each in by_words + by_vector)
    assert store.hybrid_search([], "charge")[0]["skill"] == refund
    assert store.hybrid_search([], "zebra") == []
    assert store.hybrid_search([1.0], 'charge" OR * NEAR(') != []


def test_misspelt_words_are_corrected_by_what_playbooks_say(make: Make) -> None:
    store = make()
    refund = store.create_skill(skill("Refund a duplicate charge"))
    router = store.create_skill(skill("Restart the router", resolution_md="# x\nPress the hidden button, then backup"))
    for typed, meant in (("dupilcate", refund), ("restrat ruoter", router), ("hiden buton", router)):
        assert [each["skill"] for each in store.hybrid_search([], typed)] == [meant], typed
    assert store.hybrid_search([], "back up")[0]["skill"] == router
    assert store.hybrid_search([], "zebrafish qwertzuiop") == []


def test_search_gives_at_most_top_k(make: Make) -> None:
    store = make()
    for number in range(8):
        store.create_skill(skill(f"Router {number}", 1.0, number / 10))
    assert len(store.hybrid_search([1.0, 0.0], "router")) == 5
    assert len(store.hybrid_search([1.0, 0.0], "router", top_k=2)) == 2


def test_full_text_covers_title_problem_resolution_and_keywords(make: Make) -> None:
    store = make()
    kept = store.create_skill(skill("Alpha", resolution_md="# x\nbravo", problem="charlie", keywords=("delta",)))
    for word in ("alpha", "bravo", "charlie", "delta"):
        assert store.hybrid_search([], word)[0]["skill"] == kept
    store.update_skill(kept.skill_id, SkillUpdate(problem="echo"))
    assert store.hybrid_search([], "charlie") == []
    assert store.hybrid_search([], "echo")[0]["skill"].version == 2


def test_a_duplicate_is_more_similar_than_the_threshold(make: Make) -> None:
    store = make()
    kept = store.create_skill(skill("Refund", 3.0, 4.0))
    assert store.check_duplicate([0.6, 0.8]) == kept
    assert store.check_duplicate([0.8, 0.6]).skill_id == kept.skill_id  # cosine .96
    assert store.check_duplicate([1.0, 0.0]) is None
    assert store.check_duplicate([0.8, 0.6], threshold=0.99) is None
    assert store.check_duplicate([]) is None
    assert store.check_duplicate([0.0, 0.0]) is None


def test_what_is_created_at_once_is_one_skill_if_it_is_the_same(make: Make) -> None:
    stores = [make() for _ in range(4)]
    other = stores[0].create_skill(skill("Restart the router", 0.0, 1.0, 0.0))

    def create(number: int) -> Skill:
        given = skill(f"Refund {number}", 1.0, number / 100, 0.0)
        return stores[number % 4].create_unless_known(given)

    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(create, range(8)))
    assert len({one.skill_id for one in kept}) == 1
    assert {one.skill_id for one in stores[1].list_skills()} == {kept[0].skill_id, other.skill_id}
    further = stores[2].create_unless_known(skill("Refund", 0.8, 0.6, 0.0), threshold=0.99)
    bare = [stores[3].create_unless_known(skill("Refund")) for _ in range(2)]  # by a process without an embedder
    assert len({one.skill_id for one in (*kept, further, *bare)}) == 4


def test_updates_are_partial_and_count_versions(make: Make) -> None:
    store = make()
    first = store.create_skill(skill("Refund", 1.0))
    second = store.update_skill(first.skill_id, SkillUpdate(title="Refund twice", outcome="likely"))
    assert (second.version, second.title, second.problem) == (2, "Refund twice", first.problem)
    assert second.confidence == 0.53
    assert second.created_at == first.created_at
    third = store.update_skill(first.skill_id, SkillUpdate(keywords=("a", "b"), expected_version=2))
    assert (third.version, third.keywords) == (3, ("a", "b"))
    history = store.history(first.skill_id)
    assert [each.skill.version for each in history] == [1, 2, 3]
    assert [each.skill.title for each in history] == ["Refund", "Refund twice", "Refund twice"]
    with pytest.raises(StaleSkill) as caught:
        store.update_skill(first.skill_id, SkillUpdate(title="x", expected_version=1))
    assert "is at version 3 now" in str(caught.value)


def test_an_unknown_skill_is_a_value_error_in_the_contracts_words(make: Make) -> None:
    store = make()
    calls: list[Callable[[], object]] = [
        lambda: store.update_skill("sk_123", SkillUpdate(title="x")),
        lambda: store.record_outcome("sk_123", "used"),
    ]
    for call in calls:
        with pytest.raises(ValueError) as caught:
            call()
        assert isinstance(caught.value, SkillNotFound)
        assert str(caught.value) == "Skill sk_123 not found. Use search_skills to find the correct ID."
    with pytest.raises(SkillNotFound):
        store.history("sk_123")


def test_outcomes_move_confidence_within_bounds(make: Make) -> None:
    store = make()
    kept = store.create_skill(skill("Refund"))
    moves = [("used", 0.5), ("confirmed", 0.6), ("likely", 0.63), ("likely_failure", 0.58), ("failure", 0.48)]
    for outcome, expected in moves:
        assert store.record_outcome(kept.skill_id, outcome).confidence == pytest.approx(expected)
    for _ in range(12):
        low = store.record_outcome(kept.skill_id, "failure")
    assert low.confidence == 0.0
    for _ in range(12):
        high = store.record_outcome(kept.skill_id, "confirmed")
    assert high.confidence == 1.0
    assert (high.times_used, high.times_confirmed, high.version) == (1, 13, 1)


def test_outcomes_are_counted_by_version(make: Make) -> None:
    store = make()
    kept = store.create_skill(skill("Refund", times_confirmed=1))
    store.record_outcome(kept.skill_id, "used")
    store.update_skill(kept.skill_id, SkillUpdate(title="Refunds", outcome="likely_failure"))
    for outcome in ("used", "confirmed", "used"):
        store.record_outcome(kept.skill_id, outcome)
    first, second = make().history(kept.skill_id)
    assert first.outcomes == {"confirmed": 1, "used": 1, "likely_failure": 1}
    assert second.outcomes == {"used": 2, "confirmed": 1}


def test_a_skill_is_restored_with_its_versions_and_outcomes(make: Make) -> None:
    store = make()
    other = store.create_skill(skill("Restart the router", 0.0, 1.0))
    kept = store.create_skill(skill("Refund", 1.0, 0.0, product_area="billing"))
    store.record_outcome(kept.skill_id, "failure")
    newest = store.update_skill(kept.skill_id, SkillUpdate(problem="charged twice", product_area="payments"))
    history = store.history(kept.skill_id)
    for title in ("x", "y", "z"):
        store.update_skill(kept.skill_id, SkillUpdate(title=title, outcome="confirmed"))
    store.restore(newest, history)
    store.restore(newest, history)
    assert make().get_skill(kept.skill_id) == newest
    assert make().history(kept.skill_id) == history
    assert store.hybrid_search([], "charged twice")[0]["skill"] == newest
    assert store.check_duplicate([1.0, 0.0]) == newest
    assert store.update_skill(kept.skill_id, SkillUpdate(title="x")).version == 3
    missing = replace(newest, skill_id=str(uuid.uuid4()))
    store.restore(missing, [replace(each, skill=replace(each.skill, skill_id=missing.skill_id)) for each in history])
    assert store.history(missing.skill_id)[0].outcomes == {"failure": 1}
    assert store.get_skill(other.skill_id) == other


def test_a_skill_that_is_updated_while_it_is_restored_has_one_history(make: Make) -> None:
    stores = [make() for _ in range(4)]
    kept = stores[0].create_skill(skill("Refund", 1.0))
    history = stores[0].history(kept.skill_id)

    def change(number: int) -> None:
        if number % 5:
            stores[number % 4].update_skill(kept.skill_id, SkillUpdate(title=f"t{number}", outcome="likely"))
        else:
            stores[number % 4].restore(kept, history)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, range(30)))
    newest = stores[0].get_skill(kept.skill_id)
    found = stores[0].history(kept.skill_id)
    assert [each.skill.version for each in found] == list(range(1, newest.version + 1))
    assert found[-1].skill.title == newest.title
    assert sum(sum(each.outcomes.values()) for each in found) == newest.version - 1


def test_any_text_is_kept_and_found(make: Make) -> None:
    store = make()
    for title in ("返金する", "Überweisung prüfen", 'a "quoted" \\ AND OR NOT (x) [y] {z}^2~ * ? : /', "\U0001f642 x"):
        kept = store.create_skill(skill(title, resolution_md=f"# {title}\n\ttab\r\n\x00nul"))
        assert store.get_skill(kept.skill_id) == kept
        assert kept in [each["skill"] for each in store.hybrid_search([], title)]
    lone = store.create_skill(skill("lone \ud83d half"))
    assert store.get_skill(lone.skill_id).title == "lone ? half"
    assert store.hybrid_search([], "\ud83d half")[0]["skill"].skill_id == lone.skill_id
    for unknown in ("\ud83d", "x" * 100_000, "a\x00b", ""):
        assert store.get_skill(unknown) is None
        with pytest.raises(SkillNotFound):
            store.update_skill(unknown, SkillUpdate(title="x"))
        with pytest.raises(SkillNotFound):
            store.history(unknown)
    wide = store.create_skill(skill("Wide", product_area="x" * 100_000))
    assert store.get_skill(wide.skill_id) == wide
    long = " ".join(f"word{number}" for number in range(5000))
    assert lone.skill_id in [each["skill"].skill_id for each in store.hybrid_search([], f"lone half {long}")]


def test_vectors_of_another_embedder_are_replaced_together(make: Make) -> None:
    store, other = make(), make()
    kept = store.create_skill(skill("Refund", 1.0, 0.0))
    assert other.check_duplicate([1.0, 0.0]) is not None
    model = EmbedderIdentity("model", "2", 3)
    store.replace_embeddings(model, {kept.skill_id: [0.0, 0.0, 1.0]})
    assert other.embedded_by() == model
    assert other.check_duplicate([0.0, 0.0, 1.0]) is not None
    assert other.check_duplicate([1.0, 0.0]) is None
    assert other.get_skill(kept.skill_id).version == 1


def test_parallel_updates_get_consecutive_versions(make: Make) -> None:
    stores = [make() for _ in range(4)]
    kept = stores[0].create_skill(skill("Refund"))

    def update(number: int) -> int:
        version: int = stores[number % 4].update_skill(kept.skill_id, SkillUpdate(title=f"t{number}")).version
        return version

    with ThreadPoolExecutor(10) as pool:
        versions = sorted(pool.map(update, range(20)))
    assert versions == list(range(2, 22))
    titles = {each.skill.title for each in stores[1].history(kept.skill_id)}
    assert titles == {"Refund", *(f"t{number}" for number in range(20))}


def _update_many(folder: str, skill_id: str, name: str) -> None:
    store = LocalStore(Path(folder))
    for number in range(10):
        RecordPlaybooks(store).update_skill(skill_id, SkillUpdate(title=f"{name}{number}"))
    store.close()


def test_several_processes_share_a_library(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    store = LocalStore(folder)
    playbooks = RecordPlaybooks(store)
    kept = playbooks.create_skill(skill("Refund"))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_update_many, args=(str(folder), kept.skill_id, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    newest = playbooks.get_skill(kept.skill_id)
    assert newest is not None and newest.version == 21
    assert len(playbooks.history(kept.skill_id)) == 21
    assert playbooks.hybrid_search([], newest.title)[0]["skill"] == newest
    store.close()


def test_playbooks_are_found_by_nobody_who_does_not_ask_for_them(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "library")
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    store.apply(batch(write("d1", ["alpha refund"])))
    kept = RecordPlaybooks(store).create_skill(skill("Refund", *vector("alpha refund").tolist()))
    assert [one.name for one in store.collections()] == ["code"]
    assert store.collection(":playbooks") is None
    assert store.document(kept.skill_id) is None and store.document_ids(kept.skill_id[:8]) == []
    assert store.count_documents("") == len(store.documents("", 10, 0)) == store.stats().documents == 1
    assert (store.stats().chunks, store.stats().embeddings, store.stats().collections) == (1, 1, 1)
    assert "playbook" not in store.values("kind")
    found = store.chunks([*store.view().lexical(["refund"], 9).ids, *store.view().nearest(vector("x"), 9).ids])
    assert [one.document.id for one in found.values()] == ["d1"]
    assert store.view(Filters(paths=("*",))).lexical(["refund"], 9).ids == store.view().lexical(["refund"], 9).ids
    store.close()


def test_what_no_search_sees_is_no_change_of_the_library(tmp_path: Path) -> None:
    local, other = LocalStore(tmp_path / "library"), LocalStore(tmp_path / "library")
    store = RecordPlaybooks(local)
    kept = store.create_skill(skill("Refund"))
    before = other.sequence()
    assert store.record_outcome(kept.skill_id, "used").times_used == 1
    assert other.sequence() == before  # pages that were begun go on
    store.update_skill(kept.skill_id, SkillUpdate(title="Refunds"))
    assert other.sequence() > before
    other.close()
    local.close()
