import re

from hypothesis import given
from hypothesis import strategies as st

from refdesk.text import analyse


def test_a_name_in_any_spelling_has_the_same_terms() -> None:
    spellings = [analyse.terms(name) for name in ("handleLogin", "handle_login", "HandleLogin", "HANDLE_LOGIN")]
    assert all(one == spellings[0] for one in spellings)
    assert spellings[0] == ["handlelogin", "handl", "login"]


def test_digits_acronyms_and_single_letters_are_parts() -> None:
    assert analyse.parts("parseHTTPResponse2") == ["parse", "http", "response", "2"]
    assert "utf8" in analyse.terms("utf8")
    assert "e0502" in analyse.terms("error[E0502]")


def test_accents_are_folded() -> None:
    assert analyse.terms("naïve café") == analyse.terms("naive cafe")


def test_chinese_and_japanese_are_found_by_character_and_pair() -> None:
    assert {"検", "検索"} <= set(analyse.terms("全文検索エンジン"))


def test_other_scripts_are_words() -> None:
    assert analyse.terms("Привет, мир") == ["привет", "мир"]


def test_inflections_meet() -> None:
    assert analyse.terms("retries") == analyse.terms("retry")


@given(st.text())
def test_any_text_has_terms_without_blanks_of_bounded_length(text: str) -> None:
    for term in analyse.terms(text):
        assert term
        assert not any(character.isspace() for character in term)
        assert len(term) <= 64


@given(st.text(), st.text())
def test_terms_of_two_lines_are_those_of_each(one: str, other: str) -> None:
    assert analyse.terms(f"{one}\n{other}") == analyse.terms(one) + analyse.terms(other)


@given(st.text(max_size=200) | st.text("aB1_.<=\u0300\u0338\u3099か 한ß\u00a0\x1c\ud800", max_size=30))
def test_a_text_taken_apart_at_blanks_has_the_terms_of_the_whole(text: str) -> None:
    whole = [term for word in re.findall(analyse._WORD, analyse.fold(text)) for term in analyse._terms_of(word).split()]
    assert analyse.terms(text) == whole


def test_paths_of_tests_are_told_from_others() -> None:
    tests = (
        "caddytest/integration/adapt/one.txt",
        "adapt/two.caddyfiletest",
        "Zend/tests.phpt",
        "ui/__snapshots__/a.snap",
    )
    others = (
        "modules/attestation/latest.go",
        "src/contest.py",
        "lib/unittest/case.py",
        "docs/integration/aws.md",
        "a.latest",
    )
    assert [path for path in (*tests, *others) if analyse.is_of_tests(path)] == [*tests]
