"""A hit in a page names the lines of the page, and what is preformatted stays as it is."""

from __future__ import annotations

import pytest

from refdesk.model import Chunking
from refdesk.parse.html.page import extract, parse_html

PAGE = """<!DOCTYPE html>
<html><head>
<title>Instruments</title>
<script>
var harpsichord = "Strings are plucked.";
</script>
</head><body>
<nav><ul>
<li>Harpsichord</li>
<li>Organ</li>
</ul></nav>
<main>
<h1
  id="top">Instruments</h1>
<!-- Harpsichord
     Strings are plucked. -->
<p>Both have keys &amp; a case.</p>

<h2>Harpsichord</h2>
<p>Strings are plucked,
and <em>not</em> struck&nbsp;at all.</p>
<ol>
<li>Jacks</li>
<li>Quills</li>
</ol>

<h2>Organ</h2>
<pre>
wind
  pipes
</pre>
</main>
<footer>Strings are plucked, and not struck at all.</footer>
</body></html>
"""


def test_the_lines_are_those_of_the_page() -> None:
    chunks = parse_html(PAGE, "a.html", Chunking(min_tokens=1, max_tokens=40)).chunks
    rows = PAGE.split("\n")
    found = {chunk.title: (rows[chunk.start_line - 1], rows[chunk.end_line - 1]) for chunk in chunks}
    assert found["Instruments"] == ('  id="top">Instruments</h1>', "<p>Both have keys &amp; a case.</p>")
    assert found["Harpsichord"] == ("<h2>Harpsichord</h2>", "<li>Quills</li>")
    assert found["Organ"] == ("<h2>Organ</h2>", "  pipes")


def test_text_that_the_page_does_not_have_has_no_lines() -> None:
    page = "<main><p>Town <img alt='A map of the whole town'></p></main>"
    (chunk,) = parse_html(page, "a.html", Chunking()).chunks
    assert (chunk.start_line, chunk.end_line, chunk.lines) == (0, 0, "")


def test_a_long_section_is_not_taken_for_the_whole_page() -> None:
    short = "<div><h2>Synopsis</h2><p>harp --strings</p></div>"
    page = f"<body><div>{short}<div><h2>Description</h2><p>{'It has strings. ' * 100}</p></div></div></body>"
    assert "harp --strings" in extract(page).markdown


@pytest.mark.parametrize(
    ("html", "code"),
    [
        (
            '<pre class="synopsis">\nDROP <em class="replaceable"><code>name</code></em> [, ...] '
            '[ <code class="literal">CASCADE</code> ]\n</pre>',
            "DROP name [, ...] [ CASCADE ]",
        ),
        ("<pre>a <b>b</b>  <code>c</code>d\n\n\te</pre>", "a b  cd\n\n\te"),
        ("<pre><code>one</code><code>two</code></pre>", "one\ntwo"),
        ("<pre><div>one</div><div>two</div></pre>", "one\ntwo"),
    ],
)
def test_what_is_preformatted_is_kept_to_the_letter(html: str, code: str) -> None:
    assert extract(f"<main><h1>T</h1>{html}</main>").markdown == f"# T\n\n```\n{code}\n```\n"
