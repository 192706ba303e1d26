"""One hit a file, its further passages inside; and each file's turn where every row is a passage."""

from __future__ import annotations

import pytest

from refdesk.desk.desk import Desk
from refdesk.model import Filters, Query, Topic
from refdesk.search.group import Ranked, grouped, not_code, path_worth, translation_of
from refdesk.search.rerank import places_in, unasked_places, weights
from refdesk.search.understand import understand
from tests.conftest import Tree

_STEP = '''def {name}(order):
    """{about}"""
    return order.{name}()
'''
_REFUNDS = [
    ("refund_order", "Refunds an order and gives the money back to the customer."),
    ("refund_part", "Refunds a part of an order to the customer."),
    ("refund_fee", "Refunds the fee of an order to the customer."),
    ("refund_limit", "How much of an order is refunded to a customer at most."),
]


@pytest.fixture
def shop(desk: Desk, tree: Tree) -> Desk:
    filler = {f"shop/part{n}.py": _STEP.format(name=f"part{n}", about=f"Counts stock of shelf {n}.") for n in range(60)}
    desk.index(
        tree(
            {
                "shop/refunds.py": "\n\n".join(_STEP.format(name=name, about=about) for name, about in _REFUNDS),
                "shop/mail.py": _STEP.format(name="write_mail", about="Tells a customer that an order was refunded."),
                "shop/ledger.py": _STEP.format(name="book", about="Books the refund of an order in the ledger."),
                "tests/test_refunds.py": "\n\n".join(
                    _STEP.format(name=f"test_{name}", about=about) for name, about in _REFUNDS
                ),
                "docs/refunds.md": "# Refunds\n\nHow a refund of an order reaches the customer.\n",
                **filler,
            }
        ),
        "code",
        name="shop",
    )
    return desk


def asked(desk: Desk, **more: object) -> list[str]:
    query = Query(text="how is an order refunded to the customer", limit=10, **more)  # type: ignore[arg-type]
    return [hit.stored.document.path for hit in desk.search(query).hits]


def test_by_file_each_file_is_one_hit_that_names_its_further_passages(shop: Desk) -> None:
    found = asked(shop, by="file", prefer="code")
    assert len(found) == len(set(found))
    assert found[0] == "shop/refunds.py"
    page = shop.search(Query(text="how is an order refunded to the customer", by="file", prefer="code"))
    first = page.hits[0]
    lines = {first.stored.chunk.start_line, *(one.chunk.start_line for one in first.more)}
    assert len(lines) == len(first.more) + 1 > 1
    assert {one.document.path for one in first.more} == {"shop/refunds.py"}


def test_tests_and_documentation_stand_behind_the_code_they_are_about(shop: Desk) -> None:
    found = asked(shop, by="file", prefer="code")
    assert found.index("shop/refunds.py") < found.index("docs/refunds.md")
    assert found.index("shop/refunds.py") < found.index("tests/test_refunds.py")
    about_tests = Query(text="test that an order is refunded to the customer", by="file", prefer="code")
    assert "tests/test_refunds.py" in [hit.stored.document.path for hit in shop.search(about_tests).hits[:2]]


def test_tests_leave_room_for_code_among_the_candidates(desk: Desk, tree: Tree) -> None:
    text = """def test_case_{n}(shop, clock):
    order = shop.place(clock.today(), customer({n}))
    order.refund()
    assert order.state == "closed"
"""
    files = {f"tests/test_case{n}.py": text.format(n=n) for n in range(90)}
    files["shop/money.py"] = (
        "def give_back(order):\n    order.customer.balance += order.paid\n    order.money.send_back(order.customer)\n"
    )
    desk.index(tree(files), "code", name="shop")
    assert "shop/money.py" in asked(desk, by="file", prefer="code")


def test_of_pages_alike_the_one_whose_passages_say_more_of_the_question_is_first(desk: Desk, tree: Tree) -> None:
    parts = {"Attempts": "A job is tried five times.", "Backoff": "Pauses double.", "Locks": "It holds a lock."}
    pages = {
        "faq.md": "# Jobs\n\n## Trying\n\nA job is tried, and tried, and tried again.\n",
        "jobs.md": "# Jobs\n\n" + "".join(f"## {title}\n\n{text}\n\n" for title, text in parts.items()),
    }
    desk.index(tree(pages), "docs", name="manual")
    question = "how often is a job tried, with which backoff and lock"
    stored = [hit.stored for hit in desk.search(Query(text=question, limit=20)).hits]
    best = [Ranked(one, 1.0, 1.0 if one.document.path == "faq.md" else 0.8) for one in stored]
    topics = {one.id: Topic(0.5, 0.4, 3) for one in stored}
    rare = dict.fromkeys(understand(question).terms, 2.0)
    first, *_ = grouped(best, [], understand(question), "file", "", lambda _: topics, rare)
    assert first.stored.document.path == "jobs.md"


