"""One suite for every skill store: the contract's five functions and what stands around them."""

from __future__ import annotations

import asyncio
import multiprocessing
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from refdesk.errors import LibraryBusy, LibraryTooNew, SkillNotFound, StaleSkill, StoreError
from refdesk.skills.model import Skill, SkillUpdate
from refdesk.skills.store import ConnectionFailed, ServerStore, SkillStore
from refdesk.store.skills import SqliteSkillStore

Make = Callable[[], SkillStore]


def make_sqlite(folder: Path) -> SkillStore:
    return SqliteSkillStore(folder / "skills.db")


def make_bounded(folder: Path) -> SkillStore:
    return ServerStore(SqliteSkillStore(folder / "skills.db"))


STORES: dict[str, Callable[[Path], SkillStore]] = {"sqlite": make_sqlite, "server": make_bounded}


@pytest.fixture(params=list(STORES))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Opens the store under test; every call gives another handle on the same skills."""
    opened: list[SkillStore] = []

    def open_store() -> SkillStore:
        opened.append(STORES[request.param](tmp_path))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def run(call: Any) -> Any:
    return asyncio.run(call)


def skill(title: str, *embedding: float, **more: Any) -> Skill:
    given: dict[str, Any] = {
        "skill_id": str(uuid.uuid4()), "title": title, "version": 1, "problem": f"problem with {title}",
        "resolution_md": f"# {title}\n", "conditions": ("a condition",), "keywords": ("word",), "embedding": embedding,
    }  # fmt: skip
    return Skill(**given | more)


def test_a_skill_is_kept_as_it_is(make: Make) -> None:
    store = make()
    kept = run(store.create_skill(skill("Refund", 1.0, 0.0, product_area="billing", issue_type="bug")))
    assert kept.created_at and kept.updated_at
    assert run(make().get_skill(kept.skill_id)) == kept
    assert run(store.get_skill("sk_123")) is None
    with pytest.raises(StoreError, match="exists already"):
        run(store.create_skill(kept))
    assert [each.skill_id for each in run(store.list_skills())] == [kept.skill_id]


def test_hybrid_search_by_words_and_by_vector(make: Make) -> None:
    store = make()
    refund = run(store.create_skill(skill("Refund a duplicate charge", 1.0, 0.0, 0.0)))
    router = run(store.create_skill(skill("Restart the router", 0.0, 1.0, 0.0)))
    by_words = run(store.hybrid_search([0.0, 0.0, 1.0], "routers restarting"))
    assert by_words[0]["skill"] == router
    by_vector = run(store.hybrid_search([0.9, 0.1, 0.0], "zebra"))
    assert by_vector[0]["skill"] == refund
    assert all(0.0 <= each["score"] <= 1.0 for each in by_words + by_vector)
    assert run(store.hybrid_search([], "charge"))[0]["skill"] == refund
    assert run(store.hybrid_search([], "zebra")) == []
    assert run(store.hybrid_search([1.0], 'charge" OR * NEAR(')) != []


def test_search_gives_at_most_top_k(make: Make) -> None:
    store = make()
    for number in range(8):
        run(store.create_skill(skill(f"Router {number}", 1.0, number / 10)))
    assert len(run(store.hybrid_search([1.0, 0.0], "router"))) == 5
    assert len(run(store.hybrid_search([1.0, 0.0], "router", top_k=2))) == 2


def test_full_text_covers_title_problem_resolution_and_keywords(make: Make) -> None:
    store = make()
    kept = run(store.create_skill(skill("Alpha", resolution_md="# x\nbravo", problem="charlie", keywords=("delta",))))
    for word in ("alpha", "bravo", "charlie", "delta"):
        assert run(store.hybrid_search([], word))[0]["skill"] == kept
    run(store.update_skill(kept.skill_id, SkillUpdate(problem="echo")))
    assert run(store.hybrid_search([], "charlie")) == []
    assert run(store.hybrid_search([], "echo"))[0]["skill"].version == 2


def test_a_duplicate_is_more_similar_than_the_threshold(make: Make) -> None:
    store = make()
    kept = run(store.create_skill(skill("Refund", 3.0, 4.0)))
    assert run(store.check_duplicate([0.6, 0.8])) == kept
    assert run(store.check_duplicate([0.8, 0.6])).skill_id == kept.skill_id  # cosine .96
    assert run(store.check_duplicate([1.0, 0.0])) is None
    assert run(store.check_duplicate([0.8, 0.6], threshold=0.99)) is None
    assert run(store.check_duplicate([])) is None
    assert run(store.check_duplicate([0.0, 0.0])) is None


def test_updates_are_partial_and_count_versions(make: Make) -> None:
    store = make()
    first = run(store.create_skill(skill("Refund", 1.0)))
    second = run(store.update_skill(first.skill_id, SkillUpdate(title="Refund twice", outcome="likely")))
    assert (second.version, second.title, second.problem) == (2, "Refund twice", first.problem)
    assert second.confidence == 0.53
    assert second.created_at == first.created_at
    third = run(store.update_skill(first.skill_id, SkillUpdate(keywords=("a", "b"), expected_version=2)))
    assert (third.version, third.keywords) == (3, ("a", "b"))
    history = run(store.history(first.skill_id))
    assert [each.skill.version for each in history] == [1, 2, 3]
    assert [each.skill.title for each in history] == ["Refund", "Refund twice", "Refund twice"]
    with pytest.raises(StaleSkill) as caught:
        run(store.update_skill(first.skill_id, SkillUpdate(title="x", expected_version=1)))
    assert "is at version 3 now" in str(caught.value)


def test_an_unknown_skill_is_a_value_error_in_the_contracts_words(make: Make) -> None:
    store = make()
    for call in (store.update_skill("sk_123", SkillUpdate(title="x")), store.record_outcome("sk_123", "used")):
        with pytest.raises(ValueError) as caught:
            run(call)
        assert isinstance(caught.value, SkillNotFound)
        assert str(caught.value) == "Skill sk_123 not found. Use search_skills to find the correct ID."
    with pytest.raises(SkillNotFound):
        run(store.history("sk_123"))


def test_outcomes_move_confidence_within_bounds(make: Make) -> None:
    store = make()
    kept = run(store.create_skill(skill("Refund")))
    moves = [("used", 0.51), ("confirmed", 0.61), ("likely", 0.64), ("likely_failure", 0.59), ("failure", 0.49)]
    for outcome, expected in moves:
        assert run(store.record_outcome(kept.skill_id, outcome)).confidence == pytest.approx(expected)
    for _ in range(12):
        low = run(store.record_outcome(kept.skill_id, "failure"))
    assert low.confidence == 0.0
    for _ in range(12):
        high = run(store.record_outcome(kept.skill_id, "confirmed"))
    assert high.confidence == 1.0
    assert (high.times_used, high.times_confirmed, high.version) == (1, 13, 1)


def test_vectors_of_another_embedder_are_replaced_together(make: Make) -> None:
    store, other = make(), make()
    kept = run(store.create_skill(skill("Refund", 1.0, 0.0)))
    assert run(other.check_duplicate([1.0, 0.0])) is not None
    run(store.replace_embeddings("model 2", {kept.skill_id: [0.0, 0.0, 1.0]}))
    assert run(other.embedded_by()) == "model 2"
    assert run(other.check_duplicate([0.0, 0.0, 1.0])) is not None
    assert run(other.check_duplicate([1.0, 0.0])) is None
    assert run(other.get_skill(kept.skill_id)).version == 1


def test_parallel_updates_get_consecutive_versions(make: Make) -> None:
    stores = [make() for _ in range(4)]
    kept = run(stores[0].create_skill(skill("Refund")))

    def update(number: int) -> int:
        version: int = run(stores[number % 4].update_skill(kept.skill_id, SkillUpdate(title=f"t{number}"))).version
        return version

    with ThreadPoolExecutor(10) as pool:
        versions = sorted(pool.map(update, range(20)))
    assert versions == list(range(2, 22))
    titles = {each.skill.title for each in run(stores[1].history(kept.skill_id))}
    assert titles == {"Refund", *(f"t{number}" for number in range(20))}


def _update_many(path: str, skill_id: str, name: str) -> None:
    store = SqliteSkillStore(Path(path))
    for number in range(10):
        asyncio.run(store.update_skill(skill_id, SkillUpdate(title=f"{name}{number}")))
    store.close()


def test_several_processes_share_the_file(tmp_path: Path) -> None:
    path = tmp_path / "skills.db"
    store = SqliteSkillStore(path)
    kept = run(store.create_skill(skill("Refund")))
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_update_many, args=(str(path), kept.skill_id, name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert run(store.get_skill(kept.skill_id)).version == 21
    assert len(run(store.history(kept.skill_id))) == 21
    store.close()


def test_a_writer_that_does_not_finish_is_told_of(tmp_path: Path) -> None:
    import sqlite3

    store = SqliteSkillStore(tmp_path / "skills.db", lock_timeout_s=0.2)
    run(store.create_skill(skill("Refund")))
    other = sqlite3.connect(tmp_path / "skills.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LibraryBusy, match="Another process is writing skills"):
        run(store.create_skill(skill("Other")))
    assert len(run(store.list_skills())) == 1  # readers are not blocked
    other.execute("ROLLBACK")
    other.execute("PRAGMA user_version = 99")
    other.close()
    store.close()
    with pytest.raises(LibraryTooNew):
        run(SqliteSkillStore(tmp_path / "skills.db").list_skills())


def test_a_file_that_is_not_a_store_is_named(tmp_path: Path) -> None:
    (tmp_path / "skills.db").write_bytes(b"not a database at all, but long enough" * 30)
    with pytest.raises(StoreError, match=r"skills\.db"):
        run(SqliteSkillStore(tmp_path / "skills.db").list_skills())


class HungServer:
    """A TCP server that takes connections and never answers."""

    async def __aenter__(self) -> int:
        self._hold = asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._hold.wait()
            writer.close()

        self._server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aexit__(self, *_: object) -> None:
        self._hold.set()
        self._server.close()


class Distant:
    """A store on a server: each call is one request line and one answer line."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                writer.write(name.encode() + b"\n")
                return await reader.readline()
            finally:
                writer.close()

        return call


