"""What is known of pages outlives the process."""

from __future__ import annotations

import itertools
import random
import sqlite3
import string
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from refdesk.crawl.model import Scope, crawl_options
from refdesk.crawl.site import Frontier, Robots
from refdesk.crawl.state import Body, CrawlState, Entry, digest_of
from refdesk.errors import LibraryBusy, LibraryTooNew
from refdesk.library import LONGEST_URL
from refdesk.store.record.crawls import Crawls
from refdesk.store.record.schema import Connection, Cursor
from refdesk.store.shared.database import TooSlow
from refdesk.store.shared.store import SharedStore
from tests.scale import servers

ROOT = "https://e.org/"
Open = Callable[[], CrawlState]
_number = itertools.count()


@pytest.fixture(params=["file", "shared"])
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    states: list[CrawlState] = []
    with ExitStack() as stack:
        crawls: Path | Crawls = tmp_path / "crawl.db"
        if request.param == "shared":
            address = servers.address(*servers.for_tests(), schema=f"crawl{next(_number)}")
            crawls = stack.enter_context(closing(SharedStore(address))).crawls

        def make() -> CrawlState:
            states.append(CrawlState(crawls, "01ABC"))
            return states[-1]

        yield make
        for state in states:
            state.close()


def frontier(state: CrawlState, robots: str = "", **options: int) -> Frontier:
    return Frontier(state, Scope.of(crawl_options(ROOT, **options)), Robots(robots), clock=lambda: 0.0)


def names(found: Frontier) -> list[str]:
    got = []
    while entry := found.next():
        got.append(entry.url.removeprefix(ROOT))
    return got


def body(url: str, data: bytes = b"x", target: str = "") -> Body:
    return Body(ROOT + url, target, digest_of(data), data, "text/html", "", "")


def test_near_pages_come_first_and_late_ones_last(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    found = frontier(state)
    found.add([ROOT + "deep"], 3)
    found.add([ROOT + "text.md"], 1, late=1)
    found.add([ROOT + "b", ROOT + "a", ROOT + "b", "https://other.org/x", ROOT + "p.png"], 1)
    assert names(found) == ["b", "a", "deep", "text.md"]
    found.add([ROOT + "late.md"], 1, late=1)
    assert found.next(early_under_way=True) is None
    assert names(found) == ["late.md"]


def test_a_round_goes_on_where_it_stopped(opened: Open) -> None:
    state = opened()
    assert state.begin_round(ROOT) is False
    state.save_robots("User-agent: *")
    state.save_lists("", "")
    frontier(state).add([ROOT + name for name in ("a", "b", "c", "d")], 1)
    state.save_answer(body("a"), "fetched", {"etag": '"tag"'})
    state.set_outcome(ROOT + "b", "failed", status=500, reason="status 500")
    state.finish_pages([(ROOT + "c", "stored", "")])

    again = opened()
    assert again.begin_round(ROOT) is True
    assert again.has_lists and again.robots == "User-agent: *"
    assert sorted(names(frontier(again))) == ["b", "d"]
    assert [one.url for one in again.bodies("fetched", 10)] == [ROOT + "a"]
    again.finish_round()

    fresh = opened()
    assert fresh.begin_round(ROOT) is False
    assert not fresh.has_lists
    assert sorted(names(frontier(fresh))) == ["a", "b", "c", "d"]
    assert fresh.bodies("fetched", 10) == []
    assert {one.url: one.etag for one in fresh.queued()}[ROOT + "a"] == '"tag"'


def test_a_round_has_begun_or_has_not(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "a"], 1)
    state.finish_pages([(ROOT + "a", "stored", "")])
    state.finish_round()
    begun = state._transaction

    @contextmanager
    def failing() -> Iterator[Connection]:
        with begun() as db:
            yield Failing(db)

    monkeypatch.setattr(state, "_transaction", failing)
    with pytest.raises(TooSlow):
        state.begin_round(ROOT)
    monkeypatch.undo()
    assert state.begin_round(ROOT) is False
    assert state.states() == {ROOT + "a": "queued"}


class Failing:
    """A connection on which whatever changes all pages of a site takes too long."""

    def __init__(self, db: Connection) -> None:
        self._db = db

    def _refuse(self, sql: str) -> None:
        if sql.startswith("UPDATE pages"):
            raise TooSlow("Postgres took too long to answer.")

    def execute(self, sql: str, parameters: Any = (), /) -> Cursor:
        self._refuse(sql)
        return self._db.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Cursor:
        self._refuse(sql)
        return self._db.executemany(sql, parameters)


def test_duplicates_come_after_others_in_the_next_round(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "copy", ROOT + "page"], 1)
    state.finish_pages([(ROOT + "copy", "duplicate", ""), (ROOT + "page", "stored", "")])
    state.finish_round()
    state.begin_round(ROOT)
    assert names(frontier(state)) == ["page", "copy"]


def test_an_answer_that_was_not_read_is_not_lost(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "a"], 3)
    headers = {"x-robots-tag": "noindex", "server": "x"}
    state.save_answer(body("a", b"<p>x</p>"), "answered", headers)
    again = opened()
    assert again.begin_round(ROOT) is True
    assert names(frontier(again)) == []
    [(entry, held, headers)] = again.answered()
    assert (entry.url, entry.depth, held.data, headers) == (ROOT + "a", 3, b"<p>x</p>", {"x-robots-tag": "noindex"})
    again.set_state(ROOT + "a", "fetched")
    assert again.answered() == [] and len(again.bodies("fetched", 5)) == 1