def test_by_passage_a_file_has_a_second_row_once_every_other_had_one(shop: Desk) -> None:
    found = asked(shop)
    different = len(set(found))
    assert found[:different] == list(dict.fromkeys(found))


@pytest.mark.parametrize("by", ["file", "passage"])
def test_pages_fit_together(shop: Desk, by: str) -> None:
    query = "how is an order refunded to the customer of a shelf"
    whole = [hit.stored.id for hit in shop.search(Query(text=query, by=by, limit=12)).hits]  # type: ignore[arg-type]
    parts = [
        hit.stored.id
        for offset in (0, 4, 8)
        for hit in shop.search(Query(text=query, by=by, limit=4, offset=offset)).hits  # type: ignore[arg-type]
    ]
    assert parts == whole


def _written(name: str, title: str = "Harpsichord") -> tuple[str, str, str]:
    """The same text as reStructuredText, as a page and as markdown."""
    sections = [("Plucking", f"A harpsichord *plucks* its {name} strings."), ("Tuning", f"Its {name} is tuned often.")]
    rst = f"{title}\n===========\n\n" + "\n".join(f"{one}\n--------\n\n{text}\n" for one, text in sections)
    html = f"<main><h1>{title}</h1>" + "".join(f"<h2>{one}</h2><p>{text}</p>" for one, text in sections)
    return rst, html.replace("*", ""), f"# {title}\n\n" + "\n".join(f"## {one}\n\n{text}\n" for one, text in sections)


@pytest.mark.parametrize("by", ["file", "passage"])
def test_a_page_and_the_text_it_was_made_from_are_one_hit(desk: Desk, tree: Tree, by: str) -> None:
    files = {
        "_sources/guide/keys.rst.txt": _written("ivory")[0],
        "guide/keys.html": _written("ivory")[1],
        "docs/wire.md": _written("brass")[2],
        "site/wire/index.html": _written("brass")[1],
        "other/keys.md": _written("ebony")[2],
        "guide/harp.html": _written("gut", "Harp")[1],
        "guide/harp.md": _written("nylon")[2],  # of the same name, but not the same
    }
    desk.index(tree(files), "docs", name="music")
    hits = desk.search(Query(text="harpsichord strings", limit=50, by=by)).hits  # type: ignore[arg-type]
    found = {hit.stored.document.path for hit in hits}
    assert len(found & {"guide/keys.html", "_sources/guide/keys.rst.txt"}) == 1
    assert len(found & {"docs/wire.md", "site/wire/index.html"}) == 1
    assert {"other/keys.md", "guide/harp.html", "guide/harp.md"} <= found


def test_a_file_full_of_the_words_leaves_room_for_others(desk: Desk, tree: Tree) -> None:
    about = "How is an order refunded to the customer?  The customer is refunded, order {}."
    crowd = "\n\n".join(_STEP.format(name=f"refund_order_{n}", about=about.format(n)) for n in range(60))
    parts = {f"part{n}": _STEP.format(name=f"part{n}", about=f"Counts an order of shelf {n}.") for n in range(5)}
    others = {f"shop/{name}.py": text for name, text in parts.items()}
    desk.index(tree({"shop/refunds.py": crowd, **others}), "code", name="shop")
    found = desk.search(Query(text="how is an order refunded to the customer", by="file", prefer="code")).hits
    assert {hit.stored.document.path for hit in found} == {"shop/refunds.py", *others}
    assert len(found[0].more) == 5, "those that made room are named still"


@pytest.mark.parametrize(
    "path",
    [
        "features/refund.feature", "t/smoke/refund.py", "shop_tests/a.py", "tests/unit/a.py", "v3-test-suite/refund.js",
        "src/Shop.Tests/Refunds.cs", "src/Shop.Tests.Unit/Clock.cs", "shop/src/jvmTest/kotlin/Refunds.kt",
        "shop/src/refunds/tests.rs", "shop-testing-support/src/Clock.kt", "src/__mocks__/clock.js",
    ],
)  # fmt: skip
def test_tests_are_known_by_their_place(path: str) -> None:
    assert places_in(path) == ("test",)


