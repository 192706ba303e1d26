"""One door for every kind of content; what can't be read says why."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Content, Parsed
from refdesk.parse import AnyParser
from refdesk.parse.prose.manifest import ManifestSet
from refdesk.parse.prose.rst import parse_plain

from .test_markdown import assert_sound


def read(data: bytes | str, path: str, declared: str = "", chunking: Chunking | None = None) -> Parsed:
    raw = data.encode() if isinstance(data, str) else data
    content = Content(uri=f"file:///{path}", path=path, data=raw, content_type=declared)
    return AnyParser().parse(content, chunking or Chunking())


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("a.md", "# T\n\nx", "markdown"),
        ("a.html", "<main><h1>T</h1><p>x</p></main>", "html"),
        ("a.rst", "T\n=\n\nx", "rst"),
        ("a.json", '{"a": 1}', "json"),
        ("a.yaml", "a: 1", "yaml"),
        ("a.toml", "a = 1", "toml"),
        ("a.ini", "[a]\nb=1", "ini"),
        ("a.csv", "a,b\n1,2", "csv"),
        ("a.jsonl", '{"a": 1}\n{"a": 2}', "jsonl"),
        ("a.xml", "<a>x</a>", "xml"),
        ("a.txt", "words", "plain_text"),
        ("a.org", "* T\nx", "plain_text"),
        ("a.py", "def f():\n    return 1\n", "python"),
        ("unknown", "words", "plain_text"),
        ("unknown", "# T\n\n```py\nx\n```\n", "markdown"),
    ],
)
def test_every_kind_has_its_parser(path: str, text: str, kind: str) -> None:
    parsed = read(text, path)
    assert parsed.content_type == kind
    assert parsed.chunks
    assert parsed.title


def test_a_declared_type_is_obeyed() -> None:
    assert read("# T\n\nx", "a.txt", "markdown").title == "T"
    assert read("<p>x</p>", "page", "text/html").content_type == "html"


def test_notebooks() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "\n", "Words."]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"output_type": "stream", "text": ["1\n"]}]},
        {"cell_type": "code", "source": "", "outputs": []},
        {"cell_type": "code", "source": "1/0", "outputs": [{"output_type": "error", "ename": "E", "evalue": "no"}]},
    ]
    text = json.dumps({"cells": cells, "metadata": {"language_info": {"name": "python"}}, "nbformat": 4})
    parsed = read(text, "a.ipynb")
    assert parsed.content_type == "notebook"
    assert parsed.title == "Study"
    assert parsed.text == (
        "# Study\n\nWords.\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n\n"
        "```python\n1/0\n```\n\n```text\nE: no\n```\n"
    )


@pytest.mark.parametrize(
    ("data", "path", "reason"),
    [
        (b"", "a.md", "empty file"),
        (b"\n \n", "a.md", "empty file"),
        (b"a\0b", "a.md", "binary"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a.png", "binary"),
        (b"x" * 50_000_000, "a.txt", "single line of 50,000,000"),
        (b"[1," * 20_000_000, "a.json", "single line of 60,000,000"),
        (b"not json", "a.ipynb", "not a notebook"),
        (b"{}", "a.ipynb", "no cells"),
        (b"%PDF-1.4 broken", "a.pdf", "pdf"),
        (b"PK\x03\x04broken", "a.docx", "doc"),
        (b"<script>x</script>", "a.html", "no text"),
    ],
)
def test_what_can_not_be_read_says_why(data: bytes, path: str, reason: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseFailed, match=reason):
        read(data, path)
    assert time.process_time() - start < 10


def test_notes_of_decoding_are_kept() -> None:
    assert "replaced" in read(b"words " * 100 + b"\xff", "a.txt").notes[0]


def test_the_bug_of_a_parser_costs_the_structure_of_a_file_and_not_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Parsed:
        raise AttributeError("no replace")

    monkeypatch.setattr("refdesk.parse.code.parser.parse_code", fail)
    parsed = read("def tally(votes):\n    return sum(votes)\n", "a.py")
    assert "tally" in parsed.chunks[0].text and parsed.content_type == "python"
    assert parsed.notes == ("read as plain text: its parser failed: AttributeError: no replace",)


def test_plain_text_is_packed_by_paragraphs() -> None:
    text = "\n\n".join(f"Paragraph {n} with several words in it, and a few more." for n in range(40))
    parsed = read(text, "a.txt", chunking=Chunking(max_tokens=60, min_tokens=10))
    assert [chunk.key for chunk in parsed.chunks][:3] == ["", "_part-2", "_part-3"]
    assert all(chunk.tokens <= 60 for chunk in parsed.chunks)
    assert_sound(text, parsed, cut_lines=False)


def test_a_long_line_is_cut_after_sentences() -> None:
    text = "First line.\n" + "This is a sentence of words. " * 200 + "\nLast line.\n"
    parsed = read(text, "a.txt", chunking=Chunking(max_tokens=60, min_tokens=0))
    inner = [chunk for chunk in parsed.chunks if chunk.start_line == 2]
    assert len(inner) > 10
    assert all(chunk.end_line == 2 and chunk.text.rstrip().endswith(".") for chunk in inner)
    assert "".join(chunk.text for chunk in inner).replace(" ", "") == text.split("\n")[1].replace(" ", "")


def test_overlap() -> None:
    text = "\n".join(f"line {n} of the text" for n in range(100))
    parsed = read(text, "a.txt", chunking=Chunking(max_tokens=50, min_tokens=0, overlap_tokens=12))
    for before, after in zip(parsed.chunks, parsed.chunks[1:], strict=False):
        assert before.end_line - 2 <= after.start_line - 1 < before.end_line


def test_org_and_asciidoc_have_sections() -> None:
    docs = AnyParser(ManifestSet())
    adoc = "= Title\n\nintro\n\n== Install\n\n----\n== not a heading\n----\n\n== Use\n\nwords\n"
    parsed = docs.parse(Content(uri="", path="a.adoc", data=adoc.encode()), Chunking())
    assert [chunk.key for chunk in parsed.chunks] == ["_preamble", "install", "use"]
    org = "* Title\n** TODO Install\nwords\n** Use\nwords\n"
    parsed = docs.parse(Content(uri="", path="a.org", data=org.encode()), Chunking())
    assert [chunk.key for chunk in parsed.chunks] == ["_preamble", "install", "use"]


def test_a_docs_corpus_keeps_plain_files_whole() -> None:
    text = "\n\n".join(["words and words and words"] * 300)
    parsed = AnyParser(ManifestSet()).parse(Content(uri="", path="a.txt", data=text.encode()), Chunking())
    assert [chunk.key for chunk in parsed.chunks] == [""]


def test_large_files_take_seconds() -> None:
    text = "".join(f"## Section {n}\n\nSome words about {n}.\n\n```py\nx = {n}\n```\n\n" for n in range(20_000))
    start = time.process_time()
    parsed = read(text, "a.md")
    assert len(parsed.chunks) > 2_000
    assert time.process_time() - start < 15


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, refdesk.parse; "
        "heavy = {'markdown_it', 'selectolax', 'yaml', 'charset_normalizer', 'tree_sitter', 'pypdfium2', 'docx'}; "
        "print(*sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "\n"


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore")),
    extension=st.sampled_from(
        ["md", "html", "rst", "json", "yaml", "toml", "ini", "csv", "xml", "txt", "ipynb", "org", ""]
    ),
)
def test_any_bytes_give_chunks_or_a_reason(data: bytes, extension: str) -> None:
    try:
        parsed = read(data, f"a.{extension}" if extension else "a", chunking=Chunking(max_tokens=20, min_tokens=3))
    except ParseFailed as error:
        assert str(error)
        return
    keys = [chunk.key for chunk in parsed.chunks]
    assert len(set(keys)) == len(keys)
    assert parsed.text


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(alphabet="ab. \n\t\r。", min_size=1, max_size=300).filter(lambda text: text.strip() != ""),
    limit=st.sampled_from([3, 10, 50]),
    overlap=st.sampled_from([0, 2]),
)
def test_plain_chunks_are_sound(text: str, limit: int, overlap: int) -> None:
    chunking = Chunking(max_tokens=limit, min_tokens=limit // 4, overlap_tokens=overlap)
    parsed = parse_plain(text, "a.txt", chunking)
    lines = text.split("\n")
    covered = {line for chunk in parsed.chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    assert not [n for n, line in enumerate(lines, 1) if line.strip() and n not in covered]
    if not overlap:
        assert_sound(text, parsed, cut_lines=True)


TEMPLATES = {
    "partial.html": '{{ define "aside" }}\n<aside id="toc">{{ .TableOfContents }}</aside>\n{{ end }}\n',
    "login.component.html": '<form (ngSubmit)="login()">\n<p>Sign in to the shop.</p>\n</form>\n',
    "list.html": '<ul class="{% if big %}wide{% endif %}"><li>All orders</li></ul>\n',
    "index.html": '<!doctype html>\n<html><body><div id="app"></div><script src="/main.js"></script></body></html>\n',
}


@pytest.mark.parametrize("path", TEMPLATES)
def test_templates_of_pages_among_sources_are_read_as_they_are_written(path: str) -> None:
    text = TEMPLATES[path]
    content = Content(uri=f"file:///{path}", path=path, data=text.encode())
    parsed = AnyParser(is_source=True).parse(content, Chunking())
    assert parsed.text == text
    assert [(chunk.start_line, chunk.end_line) for chunk in parsed.chunks] == [(1, text.count("\n"))]


def test_a_page_about_templates_is_a_page_also_among_sources() -> None:
    text = '<html><body><h1>Loops</h1><p>Write <code>&lt;li v-for="a in b"&gt;{{ a }}</code>.</p></body></html>'
    content = Content(uri="file:///loops.html", path="loops.html", data=text.encode())
    assert AnyParser(is_source=True).parse(content, Chunking()).title == "Loops"


def test_tags_that_are_never_closed_take_no_time_among_sources() -> None:
    content = Content(uri="file:///open.html", path="open.html", data=b"<a" * 400_000)
    assert AnyParser(is_source=True).parse(content, Chunking()).content_type == "html"


def test_a_page_without_text_is_refused_outside_of_sources() -> None:
    content = Content(uri="file:///index.html", path="index.html", data=TEMPLATES["index.html"].encode())
    with pytest.raises(ParseFailed, match="holds no text"):
        AnyParser().parse(content, Chunking())
