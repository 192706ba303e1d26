"""Pages come out as the text their authors wrote, whatever generator made them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.errors import ParseFailed
from refdesk.model import Chunking
from refdesk.parse.html.page import extract, parse_html
from refdesk.parse.prose.manifest import ManifestSet

PAGES = Path(__file__).parent / "pages"
SPHINX, DOCUSAURUS, VITEPRESS, JAVADOC, MDBOOK = (
    (PAGES / f"{name}.html").read_text("utf-8") for name in ("sphinx", "docusaurus", "vitepress", "javadoc", "mdbook")
)


def test_sphinx() -> None:
    page = extract(SPHINX, "https://demo.dev/api.html")
    assert page.title == "API"
    assert page.markdown == (
        "# API\n\nSee `Client` for more.\n\n```python\nimport demo\n\ndemo.run()\n```\n\n"
        "## `class demo.Client(url, timeout=5)`\n\nTalks to a server.\n\n- **Parameters**\n  - **url** – where\n\n"
        "### `close()`\n\nEnds it.\n\n> **Warning:** Not for threads.\n"
    )


def test_docusaurus() -> None:
    page = extract(DOCUSAURUS, "https://acme.dev/docs/install/?x=1")
    assert page.title == "Install"

    assert page.metadata["description"] == "How to install"
    assert "```bash\nnpm install acme\nnpx acme\n```" in page.markdown.replace("acme\n\n", "acme\n")
    assert "> **Tip:** Use a recent node." in page.markdown
    assert "first tab" in page.markdown and "second tab" in page.markdown
    for noise in ("Copy", "Edit this page", "Last updated", "Menu", "On this page", "Next", "\u200b"):
        assert noise not in page.markdown


def test_vitepress() -> None:
    page = extract(VITEPRESS)
    assert page.markdown.startswith("# Guide\n\n")
    assert "```ts\nconst a = 1\nconst b = 2\n```" in page.markdown
    assert "> **TIP:** Be kind." in page.markdown
    assert "| Key | Meaning |\n| --- | --- |\n| `a\\|b` | either |" in page.markdown
    for noise in ("menu", "On this page", "Pager", "Copy"):
        assert noise not in page.markdown


def test_javadoc() -> None:
    page = extract(JAVADOC)
    assert page.title == "Class Gson"
    assert "```java\npublic final class Gson\n```" in page.markdown
    assert (
        "| Modifier | Method | Description |\n| --- | --- | --- |\n| `String` | `toJson(Object)` | Writes it. |"
        in page.markdown
    )
    assert "### toJson\n\n```java\npublic String toJson(Object src)\n```\n\nWrites the object." in page.markdown
    assert "Overview Package" not in page.markdown and "Copyright" not in page.markdown


def test_mdbook() -> None:
    page = extract(MDBOOK)
    assert page.markdown == "# Intro\n\nWords.\n\n```rust\nfn main() {}\n```\n"


def test_a_short_page_is_told_from_its_surroundings() -> None:
    around = "<p>Press the left or the right key to go to the page before or behind this one.</p>" * 9
    page = extract(f"<body><div>{around}</div><main><h1>Short</h1><ul><li>one</li></ul></main></body>")
    assert page.markdown == "# Short\n\n- one\n"


def test_a_page_without_landmarks() -> None:
    words = "This paragraph holds the words that people came to read on this page. " * 4
    html = (
        "<html><head><title>News - Site</title></head><body><div class='cookie-banner'>We use cookies</div>"
        "<div id='top'><a href='/'>Home</a> <a href='/b'>Blog</a></div>"
        f"<div class='wrap'><div class='story'><p>{words}</p><p>{words}</p></div></div>"
        "<div class='bottom'><a href='/c'>Contact</a></div></body></html>"
    )
    page = extract(html, "http://s.org/")
    assert page.title == "News"
    assert page.markdown.startswith("# News\n\nThis paragraph")
    assert "cookies" not in page.markdown and "Contact" not in page.markdown


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p>a<br>b</p>", "a\nb"),
        ("<p>x <b>bold</b><i>it</i> <del>no</del></p>", "x **bold***it* ~~no~~"),
        ("<ol start=3><li>c</li><li>d<ul><li>e</li></ul></li></ol>", "3. c\n4. d\n   - e"),
        ("<ul><li><p>a</p><p>b</p></li><li>c</li></ul>", "- a\n\n  b\n\n- c"),
        ("<blockquote><p>q</p></blockquote>", "> q"),
        ("<pre>a\n  b ``` c</pre>", "````\na\n  b ``` c\n````"),
        ("<p># not a heading</p>", "\\# not a heading"),
        ("<p>1. no list</p>", "1\\. no list"),
        ("<h2>Title <a href='#t'>#</a></h2><p>x</p>", "# Title\n\nx"),
        ("<h1>A</h1><h2><a class='toc-backref' href='#i'>Back</a><a class='headerlink'>¶</a></h2>", "# A\n\n## Back"),
        ("<h1>A</h1><section id='cookie-consent'><h2>Cookie consent</h2></section>", "# A\n\n## Cookie consent"),
        ("<h1>A</h1><div class='section' id='search'><h2>Search</h2></div>", "# A\n\n## Search"),
        ("<h1>A</h1><div id='cookie-consent'><h2>We use cookies</h2></div><p>x</p>", "# A\n\nx"),
        (
            "<div class='header'><p>Next: <a accesskey='n'>B</a>, Up: <a accesskey='u'>Top</a></p></div><h1>A</h1>",
            "# A",
        ),
        ("<details><summary>More</summary><p>inner</p></details>", "**More**\n\ninner"),
        ("<img src=a.png alt='A picture'><p>x</p>", "[image: A picture]\n\nx"),
        ("<table><tr><td>layout <p>x</p></td></tr></table>", "layout\n\nx"),
        ("<p>use <code>a`b</code></p>", "use ``a`b``"),
        ("text &lt;b&gt; &amp; more", "text <b> & more"),
        (
            "<dl><dt>term</dt><dd>meaning</dd><dt>other</dt><dd>sense</dd></dl>",
            "- **term**: meaning\n- **other**: sense",
        ),
        ("<p>one</p><!-- comment --><style>p{}</style><p>two</p>", "one\n\ntwo"),
        ("<hr><p>x</p>", "* * *\n\nx"),
        (
            "<h1>A</h1><div class='note'><h3 class='title'>Note</h3><p>Mind it.</p></div><p>x</p>",
            "# A\n\n> **Note:** Mind it.\n\nx",
        ),
    ],
)
def test_elements(html: str, markdown: str) -> None:
    assert extract(f"<body><main>{html}</main></body>").markdown == markdown + "\n"


def test_a_page_that_only_redirects() -> None:
    html = "<head><meta http-equiv='Refresh' content='0; url=new.html'></head><body>Redirecting...</body>"
    page = extract(html, "https://x.org/old.html")
    assert (page.redirect, page.markdown) == ("https://x.org/new.html", "")
    with pytest.raises(ParseFailed, match=r"only leads to https://x\.org/new\.html"):
        parse_html(html, "old.html", Chunking(), "https://x.org/old.html")


def test_author_and_dates_are_kept() -> None:
    head = (
        "<meta name='author' content='Ada'><meta property='article:published_time' content='2024-05-06'>"
        "<meta property='article:modified_time' content='2025-01-02'>"
    )
    page = extract(f"<html lang='en'><head>{head}</head><body><main><h1>T</h1><p>x</p></main></body></html>")
    assert page.metadata == {"author": "Ada", "published": "2024-05-06", "modified": "2025-01-02", "lang": "en"}
    page = extract("<body><main><h1>T</h1><time datetime='2023-01-01'>long ago</time></main></body>")
    assert page.metadata["published"] == "2023-01-01"


def test_a_page_without_a_title_takes_its_first_heading() -> None:
    page = extract("<title>T - Site</title><main><h2>Path</h2><pre># no heading</pre></main>")
    assert (page.title, page.markdown) == ("Path", "# Path\n\n```\n# no heading\n```\n")


def test_the_first_of_several_chapters_is_not_the_title() -> None:
    body = "<p>Write-Ahead Logging</p><h1>1. Overview</h1><p>What it is.</p><h1>2. Use</h1><p>How to.</p>"
    html = f"<html><head><title>Write-Ahead Logging</title></head><body><main>{body}</main></body></html>"
    assert extract(html, "https://demo.dev/wal.html").title == "Write-Ahead Logging"
    parsed = parse_html(html, "wal.html", Chunking())
    assert {chunk.breadcrumb[0] for chunk in parsed.chunks} == {"Write-Ahead Logging"}
    # A heading that the page's address names is its title, whatever the head says.
    assert extract(html, "https://demo.dev/overview.html").title == "1. Overview"


def test_the_first_of_several_headings_is_not_the_title() -> None:
    page = extract("<title>tool(1)</title><main><h2>SYNOPSIS</h2><p>x</p><h2>OPTIONS</h2><p>y</p></main>")
    assert (page.title, page.markdown) == ("tool(1)", "# tool(1)\n\n## SYNOPSIS\n\nx\n\n## OPTIONS\n\ny\n")


def test_an_oversize_list_of_settings_is_cut_at_its_terms() -> None:
    terms = "".join(f"<dt>core.a{at}</dt><dd><p>{'word ' * 1500}</p><p>more</p></dd>" for at in range(4))
    terms += "<dt><code>core.a0</code> (x)</dt><dd>y</dd>"
    html = f"<main><h1>Settings</h1><h2>Variables</h2><p>All:</p><dl>{terms}</dl></main>"
    parsed = parse_html(html, "s.html", Chunking(), rules=ManifestSet().for_path("s.html"))
    assert [chunk.key for chunk in parsed.chunks] == [
        "_preamble", "variables", *(f"variables/corea{at}" for at in range(4)), "variables/corea0-x"
    ]  # fmt: skip
    assert parsed.chunks[2].breadcrumb == ("Settings", "Variables", "core.a0")
    assert parsed.chunks[2].text.endswith("more") and parsed.chunks[1].text == "## Variables\n\nAll:"


def test_chunks_have_the_markdown_and_the_lines_of_the_page() -> None:
    parsed = parse_html(SPHINX, "api.html", Chunking(), rules=ManifestSet().for_path("api.html"))
    assert parsed.content_type == "html"
    assert [chunk.key for chunk in parsed.chunks] == ["_preamble", "class-democlienturl-timeout5"]
    assert all(chunk.text in extract(SPHINX).markdown for chunk in parsed.chunks)
    assert parsed.chunks[1].type == "api"


def test_a_page_keeps_where_its_links_lead_and_its_chunks_do_not() -> None:
    page = """<main><h1>Guide</h1><p>See <a href="../api/ref.html#send">the <code>send</code> call</a>,
        <a href="#top">top</a> or <a href="https://e.org/a b(1)">1. that</a>.</p><p><a href="next.html">2. next</a></p>
        <pre>call[0](1)</pre></main>"""
    parsed = parse_html(page, "g.html", Chunking(), "https://d.org/docs/g.html", rules=ManifestSet().for_path("g.html"))
    assert "[the `send` call](https://d.org/api/ref.html#send), top" in parsed.text
    assert "[1. that](https://e.org/a%20b(1%29)." in parsed.text
    assert "\n[2\\. next](https://d.org/docs/next.html)\n" in parsed.text
    assert "call[0](1)" in parsed.text
    whole = "\n".join(chunk.text for chunk in parsed.chunks)
    assert "the `send` call, top" in whole and "2\\. next" in whole and "d.org" not in whole


@pytest.mark.parametrize("html", ["<html></html>", "<body><script>x()</script></body>", "<div id=root></div>"])
def test_pages_without_text_say_so(html: str) -> None:
    with pytest.raises(ParseFailed, match="no text"):
        parse_html(html, "a.html", Chunking())


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "deep text",
        "<b>" * 20_000 + "bold",
        "<ul><li>" * 2_000 + "item",
        "<blockquote>" * 2_500 + "quote",
        "<table><tr><td>" * 900 + "cell",
        "<a href='x'>" * 20_000 + "link",
        "<p>" * 50_000 + "paragraph",
        "<span>" * 2_900 + "span",
        "<pre>" * 2_900 + "code",
        "<dl><dt>" * 1_400 + "term",
        "<table>" + "<tr><td colspan=999999999>x" * 2_000,
        "<" * 100_000,
        "<!--" * 50_000,
        "<base href='http://[bad'><a href='http://[::bad'>x</a> text",
        "<div></b>" * 50_000 + "ends of what never began",
    ],
    ids=range(15),
)
def test_hostile_pages_are_survived(html: str) -> None:
    start = time.process_time()
    extract(html, "http://x.org/")
    assert time.process_time() - start < 15


PARTS = [
    "<p>", "</p>", "<div>", "</div>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<pre>", "</pre>",
    "<code>", "</code>", "<h2>", "</h2>", "<b>", "</b>", "<a href=x>", "</a>", "<dl>", "<dt>", "<dd>", "</dl>", "word",
    "<blockquote>", "</blockquote>", "&amp;", "<br>", "<main>", "</main>", "<div class=admonition>", "<summary>",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PARTS), max_size=40))
def test_any_soup_is_survived(parts: list[str]) -> None:
    extract(" ".join(parts))


@pytest.mark.parametrize("value", ["", "=1", "='>'", '="<p>"'])
def test_a_tag_with_very_many_attributes_is_read_without_its_tree(value: str) -> None:
    attributes = " ".join(f"a{number}{value}" for number in range(40_000))
    page = extract(f"<html><body><p {attributes}>words</p></body></html>")
    assert "too many attributes" in page.notes[0]
    assert "words" in page.markdown


def test_long_values_are_not_many_attributes() -> None:
    page = extract(f"<p>words <img alt='dots' src='data:image/png;base64,{'A/+= b' * 50_000}'></p>")
    assert page.notes == ()
