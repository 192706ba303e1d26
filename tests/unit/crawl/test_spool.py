"""Bodies that were written down are there after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk.crawl.known import Body, Entry, digest_of
from refdesk.crawl.spool import Spool
from refdesk.crawl.state import CrawlState

ROOT = "https://e.org/"


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "bodies")
    places = [spool.append({"url": name}, name.encode() * 1000) for name in ("a", "b", "ö")]
    assert [spool.read(at, 1000) for at in places[:2]] == [b"a" * 1000, b"b" * 1000]
    assert spool.read(places[2], 9_999_999) is None
    spool.close()
    again = Spool(tmp_path / "bodies")
    assert [(note["url"], at) for note, at, _ in again.notes(0)] == list(zip(("a", "b", "ö"), places, strict=True))
    assert [note["url"] for note, _, _ in again.notes(places[0] + 1000)] == ["b", "ö"]
    again.restart()
    assert again.read(again.append({}, b"new"), 3) == b"new"
    again.remove()
    assert not (tmp_path / "bodies").exists()


@pytest.mark.parametrize("cut", [1, 900, 1010, 1020])
def test_a_torn_end_is_cut_off(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "bodies"
    spool = Spool(file)
    spool.append({"url": "a"}, b"a" * 1000)
    whole = spool.size
    spool.append({"url": "b"}, b"b" * 1000)
    spool.close()
    file.write_bytes(file.read_bytes()[:-cut])
    again = Spool(file)
    assert [note["url"] for note, _, _ in again.notes(0)] == ["a"]
    assert again.size == whole == file.stat().st_size
    at = again.append({"url": "c"}, b"c")
    assert again.read(at, 1) == b"c"
    again.close()


def test_an_answer_is_not_lost_when_nothing_else_was_written(tmp_path: Path) -> None:
    """Killed right after two answers came: one page was known to the record, the other only found meanwhile."""
    before = CrawlState(tmp_path / "crawl.db", "01ABC")
    before.begin(ROOT)
    before.add([Entry(ROOT + "a", 1)])
    before.flush()
    for name, depth in (("a", 1), ("b", 2)):
        body = Body(ROOT + name, "", "", name.encode() * 10, "text/html", "utf-8", "")
        before.save(body, "answered", {"etag": name}, Entry(body.url, depth))
    after = CrawlState(tmp_path / "crawl.db", "01ABC")
    assert after.begin(ROOT) is True
    found = {entry.url: (entry.depth, body.data, body.hash, headers) for entry, body, headers in after.answered()}
    assert found == {
        ROOT + "a": (1, b"a" * 10, digest_of(b"a" * 10), {"etag": "a"}),
        ROOT + "b": (2, b"b" * 10, digest_of(b"b" * 10), {"etag": "b"}),
    }
    assert after.queued() == []
    after.finish()
    assert not list(tmp_path.glob("*.bodies"))
    after.close()
    before.close()


def test_a_body_that_a_power_cut_took_is_asked_for_again(tmp_path: Path) -> None:
    state = CrawlState(tmp_path / "crawl.db", "01ABC")
    state.begin(ROOT)
    state.add([Entry(ROOT + "a", 1)])
    state.hold(Body(ROOT + "a", "", "", b"a" * 10, "text/html", "utf-8", ""), "fetched", {})
    [file] = tmp_path.glob("*.bodies")
    file.write_bytes(b"")
    assert state.bodies("fetched", 5) == []
    assert [one.url for one in state.queued()] == [ROOT + "a"]
    state.close()


def test_the_file_begins_anew_when_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refdesk.crawl.state._RESTART_BYTES", 3000)
    state = CrawlState(tmp_path / "crawl.db", "01ABC")
    state.begin(ROOT)
    [file] = [tmp_path / "crawl-01ABC.bodies"]
    for number in range(9):
        url = f"{ROOT}{number}"
        state.add([Entry(url, 1)])
        state.hold(Body(url, "", "", b"x" * 1000, "text/html", "utf-8", ""), "fetched", {})
        if number % 2:
            state.release([(f"{ROOT}{number - 1}", "stored", ""), (url, "stored", "")])
    assert file.stat().st_size < 3000
    assert [one.url for one in state.bodies("fetched", 5)] == [f"{ROOT}8"]
    state.close()
