"""Playbooks in a Neo4j that dies, hangs, comes late, refuses or is shared by many."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest
from neo4j import GraphDatabase

from refdesk.app import open_desk
from refdesk.errors import SettingsError, StoreAway, StoreError
from refdesk.llm.thinkers import LocalThinker
from refdesk.model import EmbedderIdentity, Query
from refdesk.settings import Settings, load
from refdesk.skills.model import SkillUpdate
from refdesk.store.neo4j import Neo4jPlaybooks
from refdesk.system.retry import arrived
from tests.contracts.conftest import Client
from tests.mcp_client.stdio import StdioClient, environment
from tests.ports.neo4j_server import PASSWORD, Neo4jServer
from tests.ports.test_skill_store import skill
from tests.unit.skills.conversations import of_kind

Refdesk = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).parents[2]
AWAY = "Database connection failed: timeout after 5s"


@pytest.fixture
def refdesk(neo4j_server: Neo4jServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refdesk:
    """Runs a command that keeps playbooks in an empty Neo4j."""
    neo4j_server.query("MATCH (n) DETACH DELETE n")
    for name, value in {**neo4j_server.environment, "REFDESK_LLM": "local"}.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)

    return run


@pytest.fixture
def playbooks(neo4j_server: Neo4jServer) -> Iterator[Neo4jPlaybooks]:
    neo4j_server.query("MATCH (n) DETACH DELETE n")
    store = Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD, "neo4j")
    yield store
    store.close()


def test_the_graph_has_versions_areas_types_and_outcomes(playbooks: Neo4jPlaybooks, neo4j_server: Neo4jServer) -> None:
    kept = playbooks.create_skill(skill("Refund", 1.0, product_area="billing", issue_type="charge"))
    playbooks.create_skill(skill("Invoice", 0.0, 1.0, product_area="billing"))
    playbooks.record_outcome(kept.skill_id, "confirmed")
    playbooks.update_skill(kept.skill_id, SkillUpdate(title="Refunds", issue_type="refund", outcome="confirmed"))
    more, fewer = "# Refunds\n- if late\n### 1. Look\n- if lost\n### 2. Pay\n", "# Refunds\n### 1. Pay\n- if late\n"
    for text in (more, fewer):
        playbooks.update_skill(kept.skill_id, SkillUpdate(resolution_md=text))
    follows = (
        "MATCH (:Playbook {title: 'Refunds'})-[:HAS_VERSION]->(n)-[how]->(o:PlaybookVersion)"
        " RETURN n.version, type(how), o.version ORDER BY n.version"
    )
    related = [[2, "REFINES", 1], [3, "REFINES", 2], [4, "REPLACES", 3]]
    assert neo4j_server.query(follows) == related
    newest = playbooks.get_skill(kept.skill_id)
    assert newest is not None
    playbooks.restore(newest, playbooks.history(kept.skill_id))
    assert neo4j_server.query(follows) == related
    areas = "MATCH (p:Playbook)-[:IN_AREA]->(a:ProductArea) RETURN a.name, count(*)"
    assert neo4j_server.query(areas) == [["billing", 2]]
    types = "MATCH (:Playbook)-[:OF_TYPE]->(t:IssueType) RETURN t.name"
    assert neo4j_server.query(types) == [["refund"]]
    outcomes = "MATCH (v:PlaybookVersion)-[had:HAD]->(o:PlaybookOutcome) RETURN v.version, o.name, had.times"
    assert neo4j_server.query(outcomes) == [[1, "confirmed", 2]]
    playbooks.record_outcome(kept.skill_id, "failure")
    (example,) = re.findall(r"^```cypher\n(.*?)^```", (ROOT / "docs/skills.md").read_text(), re.M | re.S)
    assert neo4j_server.query(example) == [["Refunds", 4, 1, None]]


def test_indexes_are_made_once_and_again_where_they_are_gone(
    playbooks: Neo4jPlaybooks, neo4j_server: Neo4jServer
) -> None:
    def indexes() -> list[list[object]]:
        return neo4j_server.query(
            "SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP' RETURN type, name ORDER BY name"
        )

    for (name,) in neo4j_server.query("SHOW CONSTRAINTS YIELD name"):
        neo4j_server.query(f"DROP CONSTRAINT `{name}`")
    for _, name in indexes():
        neo4j_server.query(f"DROP INDEX `{name}`")
    assert indexes() == []
    others = [Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:  # all at once
        assert list(pool.map(lambda store: store.list_skills(), others)) == [[]] * 6
    made = indexes()
    assert {"FULLTEXT", "VECTOR", "RANGE"} == {kind for kind, _ in made}
    kept = others[0].create_skill(skill("Refund", 1.0))
    neo4j_server.query("DROP INDEX refdesk_words")
    neo4j_server.query("DROP INDEX refdesk_vectors")
    with pytest.raises(StoreError, match="refdesk_words"):
        others[0].hybrid_search([1.0], "refund")
    assert others[0].hybrid_search([1.0], "refund")[0]["skill"] == kept
    assert indexes() == made
    for store in others:
        store.close()


def test_eight_updaters_at_once_lose_nothing(neo4j_server: Neo4jServer, playbooks: Neo4jPlaybooks) -> None:
    kept = playbooks.create_skill(skill("Refund", 1.0, product_area="billing"))
    others = [Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD) for _ in range(8)]

    def update(store: Neo4jPlaybooks) -> list[int]:
        versions = []
        for number in range(5):
            area = f"area {number}"  # all of them move between the same areas
            changed = store.update_skill(kept.skill_id, SkillUpdate(product_area=area, outcome="confirmed"))
            store.record_outcome(kept.skill_id, "used")
            versions.append(changed.version)
        store.close()
        return versions

    with ThreadPoolExecutor(8) as pool:
        versions = sorted(version for each in pool.map(update, others) for version in each)
    assert versions == list(range(2, 42))
    history = playbooks.history(kept.skill_id)
    assert [each.skill.version for each in history] == list(range(1, 42))
    newest = playbooks.get_skill(kept.skill_id)
    assert newest is not None
    assert (newest.version, newest.times_used, newest.times_confirmed) == (41, 40, 40)
    assert sum(each.outcomes.get("used", 0) for each in history) == 40
    chain = "MATCH path = (:PlaybookVersion {version: 41})-[:REFINES*]->(:PlaybookVersion {version: 1})"
    assert neo4j_server.query(f"{chain} RETURN length(path)") == [[40]]


def test_a_wrong_password_is_told_without_showing_it(neo4j_server: Neo4jServer) -> None:
    for user, password in (("neo4j", "wr0ng-password"), ("nobody", PASSWORD), ("neo4j", "")):
        store = Neo4jPlaybooks(neo4j_server.uri, user, password)
        with pytest.raises(StoreError) as caught:
            store.list_skills()
        told = f"Neo4j refused the user {user} or its password. Correct NEO4J_USER and NEO4J_PASSWORD."
        assert str(caught.value) == told
        assert caught.value.__cause__ is None and caught.value.__suppress_context__
        store.close()


def test_wrong_settings_are_told(neo4j_server: Neo4jServer) -> None:
    store = Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD, "nowhere")
    with pytest.raises(StoreError, match="Neo4j has no database nowhere"):
        store.list_skills()
    store.close()
    for uri in ("localhost:7687", "http://localhost:7474", "bolt://u:wr0ng-password@localhost"):
        store = Neo4jPlaybooks(uri, "neo4j", PASSWORD)
        with pytest.raises(SettingsError) as caught:
            store.list_skills()
        assert "NEO4J_URI is no address" in str(caught.value) and "wr0ng" not in str(caught.value)
        store.close()


def test_servers_with_different_embedders_are_told(neo4j_server: Neo4jServer, playbooks: Neo4jPlaybooks) -> None:
    kept = playbooks.create_skill(skill("Refund", 1.0, 0.0))
    playbooks.replace_embeddings(EmbedderIdentity("small", "1", 2), {kept.skill_id: [1.0, 0.0]})
    other = Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD)
    assert other.embedded_by() == EmbedderIdentity("small", "1", 2)
    other.replace_embeddings(EmbedderIdentity("large", "1", 3), {kept.skill_id: [0.0, 1.0, 0.0]})
    assert other.hybrid_search([0.0, 1.0, 0.0], "x")[0]["skill"] == kept
    for call in (
        lambda: playbooks.hybrid_search([1.0, 0.0], "refund"),
        lambda: playbooks.check_duplicate([1.0, 0.0]),
        lambda: playbooks.create_skill(skill("Other", 1.0, 0.0)),
        lambda: playbooks.update_skill(kept.skill_id, SkillUpdate(embedding=(1.0, 0.0))),
    ):
        with pytest.raises(StoreError, match="Another server embedded the playbooks by large; this one uses small"):
            call()
    other.close()


def test_a_server_killed_in_updates_leaves_nothing_half_done(neo4j_server: Neo4jServer) -> None:
    stores = [Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD) for _ in range(4)]
    kept = [stores[0].create_skill(skill(f"Refund {number}", 1.0, product_area="x")) for number in range(4)]
    promised: dict[str, int] = {}
    done = threading.Semaphore(0)

    def update(number: int) -> str:
        skill_id = kept[number].skill_id
        while True:
            title = f"t{promised.get(skill_id, 1) + 1}"
            try:
                changed = stores[number].update_skill(skill_id, SkillUpdate(title=title, outcome="likely"))
            except StoreError as error:
                return str(error)
            promised[skill_id] = changed.version
            done.release()

    late = Neo4jPlaybooks(neo4j_server.uri, "neo4j", PASSWORD)
    with ThreadPoolExecutor(4) as pool:
        updating = [pool.submit(update, number) for number in range(4)]
        for _ in range(20):
            assert done.acquire(timeout=60)
        while len(promised) < len(kept):  # one may have been retried all the time: locks of the four can cross
            assert done.acquire(timeout=60)
        neo4j_server.kill()
        assert [each.result() for each in updating] == [AWAY] * 4
        with pytest.raises(StoreAway, match=AWAY):
            late.list_skills()  # never connected before
        neo4j_server.start()
        neo4j_server.wait()
    for store, one in zip(stores, kept, strict=True):
        newest, history = store.get_skill(one.skill_id), store.history(one.skill_id)  # it recovers by itself
        assert newest is not None and newest.version >= promised.get(one.skill_id, 1)
        assert [each.skill.version for each in history] == list(range(1, newest.version + 1))
        assert history[-1].skill.title == newest.title == f"t{newest.version}"
        assert sum(each.outcomes.get("likely", 0) for each in history) == newest.version - 1
        assert newest in [each["skill"] for each in late.hybrid_search([1.0], newest.title)]
        assert late.update_skill(one.skill_id, SkillUpdate(title="on")).version == newest.version + 1
    strays = "MATCH (v:PlaybookVersion) WHERE NOT (:Playbook)-[:HAS_VERSION]->(v) RETURN count(v)"
    assert neo4j_server.query(strays) == [[0]]
    for store in (*stores, late):
        store.close()


def test_a_server_that_hangs_is_given_up_and_used_again(playbooks: Neo4jPlaybooks, neo4j_server: Neo4jServer) -> None:
    kept = playbooks.create_skill(skill("Refund", 1.0))

    def give_up(number: int) -> str:
        with pytest.raises(StoreAway) as caught:
            playbooks.list_skills()
        return str(caught.value)

    neo4j_server.signal(signal.SIGSTOP)
    try:
        started = time.monotonic()
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(give_up, range(8))) == [AWAY] * 8
        assert time.monotonic() - started < 30  # they waited beside each other, not in turn
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(playbooks.list_skills)
            time.sleep(0.5)
            playbooks.close()  # which waits for nothing
            with pytest.raises(CancelledError):
                waiting.result()
    finally:
        neo4j_server.signal(signal.SIGCONT)
    assert playbooks.get_skill(kept.skill_id) == kept


def test_the_time_that_a_call_took_before_is_not_waited_for_again(
    playbooks: Neo4jPlaybooks, neo4j_server: Neo4jServer
) -> None:
    playbooks.list_skills()
    time.sleep(5)  # so that it was not heard of just before

    def given_up_after(spent: float) -> float:
        started = time.monotonic()
        arrived.set(started - spent)
        with pytest.raises(StoreAway, match=AWAY):
            playbooks.list_skills()
        return time.monotonic() - started

    neo4j_server.signal(signal.SIGSTOP)
    try:
        late, at_once = (copy_context().run(given_up_after, spent) for spent in (4.0, 0.0))
    finally:
        neo4j_server.signal(signal.SIGCONT)
    assert late < 0.75 * at_once


def test_a_slow_server_is_waited_for(playbooks: Neo4jPlaybooks, neo4j_server: Neo4jServer) -> None:
    kept = playbooks.create_skill(skill("Refund", 1.0))
    with (
        GraphDatabase.driver(neo4j_server.uri, auth=("neo4j", PASSWORD)) as driver,
        driver.session() as session,
        session.begin_transaction() as other,
        ThreadPoolExecutor(1) as pool,
    ):
        other.run("MATCH (p:Playbook) SET p.locked_at = 0").consume()
        updating = pool.submit(playbooks.update_skill, kept.skill_id, SkillUpdate(title="Refunds"))
        time.sleep(6)  # longer than a server is waited for that does not answer
        assert not updating.done()
        other.rollback()
        assert updating.result().version == 2


def test_the_tools_are_served_and_say_when_the_database_is_away(
    refdesk: Refdesk, neo4j_server: Neo4jServer, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    first, second, third, *_ = of_kind("locked_out")
    (tmp_path / "notes/locks.md").write_text(f"# Locks\n\n{third.query}: see the handbook.\n")
    assert refdesk("index", str(tmp_path / "notes")).returncode == 0
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "serve"]
    with StdioClient(command) as raw:
        raw.initialize()
        client = Client(raw)
        assert client.json("search_skills", query=first.query)["skill"] is None
        made = client.json("create_skill", conversation=first.transcript, metadata={"product_area": "accounts"})
        assert made["created"] and not client.json("create_skill", conversation=first.transcript)["created"]
        skill_id = made["skill_id"]
        assert client.json("update_skill", skill_id=skill_id, conversation=second.transcript)["version"] == 2
        assert client.json("search_skills", query=third.query)["skill"]["skill_id"] == skill_id
        unknown = client.error("update_skill", skill_id="sk_123", conversation=second.transcript)
        assert unknown == "Skill sk_123 not found. Use search_skills to find the correct ID."
        found = client.json("rag_search", query=third.query)
        assert sorted(each["collection"] for each in found["results"]) == ["notes", "playbooks"]
        assert client.json("rag_stats")["documents"] == 1
        neo4j_server.signal(signal.SIGSTOP)
        try:
            started = time.monotonic()
            assert client.error("search_skills", query=third.query) == AWAY
            one = time.monotonic() - started
            call = {"name": "search_skills", "arguments": {"query": third.query}}
            waiting = [raw.start("tools/call", call) for _ in range(40)]  # more than it has threads: the rest queue
            told = [raw.finish(each)["result"]["content"][0]["text"] for each in waiting]
            assert told == [AWAY] * 40 and time.monotonic() - started < 2.5 * one
            assert client.error("create_skill", conversation=third.transcript) == AWAY
            assert client.error("update_skill", skill_id=skill_id, conversation=third.transcript) == AWAY
            found = client.json("rag_search", query=third.query)
            assert [each["title"] for each in found["results"]] == ["Locks"]
            assert f"playbooks were not searched: {AWAY}" in found["notices"]
        finally:
            neo4j_server.signal(signal.SIGCONT)
        assert client.json("search_skills", query=third.query)["skill"]["skill_id"] == skill_id
        found = client.json("rag_search", query=third.query)
        assert sorted(each["collection"] for each in found["results"]) == ["notes", "playbooks"]
    checked = refdesk("doctor", "--check")
    assert checked.returncode == 0 and "playbooks: ok: Neo4j answers." in checked.stdout


def test_skills_are_copied_both_ways_with_versions_and_outcomes(refdesk: Refdesk, tmp_path: Path) -> None:
    embedded = Settings(library=tmp_path / "library")
    with open_desk(embedded) as desk:
        learner, thinker = desk.learner, LocalThinker(desk.embedder)
        locked, router = of_kind("locked_out"), of_kind("router_offline")
        skill_id = learner.create(locked[0].transcript, thinker, confirmed=True).skill.skill_id
        learner.search(locked[1].query, thinker)
        learner.update(skill_id, locked[1].transcript, thinker, feedback="Ask for the user name first.")
        learner.create(router[0].transcript, thinker)
        learner.rate(skill_id, "failure")
        kept = [learner.kept(each.skill_id) for each in learner.skills()]
        hits = desk.search_everything(Query(text=locked[2].query)).hits
    assert hits and kept[0] is not None and [each.outcomes for each in kept[0][1]] != [{}, {}]

    done = refdesk("skills", "copy", "neo4j")
    assert done.returncode == 0 and "2 skills copied to neo4j, 0 unchanged." in done.stderr, done
    with open_desk(load({"library": tmp_path / "library"})) as desk:
        assert desk.settings.skills == "neo4j"
        assert [desk.learner.kept(each.skill_id) for each in desk.learner.skills()] == kept
        assert [hit.score for hit in desk.search_everything(Query(text=locked[2].query)).hits] == [
            hit.score for hit in hits
        ]
        assert desk.learner.align() == 0  # they came with vectors
    assert "0 skills copied to neo4j, 2 unchanged." in refdesk("skills", "copy", "neo4j").stderr

    assert refdesk("skills", "feedback", skill_id, "confirmed").returncode == 0
    refused = refdesk("skills", "copy", "neo4j")  # an outcome would be lost
    assert refused.returncode == 2 and f"{skill_id}  v2  differs" in refused.stdout, refused
    assert "1 skills have versions or outcomes in neo4j that embedded lacks" in refused.stderr
    assert "1 skills copied to embedded, 1 unchanged." in refdesk("skills", "copy", "embedded").stderr
    with open_desk(embedded) as desk:
        back = desk.learner.kept(skill_id)
        assert back is not None and back[0].times_confirmed == kept[0][0].times_confirmed + 1
        assert back[1][-1].outcomes == {**kept[0][1][-1].outcomes, "confirmed": 1}
        assert desk.learner.search(locked[2].query, LocalThinker(desk.embedder)).skill is not None  # a use more
    assert "1 skills copied to neo4j" in refdesk("skills", "copy", "neo4j").stderr
    assert "playbooks are in neo4j" in refdesk("backup", str(tmp_path / "backup")).stderr.lower()


def test_a_wrong_password_is_in_no_answer_and_no_log(
    refdesk: Refdesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "wr0ng-password")
    told = "Neo4j refused the user neo4j or its password. Correct NEO4J_USER and NEO4J_PASSWORD."
    monkeypatch.setenv("REFDESK_LOG_LEVEL", "debug")
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "serve"]
    with StdioClient(command) as raw:
        raw.initialize()
        assert Client(raw).error("search_skills", query="locked out") == told
    assert raw.log and "wr0ng" not in "".join(raw.log)
    listed = refdesk("skills", "list")
    assert listed.returncode == 7 and told in listed.stderr
    assert "wr0ng" not in listed.stdout + listed.stderr
    checked = refdesk("doctor", "--check")
    assert checked.returncode == 7 and f"playbooks: broken: {told}" in checked.stdout
