"""Both indexes at the same time: an error of either is the search's own."""

from __future__ import annotations

from typing import Any, cast

import pytest

from refdesk.desk.desk import Desk
from refdesk.errors import StoreError
from refdesk.model import Filters, Query
from refdesk.ports import Store
from refdesk.search.engine import Engine
from refdesk.search.lookup import constant_parts, without_form
from tests.conftest import Tree


class Broken:
    """A store in whose views one way of searching fails."""

    def __init__(self, of: Any, name: str) -> None:
        self._of = of
        self._name = name

    def view(self, filters: Filters) -> Any:
        found = self._of.view(filters)
        setattr(found, self._name, self._fail)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def _fail(self, *_: object, **__: object) -> None:
        raise StoreError(f"The {self._name} index is gone.", "Run `refdesk doctor`.")


@pytest.mark.parametrize("name", ["lexical", "nearest"])
def test_an_index_that_fails_fails_the_search_and_not_the_next_one(desk: Desk, tree: Tree, name: str) -> None:
    desk.index(tree({"a.md": "# Pages\n\nFlush the pages of the store.\n"}), "docs", name="docs")
    engine = Engine(cast(Store, Broken(desk._store, name)), desk.embedder)
    for _ in range(6):  # more than searches are compared beside
        with pytest.raises(StoreError, match=name):
            engine.search(Query(text="flush the pages"))
    assert desk.search(Query(text="flush the pages")).hits


def test_passages_near_the_question_come_in_beside_those_that_share_a_word(desk: Desk, tree: Tree) -> None:
    drop = "def drop_duplicates(messages, last):\n    return [message for message in messages if message != last]\n"
    files = {"lines.py": "def count_repeated_lines(file):\n    return Counter(file.lines).total()\n", "drop.py": drop}
    desk.index(tree(files), "code", name="code")
    query = Query(text="how are repeated identical lines suppressed", by="file")
    assert {hit.stored.document.path for hit in desk.search(query).hits} == set(files)


_FORM = """{title}

<!-- Thank you for
your report! -->
- [x] I searched the existing issues for this environment

**Describe the bug**
{story}
```py
# Versions
refund(order)
```

### Environment
- OS: Ubuntu 22.04, shell bash, terminal and editor versions as installed by the package manager

### Expected behavior
{wish}
"""


def test_a_report_is_read_without_the_form_that_it_fills_in() -> None:
    text = without_form(_FORM.format(title="Orders paid twice", story="Each refund is sent twice.", wish="Once."))
    lines = ["Orders paid twice", "Each refund is sent twice.", "```py", "# Versions", "refund(order)", "```", "Once."]
    assert [line for line in text.splitlines() if line] == lines
    assert (
        without_form("## Version\n" + 50 * "The refund is sent twice. ")
        == "## Version\n" + 50 * "The refund is sent twice. "
    )


def test_the_form_of_a_report_does_not_decide_what_is_found(desk: Desk, tree: Tree) -> None:
    about = "Reads the environment: the OS, the shell, the terminal, the editor and versions of the package manager."
    sent = "Sends the money of a paid order back to the customer."
    files = {
        "shop/refund.py": f'def refund(order):\n    """{sent}"""\n    send(order)\n',
        "shop/environment.py": f'def environment():\n    """{about}"""\n    return os, shell, terminal, editor\n',
    }
    desk.index(tree(files), "code", name="shop")
    told = _FORM.format(title="A customer gets it twice", story="It is sent back two times.", wish="Sent back once.")
    told = told.replace("refund(order)", "pay(order)")
    assert desk.search(Query(text=told, by="file", prefer="code")).hits[0].stored.document.path == "shop/refund.py"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Target class [App\\Foo] does not exist", ["Target class", "does not exist"]),
        ("The payload is invalid.", ["The payload is invalid"]),
        ("RuntimeError: Working outside of application context.", ["Working outside of application context"]),
        ("No results for model 'Order' 123", ["No results for model"]),
        ("how do I upload a file", []),
        ("where is foo_bar handled when a file is missing?", []),
        ("RoutesBuilder group", []),
    ],
)
def test_an_error_message_has_parts_that_stay_the_same(text: str, parts: list[str]) -> None:
    assert constant_parts(text) == parts


def test_who_says_an_error_message_word_for_word_comes_first(desk: Desk, tree: Tree) -> None:
    named = "\n\n".join(f"def target_class_{n}(exist):\n    return exist(target, class_{n})\n" for n in range(30))
    files = {f"target/class_exist_{n}.py": named for n in range(5)}
    files["box.py"] = (
        "def build(concrete):\n    found = reflect(concrete)\n    if found is None:\n"
        '        raise LookupError(f"Target class [{concrete}] does not exist.")\n    return found()\n'
    )
    desk.index(tree(files), "code", name="code")
    page = desk.search(Query(text="Target class [app.models.Order] does not exist", by="file"))
    assert page.hits[0].stored.document.path == "box.py"
    assert not page.weak


@pytest.mark.parametrize("asked", ["--owner-ref-kept", "owner-ref-kept", "what does --owner-ref-kept do"])
def test_who_says_the_name_of_an_option_comes_first(desk: Desk, tree: Tree, asked: str) -> None:
    files = {
        f"owner/ref_{n}.py": f"def owner_ref_kept_{n}(owner):\n    return owner.ref, ownerRefKept\n" for n in range(9)
    }
    files["main.py"] = (
        "def add_arguments(parser):\n    parser.add_argument('--verbose')\n"
        "    parser.add_argument('--owner-ref-kept', default=True)\n    parser.add_argument('--port')\n"
    )
    desk.index(tree(files), "code", name="code")
    assert desk.search(Query(text=asked, by="file")).hits[0].stored.document.path == "main.py"