def test_a_test_beside_the_code_stands_behind_it(desk: Desk, tree: Tree) -> None:
    filler = "".join(f"    let step{n} = order.total * {n} - order.paid;\n" for n in range(30))
    code = f"pub fn refund(order: &Order) {{\n{filler}    order.customer.send(order.paid);\n}}\n"
    text = f"#[test]\nfn refunds_an_order_to_the_customer() {{\n{filler}    assert_eq!(order.paid, 0);\n}}\n"
    desk.index(tree({"src/refund.rs": f"{code}\n{text}"}), "code", name="shop")
    first = desk.search(Query(text="how is an order refunded to the customer", prefer="code")).hits[0]
    assert first.stored.chunk.symbols == ("refund",)


@pytest.mark.parametrize("path", ["src/Latest/a.cs", "src/latest.v2/a.cs", "src/Test/Runner.php", "src/contest/a.py"])
def test_a_name_that_resembles_tests_is_no_test(path: str) -> None:
    assert places_in(path) == ()


@pytest.mark.parametrize("path", ["benches/refund.rs", "src/__benchmarks__/refund.ts", "src/Shop.Benchmarks/Refund.cs"])
def test_benchmarks_are_examples(path: str) -> None:
    assert places_in(path) == ("example",)


def test_a_question_that_names_tests_still_finds_the_code_first(desk: Desk, tree: Tree) -> None:
    test = _STEP.format(name="test_retry", about="A failing test is run again before it is reported as failed.")
    code = _STEP.format(name="retry", about="Runs a failing test again, a few times, before it counts as failed.")
    desk.index(tree({"test/retry.py": test, "runner/retry.py": code}), "code", name="runner")
    found = desk.search(Query(text="where is a failing test run again before it is reported as failed", by="file"))
    assert [hit.stored.document.path for hit in found.hits] == ["runner/retry.py", "test/retry.py"]


def test_a_header_comes_after_its_implementation(desk: Desk, tree: Tree) -> None:
    files = {
        "include/refund.h": "// Refunds an order to the customer in parts.\nint refund_order(int order);\n",
        "src/refund.c": "// Refunds the parts one by one.\nint refund_order(int order) {\n  return pay(order);\n}\n",
        "include/mail.h": "// Tells the customer of it.\nint write_mail(int order);\n",
    }
    desk.index(tree(files), "code", name="shop")
    found = desk.search(Query(text="how is an order refunded to the customer", by="file", prefer="code", explain=True))
    added = {hit.stored.document.path: hit.explanation.get("whole file", 0.0) for hit in found.hits}
    assert next(iter(added)) == "src/refund.c"
    assert float(added["include/refund.h"]) < float(added["include/mail.h"]), "which has no implementation here"


@pytest.mark.parametrize(
    "path",
    ["docs/blog/limits.md", "docs/use/migrate-to-10.0.0.md", "CHANGELOG.md", "docs/development/limits.rst", "news.rst"],
)
def test_pages_that_mention_everything_count_less_unless_they_are_asked_for(path: str) -> None:
    assert places_in(path) == ("aside",)
    asked, other = understand("what is new in this version"), understand("how long does a request wait")
    assert path_worth(unasked_places(asked.terms), "")(path) == 0.0
    assert path_worth(unasked_places(other.terms), "")(path) == weights().file["aside"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("shop/refund.py", ""),
        ("shop/t.go", ""),
        ("man/refund.1", "prose"),
        ("jq.1.prebuilt", "prose"),
        ("docs/manual/refund.yml", "prose"),
        ("deploy/refund.yml", "data"),
        ("refund.rockspec", "data"),
        ("infra/main.tf", ""),
        ("src/refund.gleam", ""),
        ("roles/refund/templates/refund.yml.j2", "data"),
        ("roles/refund/templates/refund.sh.j2", ""),
        ("app/views/refund.html.erb", ""),
        ("charts/refund/templates/_helpers.tpl", ""),
        ("CHANGES.md", "history"),
        ("include/fmt/bundled/core.h", "vendored"),
        ("types/refund.d.ts", "declarations"),
    ],
)
def test_what_is_not_the_projects_own_code_is_known_by_its_path(path: str, kind: str) -> None:
    assert not_code(path) == kind


