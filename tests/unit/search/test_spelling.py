import random
import re
from pathlib import Path

import pytest

from bench.spelling import STAYS, misspell
from refdesk.desk.desk import Desk
from refdesk.model import Filters, Page, Query
from refdesk.search.understand import understand
from tests.conftest import Tree

DOCS = Path(__file__).parents[3] / "docs"
FILES = {
    "guide/index.md": "# Indexes\n\nCreate an index concurrently, so that writers do not wait.\n",
    "guide/order.md": "# Middleware\n\nThe order of middleware decides who sees a request first.\n",
    "guide/store.md": "# Sessions\n\nSessions are stored in signed cookies.\n",
    "src/adapters.py": "class HTTPAdapter:\n    def send(self):\n        return 1\n",
    "src/merge.py": "def merge_setting(one, other):\n    return one or other\n",
    "src/cache.py": "def lru_cache(size):\n    return size\n\n\ndef get_value(key):\n    return key\n",
    "guide/start.md": "# Launch\n\nLaunch the worker with yarn, then set the color of its license.\n",
    "src/gather.py": "import asyncio\n\n\nasync def both():\n    await asyncio.gather(one(), two())\n",
}


@pytest.fixture
def mixed(desk: Desk, tree: Tree) -> Desk:
    """A library of a few pages and sources, and another collection whose words are not theirs."""
    desk.index(tree(FILES), "code", name="mixed")
    desk.index(tree({"../other/a.md": "# Concurently\n\nmidleware, sesions\n"}).parent / "other", "docs", name="other")
    return desk


def asked(desk: Desk, text: str, **options: object) -> Page:
    return desk.engine.search(Query(text=text, filters=Filters(collections=("mixed",)), **options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "meant", "path"),
    [
        ("create index concurently", "concurrently", "guide/index.md"),
        ("midleware order", "middleware", "guide/order.md"),
        ("how are sesions stored", "sessions", "guide/store.md"),
        ("asyncio gathr", "gather", "src/gather.py"),
        ("HTTPAdpter", "HTTPAdapter", "src/adapters.py"),
        ("httpadpter", "HTTPAdapter", "src/adapters.py"),
        ("merge_settings", "merge_setting", "src/merge.py"),
        ("lrucache", "lru_cache", "src/cache.py"),
        ("colour of the licence", "color and license", "guide/start.md"),
    ],
)
def test_an_unknown_word_is_searched_for_as_it_stands_there(mixed: Desk, text: str, meant: str, path: str) -> None:
    for alpha in (None, 0.0, 1.0):
        page = asked(mixed, text, alpha=alpha)
        assert page.hits[0].stored.document.path == path
        assert page.notes[0].startswith(f"searched for {meant}; nothing says ")


@pytest.mark.parametrize(
    "text",
    [
        "middleware order",
        "set_value",  # both words are known, so get_value was not meant
        "parse yaml",  # a word, though nothing here is about it
        "bake a cake",
        "why do we yawn",  # an English word that the model does not know, an edit away from yarn
        "lunch",
        "zzzqqq",
        "sha256sun",
        "0xdeadbef",
        '"index concurently"',
    ],
)
def test_what_is_known_or_unlike_any_word_stays(mixed: Desk, text: str) -> None:
    assert not any("searched for" in note for note in asked(mixed, text).notes)


def test_a_text_to_the_letter_is_not_corrected(mixed: Desk) -> None:
    assert asked(mixed, "concurently", exact=True) == asked(mixed, "concurently", exact=True, limit=5)
    assert not asked(mixed, "concurently", exact=True).hits


def test_a_word_misspelt_in_a_passage_too_finds_both(desk: Desk, tree: Tree) -> None:
    many = {f"{number}.md": f"# Mail {number}\n\nReceive the message {number}.\n" for number in range(120)}
    desk.index(tree({**many, "typo.md": "# Post\n\nRecieve letters.\n"}), "docs", name="docs")
    page = desk.engine.search(Query(text="recieve", limit=50, alpha=0.0))
    paths = {hit.stored.document.path for hit in page.hits}
    assert page.notes == ("searched for receive too",)
    assert "typo.md" in paths
    assert len(paths) > 1


def test_words_spelt_alike_are_named_as_they_stand_in_what_is_searched(desk: Desk, tree: Tree) -> None:
    desk.index(tree({"a.md": "# Pagination\n\nPass the cursor to read the next page.\n"}), "docs", name="docs")
    other = tree({"other/paginatoin.py": "paginatio = 1\ncursus = paginatoin\n"}) / "other"
    desk.index(other, "code", name="other")

    def near(text: str) -> list[str]:
        return desk.engine.nearest_words(Query(text=text, filters=Filters(collections=("docs",))))

    assert near("paginatoin") == ["pagination"]
    assert near("curso") == ["cursor"]
    assert near("cursor") == []


def test_answers_stay_when_a_word_of_the_question_is_misspelt(desk: Desk) -> None:
    desk.index(DOCS, "docs", name="docs")
    headings = [
        line for file in sorted(DOCS.glob("*.md")) for line in re.findall(r"^##+ (.+)$", file.read_text(), re.M)
    ]
    pick = random.Random(1)
    stayed = []
    for heading in dict.fromkeys(headings):
        page = desk.engine.search(Query(text=heading))
        misspelt = misspell(heading, 1, desk, pick) if understand(heading).terms and page.hits else None
        if misspelt is not None:
            best, after = page.hits[0].stored.id, desk.engine.search(Query(text=misspelt, limit=1 + STAYS)).hits
            stayed.append(any(hit.stored.id == best for hit in after))
    assert len(stayed) >= 30
    assert sum(stayed) >= 0.9 * len(stayed)


def test_a_word_typed_as_two_is_found(desk: Desk, tree: Tree) -> None:
    desk.index(
        tree(
            {
                "keep.md": "# Keeping\n\nA backup is one file that holds everything.\n",
                "where.md": "# The library\n\nThe library is on the second floor; the way back is down the stairs.\n",
                "time.md": "# Limits\n\nThe timeout is in seconds; do not forget the unit.\n",
            }
        ),
        "docs",
        name="docs",
    )
    for text, path in (("how do I back up", "keep.md"), ("on the second time out", "time.md")):
        assert desk.search(Query(text=text, alpha=0.0)).hits[0].stored.document.path == path