def test_a_page_with_a_very_long_link_is_kept_and_the_link_is_not_followed(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    long = "".join(random.Random(1).choices(string.ascii_letters, k=4_000))  # which does not compress
    near = long[: LONGEST_URL - len(ROOT)]
    found = frontier(state)
    found.add([ROOT + "a", f"{ROOT}login?return={long}", ROOT + near], 1)
    assert names(found) == ["a", near] and state.counts() == {"queued": 2}
    state.add([Entry(ROOT + long, 1), Entry(ROOT + "b", 1)])
    assert state.counts() == {"queued": 3}


def test_rules_may_change_between_runs(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "a", ROOT + "private/b", ROOT + "far"], 2)
    state.finish_round()
    state.begin_round(ROOT)
    assert names(frontier(state, "User-agent: *\nDisallow: /private/", depth=2)) == ["a", "far"]
    assert state.states()[ROOT + "private/b"] == "skipped"
    state.finish_round()
    state.begin_round(ROOT)
    assert names(frontier(state, depth=1)) == []
    assert state.counts() == {"left": 3}


def test_a_shorter_way_brings_a_page_back(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    found = frontier(state, depth=2)
    found.add([ROOT + "a"], 3)
    assert names(found) == []
    found.add([ROOT + "a"], 1)
    assert [(one.url, one.depth) for one in state.queued()] == [(ROOT + "a", 1)]
    assert names(found) == ["a"]


def test_failed_pages_wait(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    found = frontier(state)
    found.retry(Entry(ROOT + "a", 1), 5.0)
    assert found.next() is None and found.wait_s() == 5.0 and len(found) == 1
    found.add([ROOT + "text.md"], 1, late=1)  # it may repeat the one that failed
    assert found.next() is None and len(found) == 2


def test_collections_that_are_no_more_are_forgotten(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "a"], 1)
    state.forget_all_but(lambda: ["other"])
    assert state.states() == {}


def test_a_crawl_that_begins_meanwhile_is_not_forgotten(opened: Open) -> None:
    state = opened()

    def collections() -> list[str]:
        state.begin_round(ROOT)  # as another process does, of a collection that it made after this was asked
        frontier(state).add([ROOT + "a"], 1)
        return ["other"]

    state.forget_all_but(collections)
    assert state.states() == {ROOT + "a": "queued"}


def test_rules_are_read_again_after_a_day(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    state = opened()
    state.begin_round(ROOT)
    state.save_robots("User-agent: *")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 23 * 3600)
    assert state.robots == "User-agent: *"
    monkeypatch.setattr(time, "time", lambda: now + 25 * 3600)
    assert state.robots is None


def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    CrawlState(tmp_path / "crawl.db", "01ABC").close()
    with closing(sqlite3.connect(tmp_path / "crawl.db")) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LibraryTooNew, match="written by a newer RefDesk"):
        CrawlState(tmp_path / "crawl.db", "01ABC")


def test_a_file_of_a_format_that_no_release_had_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "crawl.db"
    state = CrawlState(file, "01ABC")
    state.begin_round(ROOT)
    frontier(state).add([ROOT + "a"], 1)
    state.close()
    with closing(sqlite3.connect(file)) as db:
        db.executescript("ALTER TABLE pages ADD COLUMN body BLOB; DROP TABLE bodies; PRAGMA user_version = 1")
    again = CrawlState(file, "01ABC")
    assert again.begin_round(ROOT) is False
    frontier(again).add([ROOT + "b"], 1)
    again.save_answer(body("b"), "fetched", {})
    assert [one.url for one in again.bodies("fetched", 5)] == [ROOT + "b"]
    again.close()


def test_a_finished_crawl_leaves_a_small_file(tmp_path: Path) -> None:
    state = CrawlState(tmp_path / "crawl.db", "01ABC")
    state.begin_round(ROOT)
    frontier(state).add([ROOT + str(number) for number in range(40)], 1)
    for number in range(40):
        state.save_answer(replace(body(str(number)), data=bytes(100_000)), "fetched", {})
    state.finish_pages((ROOT + str(number), "stored", "") for number in range(40))
    state.finish_round()
    assert (tmp_path / "crawl.db").stat().st_size < 200_000
    state.close()


def test_a_collection_has_one_crawl_at_a_time(opened: Open) -> None:
    one, other = opened(), opened()
    with one.lock("site"), other.lock("another"), pytest.raises(LibraryBusy, match="Another crawl of site"):
        other.lock("site").__enter__()
    with other.lock("site"):
        pass


def test_bodies_come_by_size(opened: Open) -> None:
    state = opened()
    state.begin_round(ROOT)
    frontier(state).add([ROOT + str(number) for number in range(4)], 1)
    for number in range(4):
        state.save_answer(body(str(number), b"x" * 10), "fetched", {})
    assert [len(state.bodies("fetched", 10, most)) for most in (0, 9, 10, 25, 40)] == [1, 1, 1, 2, 4]
    assert len(state.bodies("fetched", 3)) == 3