CALLS: dict[str, tuple[Any, ...]] = {
    "hybrid_search": ([1.0], "x"),
    "create_skill": (skill("x"),),
    "get_skill": ("x",),
    "update_skill": ("x", SkillUpdate()),
    "check_duplicate": ([1.0],),
    "record_outcome": ("x", "used"),
    "list_skills": (),
    "history": ("x",),
    "embedded_by": (),
    "replace_embeddings": ("m", {}),
}


@pytest.mark.parametrize("name", list(CALLS))
def test_a_server_that_hangs_fails_in_the_contracts_words(name: str) -> None:
    async def ask() -> str:
        async with HungServer() as port:
            store = ServerStore(Distant(port), timeout_s=0.4)  # type: ignore[arg-type]
            with pytest.raises(ConnectionFailed) as caught:
                await getattr(store, name)(*CALLS[name])
            return str(caught.value)

    assert run(ask()) == "Database connection failed: timeout after 0.4s"


def test_a_dead_server_is_given_up_within_five_seconds() -> None:
    async def ask() -> None:
        async with HungServer() as port:
            with pytest.raises(ConnectionFailed) as caught:
                await ServerStore(Distant(port)).get_skill("x")  # type: ignore[arg-type]
            assert str(caught.value) == "Database connection failed: timeout after 5s"

    run(ask())


def test_a_server_that_is_not_there_says_why() -> None:
    with pytest.raises(ConnectionFailed, match=r"Database connection failed: .*9"):
        run(ServerStore(Distant(9)).get_skill("x"))  # type: ignore[arg-type]
