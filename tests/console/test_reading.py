"""Searching and reading, with and without JavaScript."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

from refdesk.app import open_desk
from refdesk.settings import Settings
from tests.conftest import Tree
from tests.console.conftest import Open, Serve, get


def test_a_search_shows_hits_with_their_lines_and_why_they_rank(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/?q=how+are+vectors+stored")
    first = at.page.locator(".hit-card").first
    assert first.locator("mark").count() > 0
    assert re.search(r":\d+-\d+", first.locator("h3").inner_text())
    first.locator("summary").click()
    assert first.locator(".bars tr").count() >= 3
    assert "keywords" in first.locator(".bars").inner_text() and first.locator(".bars rect.plus").count() > 0
    assert at.errors == [] and at.strangers == []


def test_results_come_while_typing_and_the_address_follows(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/")
    at.page.keyboard.type("playbook judge")
    at.page.wait_for_url(re.compile(r"q=playbook\+judge$"))
    at.page.wait_for_selector(".hit-card")
    at.page.locator(".filters a", has_text="handbook").click()
    at.page.wait_for_url(re.compile("collection=handbook"))
    at.page.wait_for_selector(".filters a[aria-current]")
    assert "collection=handbook" in at.page.url
    assert set(at.page.locator(".hit-card header .tag").all_inner_texts()) == {"handbook"}
    at.page.reload()
    assert set(at.page.locator(".hit-card header .tag").all_inner_texts()) == {"handbook"}
    at.page.go_back()
    at.page.wait_for_selector(".filters a:not([aria-current])")
    assert "collection=" not in at.page.url and "q=playbook+judge" in at.page.url


def test_filters_count_all_passages_with_a_word_of_the_query(served: str, browse: Open) -> None:
    def counts(of: str) -> dict[str, int]:
        shown = at.page.locator(".filters section", has=at.page.locator(f"h2:text-is('{of}')")).locator("li a")
        rows = [row.replace("\u202f", "").split("\n") for row in shown.all_inner_texts()]
        return {row[0]: int(row[1]) for row in rows if len(row) > 1}

    at = browse(served)
    at.go("/?q=vectors")
    everywhere = counts("Collection")
    assert everywhere["refdesk"] > 50  # more than are ranked
    assert counts("Folder")["store/"] > counts("Folder").get("llm/", 0)
    at.go("/?q=vectors&collection=handbook")
    assert counts("Collection") == everywhere  # what another choice would give
    assert sum(counts("Language").values()) == everywhere["handbook"]
    at.page.locator(".filters a", has_text="refdesk").click()
    at.page.wait_for_url(re.compile("collection=refdesk"))
    at.page.locator(".filters a", has_text="store/").first.click()
    at.page.wait_for_url(re.compile("path=store"))
    assert at.page.locator("#search [name=path]").input_value() == "store/**"
    assert all("store/" in one for one in at.page.locator(".hit-card h3").all_inner_texts() if ".py" in one)
    assert at.errors == []


def test_all_of_it_by_keyboard(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/library")
    at.page.keyboard.press("/")
    at.page.keyboard.type("freshness of hits")
    at.page.keyboard.press("Enter")
    at.page.wait_for_selector(".hit-card")
    at.page.locator("[data-search]").focus()
    at.page.keyboard.press("ArrowDown")
    at.page.keyboard.press("ArrowDown")
    assert "at" in (at.page.locator(".hit-card").nth(1).get_attribute("class") or "")
    at.page.keyboard.press("ArrowUp")
    at.page.keyboard.press("e")
    assert at.page.locator(".hit-card").first.locator(".why").get_attribute("open") is not None
    at.page.keyboard.press("Enter")
    at.page.wait_for_url("**/read/**")
    at.page.keyboard.press("g")
    at.page.keyboard.press("l")
    at.page.wait_for_url("**/library")
    at.page.keyboard.press("?")
    assert at.page.locator("#keys").is_visible()
    at.page.keyboard.press("Escape")
    assert at.errors == []


def test_two_settings_side_by_side(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/?q=how+are+files+left+out&alpha=0&other=1")
    assert at.page.locator(".found.two > section:not(.missing)").count() == 2
    titles = at.page.locator(".side-title").all_inner_texts()
    assert titles == ["alpha 0", "alpha 1"]
    sides = [at.page.locator(".found > section").nth(number).locator("h3").all_inner_texts() for number in range(2)]
    assert sides[0] and sides[1] and sides[0] != sides[1]


def test_a_playbook_is_among_the_hits(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/?q=customer+account+is+locked+after+too+many+wrong+passwords")
    hit = at.page.locator(".hit-card", has_text="Reset a locked account")
    assert hit.count() == 1
    hit.locator("h3 a").click()
    at.page.wait_for_url("**/playbooks/*")


def test_why_something_is_not_here(served: str) -> None:
    def ask(why: str, **more: str) -> str:
        page = get(served, params={"q": "write lock", "why": why, **more}).text
        found = re.search(r'<ul class="answer".*?</ul>', page, re.DOTALL)
        return re.sub(r"<[^>]+>|\s+", " ", found[0]) if found else ""

    assert re.search(r"It is hit \d+ of this search", ask("store/gate.py"))
    assert re.search(r"It is hit \d+ of this search", ask("src/refdesk/store/gate.py"))
    assert "The filters leave it out" in ask("store/gate.py", collection="handbook")
    assert "Not indexed in refdesk: too large" in ask("embed/data/rows.i1") or "binary" in ask("embed/data/rows.i1")
    assert "No indexed file has this path" in ask("no/such/file.py")
    assert "store/gate.py" in ask("_granted(") or "Indexed" in ask("def ")
    page = get(served, params={"q": "write lock", "why": "no/such/file.py"}).text
    assert page.index("No indexed file has this path") < page.index('class="hit-card"')


def _text(served: str, **query: str) -> str:
    return re.sub(r"<[^>]+>", "", get(served, params=query).text)


def test_nothing_found_says_why_and_what_was_meant(served: str) -> None:
    page = _text(served, q="zzqqxx and vvkkww")
    assert "No hits" in page and "No passage has zzqqxx, vvkkww." in page
    page = re.sub(
        r"<[^>]+>", "", get(served, params={"q": "fn main zzqqxx", "collection": "handbook", "exact": "1"}).text
    )
    assert re.search(r"main is in \d+ passages of handbook", page) and "No passage of handbook has zzqqxx" in page
    page = get(served, params={"q": "embeder identty", "collection": "refdesk"}).text
    assert "earched for" in page and re.search(r"<mark>\w*[Ii]dentity</mark>", page)  # what was meant is marked


def test_code_is_read_with_line_numbers_the_hit_marked_and_an_outline(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/read/refdesk/desk/reading.py?lines=40-44&q=library")
    assert at.page.locator(".code .row.hit").count() == 5
    assert at.page.locator(".code .row.hit").first.locator("a").inner_text() == "40"
    assert at.page.locator(".code .k").count() > 10
    assert at.page.locator(".outline", has_text="Reader").count() == 1
    at.page.locator(".tabs a", has_text="As the agent gets it").click()
    at.page.wait_for_selector(".passage")
    assert "token" in at.page.locator(".passage header").first.inner_text()


def test_names_hide_nothing_and_text_runs_its_own_way(tree: Tree, serve: Serve, browse: Open, tmp_path: Path) -> None:
    odd = "photo\u202egnp.md"
    files = {odd: "# Odd\n\ncode `a`\n", "a\tb\nc.md": "# Tab\n\nx\n", "x.py": "s = 'a\u202eb'  # 1\n"}
    files["دليل.md"] = "# دليل\n\nهذا النص مكتوب من اليمين إلى اليسار.\n\nAnd some English.\n"
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(tree(files), "files", name="odd")
    at = browse(serve(tmp_path / "library").root)
    at.go("/library/odd")
    assert "photo⟨U+202E⟩gnp.md" in at.page.locator("main").inner_text()
    assert "a\\tb\\nc.md" in at.page.locator("main").inner_text()
    at.page.get_by_role("link", name="photo").click()
    at.page.wait_for_selector("h1:text('photo⟨U+202E⟩gnp.md')")
    at.go("/read/odd/x.py")
    assert "'a⟨U+202E⟩b'" in at.page.locator(".code").inner_text()
    at.go(f"/read/odd/{quote('دليل.md')}")
    ways = at.page.locator(".prose p").evaluate_all("all => all.map(one => getComputedStyle(one).direction)")
    assert ways == ["rtl", "ltr"]


def test_the_outline_has_every_heading(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/read/handbook/console.md")
    shown = at.page.locator(".prose :is(h1, h2, h3)").all_inner_texts()
    assert len(shown) > 4 and at.page.locator(".outline li").all_inner_texts() == shown
    at.page.locator(".outline a", has_text=shown[-1]).click()
    assert at.page.evaluate("document.querySelector(':target').innerText") == shown[-1]


def test_a_long_page_is_read_in_parts(tree: Tree, serve: Serve, browse: Open, tmp_path: Path) -> None:
    text = "".join(f"## Part {number}\n\n{'Words. ' * 300}\n\n```\n# no heading\n```\n\n" for number in range(100))
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(tree({"long.md": text}), "files", name="long")
    at = browse(serve(tmp_path / "library").root)
    at.go("/read/long/long.md")
    assert at.page.locator(".prose h2").first.inner_text() == "Part 0"
    shown = at.page.locator(".prose h2").count()
    assert 10 < shown < 40 and "Page 1 of" in at.page.locator(".pager").inner_text()
    at.page.get_by_role("link", name="Next").click()
    at.page.wait_for_url("**page=2")
    assert at.page.locator(".prose h2").first.inner_text() == f"Part {shown}"
    line = text.split("\n").index("## Part 77") + 1
    at.go(f"/read/long/long.md?lines={line}")
    assert at.page.locator(".prose .hit").all_inner_texts() == ["Part 77"]
    at.page.locator(".outline a", has_text="Part 5").first.click()
    at.page.wait_for_selector(".prose h2:text-is('Part 5')")


def test_markdown_is_read_as_a_page(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/read/handbook/evaluation.md?lines=3-5")
    assert at.page.locator(".prose h1").inner_text() == "Evaluation"
    assert at.page.locator(".prose .hit").count() == 1
    assert at.page.locator(".prose pre .s, .prose pre .nt, .prose pre .c").count() > 0
    at.go("/read/handbook/code.md")
    link = at.page.locator(".prose a").first.get_attribute("href") or ""
    assert link.startswith("/read/handbook/")
    at.page.locator(".tabs a", has_text="Text").click()
    at.page.wait_for_selector(".code .row")


def test_searching_and_reading_work_without_javascript(served: str, browse: Open) -> None:
    at = browse(served, java_script_enabled=False)
    at.go("/")
    at.page.locator("#search [name=q]").fill("write lock")
    at.page.locator("#search [name=q]").press("Enter")
    at.page.wait_for_selector(".hit-card")
    at.page.locator(".filters a", has_text="refdesk").first.click()
    at.page.wait_for_selector(".filters a[aria-current]")
    at.page.locator(".hit-card h3 a").first.click()
    at.page.wait_for_selector(".code .row.hit")


def test_a_phone_shows_all_of_it_in_its_width(served: str, browse: Open) -> None:
    at = browse(served, viewport={"width": 390, "height": 844})
    paths = ["/", "/?q=how+are+vectors+stored", "/read/refdesk/desk/reading.py", "/read/handbook/code.md", "/nowhere"]
    for path in paths:
        at.go(path)
        wide, there = at.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there, path
