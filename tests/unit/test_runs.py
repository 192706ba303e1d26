"""Texts taken apart at what is in no word, and runs that are worked out once."""

from __future__ import annotations

from refdesk.text.analyse import Cache, runs


def test_runs_end_at_blanks_and_ascii_punctuation_only() -> None:
    found = [run.decode() for run in runs("do_it(now), naïve—Größe\t日本。語")]
    assert found == ["do_it", "now", "naïve—Größe", "日本。語"]


def test_a_run_is_worked_out_once_while_it_is_asked_for() -> None:
    asked: list[str] = []

    def work_out(run: bytes) -> str:
        asked.append(run.decode())
        return run.decode().upper()

    known = Cache[bytes, str](work_out, 4)
    for run in (b"a", b"b", b"a", b"c", b"a", b"d", b"a"):
        assert known[run] == run.decode().upper()
    assert asked == ["a", "b", "c", "d"]


def test_what_is_remembered_does_not_grow_without_end() -> None:
    known = Cache[str, str](str.upper, 10)
    for number in range(1000):
        assert known[f"run{number}"] == f"RUN{number}"
        assert len(known) + len(known._before) <= 10


def test_long_runs_are_not_remembered() -> None:
    known = Cache[bytes, int](len, 10)
    assert known[b"x" * 5000] == 5000
    assert not known
