"""The read path over a real library."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from refdesk.desk.desk import Desk
from refdesk.model import Filters, Query
from tests.conftest import Tree

CODE = {
    "src/auth.py": '''"""Logging in and out."""


def handle_login(user, password):
    """Checks the password and opens a session for the user."""
    session = open_session(user)
    return session


def open_session(user):
    """Starts a session that ends after an hour without a request."""
    return Session(user, timeout=3600)
''',
    "src/retry.py": '''def backoff(attempt):
    """Waits twice as long after each failed attempt, with jitter."""
    return min(60, 2**attempt)


def call_with_retries(function):
    for attempt in range(5):
        try:
            return function()
        except IOError:
            sleep(backoff(attempt))
''',
    "src_utils/login_form.py": "def render_form():\n    return 'login form: handle_login posts here'\n",
    "tests/test_auth.py": "def test_handle_login():\n    assert handle_login('a', 'b')\n",
    "docs/guide.md": "# Guide\n\n## Logging in\n\nCall handleLogin with name and a password.\n\n## 検索\n\n全文検索\n",
    "main.rs": 'fn main() {\n    println!("Hello");\n}\n\nfn main_loop() {\n    loop {}\n}\n',
}


@pytest.fixture
def library(desk: Desk, tree: Tree) -> Desk:
    desk.index(tree(CODE), "code", name="code")
    return desk


def paths(desk: Desk, text: str, **more: object) -> list[str]:
    return [hit.stored.document.path for hit in desk.search(Query(text=text, **more)).hits]  # type: ignore[arg-type]


@pytest.mark.parametrize("spelling", ["handle_login", "handleLogin", "HandleLogin", "handle_login()"])
def test_a_symbol_in_any_spelling_finds_its_definition_first(library: Desk, spelling: str) -> None:
    hits = library.search(Query(text=spelling)).hits
    assert hits[0].stored.chunk.symbols == ("handle_login",)
    assert hits[0].stored.chunk.end_line == 7


def test_words_find_what_they_mean(library: Desk) -> None:
    assert paths(library, "wait longer after every failure")[0] == "src/retry.py"


def test_a_path_finds_its_file(library: Desk) -> None:
    assert paths(library, "src/retry.py")[0] == "src/retry.py"


def test_exact_keeps_punctuation(library: Desk) -> None:
    assert paths(library, "fn main()", exact=True, alpha=0.0) == ["main.rs"]
    assert paths(library, "{}", exact=True, alpha=0.0) == ["main.rs"]
    assert paths(library, "fn main ( )", exact=True, alpha=0.0) == []


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, None])
def test_a_quoted_phrase_comes_first_whatever_else_is_asked(library: Desk, alpha: float | None) -> None:
    asked = 'session for the user that handle_login opens "name and a password"'
    page = library.search(Query(text=asked, alpha=alpha))
    assert page.hits[0].stored.document.path == "docs/guide.md"
    assert len(page.hits) > 1
    assert not any("word for word" in note for note in page.notes)


def test_where_no_passage_holds_a_quoted_phrase_the_others_are_shown_and_it_is_said(library: Desk) -> None:
    page = library.search(Query(text='"password and a session" of the user'))
    assert page.hits[0].stored.document.path == "src/auth.py"
    assert any('"password and a session" word for word' in note for note in page.notes)


def test_quotes_in_a_long_report_are_no_phrases(library: Desk) -> None:
    report = 'After the upgrade I see "no such thing" in the log. ' * 5 + "handle_login opens a session then."
    page = library.search(Query(text=report))
    assert "src/auth.py" in [hit.stored.document.path for hit in page.hits]
    assert not any("word for word" in note for note in page.notes)


def test_japanese_is_found(library: Desk) -> None:
    assert paths(library, "検索", alpha=0.0) == ["docs/guide.md"]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (Filters(paths=("src",)), {"src/auth.py", "src/retry.py"}),
        (Filters(paths=("**/*.md",)), {"docs/guide.md"}),
        (Filters(extensions=("rs",)), {"main.rs"}),
        (Filters(languages=("rust",)), {"main.rs"}),
        (Filters(languages=("rust", "markdown")), {"main.rs", "docs/guide.md"}),
        (Filters(collections=("code",), extensions=("nope",)), set()),
    ],
)
@pytest.mark.parametrize("alpha", [0.0, None, 1.0])
def test_filters_hold_in_both_indexes(library: Desk, filters: Filters, expected: set[str], alpha: float | None) -> None:
    query = "handle login session main password hello attempt loop"
    assert set(paths(library, query, filters=filters, limit=50, alpha=alpha)) <= expected
    if alpha is None:
        assert set(paths(library, query, filters=filters, limit=50)) == expected


def test_nonsense_without_a_known_word_finds_nothing_and_it_is_said(library: Desk) -> None:
    for alpha in (0.0, None):
        page = library.search(Query(text="zzqqx flurbleon", alpha=alpha))
        assert page.hits == () and len(page.notes) == 1, page.notes


def test_scores_fall_with_rank_and_stay_within_bounds(library: Desk) -> None:
    for text in ("login", "session", "handle_login", "retry after failure"):
        scores = [hit.score for hit in library.search(Query(text=text, limit=50)).hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_pages_fit_together(library: Desk) -> None:
    whole = [hit.stored.id for hit in library.search(Query(text="login session retry main", limit=100)).hits]
    paged: list[int] = []
    offset = 0
    while True:
        page = library.search(Query(text="login session retry main", limit=2, offset=offset))
        paged += [hit.stored.id for hit in page.hits]
        if not page.more:
            break
        offset += 2
    assert paged == whole
    assert len(set(paged)) == len(paged)


def test_pages_by_file_go_on_to_the_last_file(desk: Desk, tree: Tree) -> None:
    said = "".join(f"    parcel.ship(to={n}, how='by the parcel ship')\n" for n in range(15))
    body = "".join(f"def ship_parcel_{n}(parcel):\n{said}    return {n}\n\n\n" for n in range(12))
    other = "def weigh{0}(load):\n    return {0} * len(load)  # a parcel\n"
    others = {f"other{n}.py": other.format(n) for n in range(30)}
    desk.index(tree({f"many{n}.py": body.replace("ship_", f"ship{n}_") for n in range(8)} | others), "code", name="c")
    paged: list[str] = []
    for offset in range(0, 100, 5):
        page = desk.search(Query(text="how is a parcel shipped", by="file", limit=5, offset=offset))
        paged += [hit.stored.document.path for hit in page.hits]
        if not page.more:
            break
    whole = desk.search(Query(text="how is a parcel shipped", by="file", limit=100))
    assert paged == [hit.stored.document.path for hit in whole.hits]
    assert len(set(paged)) == len(paged) > 15


def test_the_last_page_of_many_says_that_there_are_more(desk: Desk, tree: Tree) -> None:
    desk.index(tree({f"f{n}.py": f"def parcel{n}():\n    return ship({n})\n" for n in range(300)}), "code", name="many")
    first = desk.search(Query(text="ship parcel", limit=100))
    assert (len(first.hits), first.more, first.notes) == (100, True, ())
    last = desk.search(Query(text="ship parcel", limit=100, offset=200))
    assert not last.more and "Only the best" in last.notes[0]
    beyond = desk.search(Query(text="ship parcel", limit=100, offset=400))
    assert (beyond.hits, beyond.notes) == ((), last.notes)
    few = desk.search(Query(text="ship parcel", limit=100, filters=Filters(paths=("f2?.py",))))
    assert (len(few.hits), few.more, few.notes) == (10, False, ())


def test_the_same_text_in_two_collections_is_one_hit(library: Desk, tree: Tree) -> None:
    library.index(tree({}), "code", name="copy")
    hits = library.search(Query(text="handle_login", explain=True)).hits
    assert [hit.stored.chunk.title for hit in hits].count("handle_login") == 1
    assert hits[0].explanation["copies"] == 1


def test_explanations_name_what_counted(library: Desk) -> None:
    best = library.search(Query(text="handle_login", explain=True)).hits[0]
    assert {"query", "fused", "keywords", "definition"} <= set(best.explanation)
    assert not library.search(Query(text="handle_login")).hits[0].explanation


def test_tests_stand_behind_what_they_test(library: Desk) -> None:
    found = paths(library, "handle login")
    assert found.index("src/auth.py") < found.index("tests/test_auth.py")


def test_without_an_embedder_keywords_answer_and_say_so(library: Desk) -> None:
    from refdesk.search.engine import Engine

    page = Engine(library._store, None).search(Query(text="session"))
    assert page.hits
    assert page.notes == ("keywords only: no embedder is set",)


def test_every_hit_says_its_lines(library: Desk) -> None:
    sources: Mapping[str, str] = CODE
    for hit in library.search(Query(text="login session retry main password", limit=50)).hits:
        chunk = hit.stored.chunk
        lines = sources[hit.stored.document.path].split("\n")[chunk.start_line - 1 : chunk.end_line]
        assert chunk.text.strip() == "\n".join(lines).strip()
        shown = hit.snippet.split("\n")[0]
        assert sources[hit.stored.document.path].split("\n")[hit.snippet_line - 1].strip() == shown.strip()


def test_copies_do_not_shrink_pages(desk: Desk, tree: Tree) -> None:
    files = {}
    for copy in range(12):
        for number in range(30):
            body = f"def retry_{number}(wait):\n    return stop({number}, wait)\n"
            files[f"copy{copy}/m{number}.py"] = body
    desk.index(tree(files), "code", name="copies")
    page = desk.search(Query(text="retry wait stop", limit=10))
    assert (len(page.hits), page.more) == (10, True)
    assert len(desk.search(Query(text="retry wait stop", limit=100)).hits) == 30


def test_part_of_a_japanese_run_is_a_phrase(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# 検索\n\n検索エンジンの設定方法。\n"}), "docs", name="docs")
    for asked in ('"設定方法"', '"検索エンジン"', '"エンジン"'):
        assert paths(desk, asked) == ["a.md"]
    assert paths(desk, "検索エンジン", exact=True) == ["a.md"]
    for asked, held in (('"設定方法"', True), ('"方法設定"', False)):
        assert any("word for word" in note for note in desk.search(Query(text=asked)).notes) is not held


def test_places_can_be_joined_instead_of_scores(library: Desk) -> None:
    by_rank = library.search(Query(text="checks the password of a session", fusion="rank"))
    assert by_rank.hits[0].stored.document.path == "src/auth.py"


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_of_a_very_long_query_the_telling_words_are_searched_and_it_says_so(
    desk: Desk, tree: Tree, alpha: float | None
) -> None:
    usual = [f"usual{letter}{other}" for letter in "abcdefghijklmnopqrst" for other in "abcdefghij"]
    pages = {f"{number}.md": f"# Page {number}\n\n{' '.join(usual)}\n" for number in range(8)}
    desk.index(tree({**pages, "it.py": "def rotate_lease_table():\n    pass\n"}), "docs", name="docs")
    noise = " ".join(f"qwx{number}z" for number in range(20_000))
    page = desk.search(Query(text=f"{' '.join(usual)} {noise} in rotate_lease_table", alpha=alpha))
    assert [note for note in page.notes if note.startswith("only the 128 most telling words of ")]
    if alpha == 0.0:  # with vectors such a query is judged to have no answer
        assert "it.py" in [hit.stored.document.path for hit in page.hits]
    assert not desk.search(Query(text="rotate_lease_table", alpha=alpha)).notes


def test_many_quoted_phrases_are_not_all_searched_and_it_says_so(library: Desk) -> None:
    page = library.search(Query(text='"password" ' * 17))
    assert "only the first 16 of 17 quoted phrases were searched; ask for fewer at a time" in page.notes
    assert page.hits