def test_the_page_about_it_comes_before_longer_ones_that_mention_it(desk: Desk, tree: Tree) -> None:
    topics = ["Colours", "Printing", "Shortcuts", "Updates", "Languages", "Sounds", "Windows", "Accounts", "Backups"]
    other = "\n".join(f"## {name}\n\nHow {name.lower()} are set up, changed and removed again.\n" for name in topics)
    mention = "## Timeouts\n\nHow long a request waits before it gives up.\n"
    about = (
        "# Limits\n\nHow long requests may wait.\n\n## Defaults\n\nA slow request gives up after the timeout.\n\n"
        "## Changing the limits\n\nA longer timeout lets a request wait.\n"
    )
    desk.index(
        tree(
            {"news.md": f"# News\n\n{other}\n{mention}", "limits.md": about, "tips.md": f"# Tips\n\n{mention}\n{other}"}
        ),
        "docs",
        name="manual",
    )
    found = desk.search(Query(text="how long does a request wait before it gives up and how is that changed")).hits
    assert found[0].stored.document.path == "limits.md"


@pytest.mark.parametrize(
    ("path", "page", "language"),
    [
        ("docs/pt-br/tutorial/files.md", "docs/tutorial/files", "pt-br"),
        ("docs/en/tutorial/files.md", "docs/tutorial/files", "en"),
        ("docs/tutorial/files.md", "docs/tutorial/files", ""),
        ("README.zh-CN.md", "README", "zh-cn"),
        ("README_JP.md", "README", "jp"),
        ("README.md", "README", ""),
        ("https://example.org/fr/guide", "https://example.org/guide", "fr"),
        ("src/de/files.py", "src/de/files.py", ""),
        ("docs/de-dupe/files.md", "docs/de-dupe/files", ""),
        ("docs/how-to.md", "docs/how-to", ""),
    ],
)
def test_a_path_tells_the_language_of_a_page(path: str, page: str, language: str) -> None:
    assert translation_of(path) == (page, language)


@pytest.fixture
def translated(desk: Desk, tree: Tree) -> Desk:
    pages = {
        "en": "# Uploads\n\nHow to upload several files in one form: give the field a list type.\n",
        "pt": "# Uploads\n\nComo enviar (upload) vários arquivos, files, em um form: dê ao campo um tipo de lista.\n",
        "es": "# Uploads\n\nCómo subir (upload) varios archivos, files, en un form: el campo es una lista.\n",
    }
    beside = {
        f"docs/en/page{n}.md": f"# Page {n}\n\nAbout setting {n} of the server and its logs.\n" for n in range(30)
    }
    own = {
        "docs/my/report.md": "# Payroll\n\nOur payroll report.\n",
        "docs/report.md": "# Payroll\n\nA payroll report.\n",
    }
    desk.index(
        tree({f"docs/{name}/upload.md": text for name, text in pages.items()} | beside | own), "docs", name="site"
    )
    return desk


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("how to upload several files in one form", "docs/en/upload.md"),
        ("how are uploads of an enum done", "docs/en/upload.md"),
        ("comment on how MIT and DER files upload in one form", "docs/en/upload.md"),
        ("como enviar vários arquivos em um form", "docs/pt/upload.md"),
        ("cómo subir varios archivos en un form", "docs/es/upload.md"),
    ],
)
def test_a_page_is_found_in_the_language_of_the_question_alone(translated: Desk, text: str, path: str) -> None:
    within = Filters(collections=("site",))
    found = [hit.stored.document.path for hit in translated.search(Query(text=text, by="file", filters=within)).hits]
    assert found[0] == path
    assert [one for one in found if one.endswith("upload.md")] == [path]


def test_a_folder_whose_name_is_an_english_word_is_no_translation(translated: Desk) -> None:
    found = translated.search(Query(text="payroll report", by="file", filters=Filters(collections=("site",)))).hits
    assert {hit.stored.document.path for hit in found[:2]} == {"docs/my/report.md", "docs/report.md"}


def test_a_search_for_exact_text_shows_every_language(translated: Desk) -> None:
    found = translated.search(Query(text="upload)", exact=True, by="file", filters=Filters(collections=("site",)))).hits
    assert {hit.stored.document.path for hit in found} == {"docs/pt/upload.md", "docs/es/upload.md"}
