"""Markdown is cut where the docs contract says, and nowhere else."""

from __future__ import annotations

import time
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.prose.manifest import NO_RULES, Governing, ManifestSet, Strategy
from refdesk.parse.prose.markdown import parse_markdown, plain_text, read_outline
from refdesk.parse.prose.passages import split_lines
from refdesk.text import tokens

DOCS = ManifestSet().for_path("guides/retries.md")


def read(
    text: str, rules: Governing = DOCS, chunking: Chunking | None = None, path: str = "guides/retries.md"
) -> Parsed:
    return parse_markdown(text, path, chunking or Chunking(), rules)


def by(**strategy: object) -> Governing:
    return Governing(strategy=Strategy(**strategy))  # type: ignore[arg-type]


def keys(parsed: Parsed) -> list[str]:
    return [chunk.key for chunk in parsed.chunks]


RETRIES = """# Retries
This guide explains how to configure retries.

### Backoff Strategy
The SDK uses an exponential backoff...

### Jitter
To prevent thundering herds, jitter is applied...
"""


@pytest.mark.parametrize("rules", [DOCS, by(chunk_by="h3")])
def test_the_contracts_example(rules: Governing) -> None:
    parsed = read(RETRIES, rules)
    assert keys(parsed) == ["_preamble", "backoff-strategy", "jitter"]
    assert parsed.title == "Retries"
    assert parsed.chunks[0].text == "# Retries\nThis guide explains how to configure retries."
    assert parsed.chunks[1].text == "### Backoff Strategy\nThe SDK uses an exponential backoff..."
    assert parsed.chunks[1].breadcrumb == ("Retries", "Backoff Strategy")
    assert [chunk.kind for chunk in parsed.chunks] == ["preamble", "section", "section"]
    assert [(chunk.start_line, chunk.end_line) for chunk in parsed.chunks] == [(1, 2), (4, 5), (7, 8)]


def test_h2_does_not_split_at_h3_and_h3_splits_at_both() -> None:
    text = "# T\n\n## A\n\na\n\n### B\n\nb\n\n## C\n\nc\n"
    assert keys(read(text)) == ["_preamble", "a", "c"]
    assert keys(read(text, by(chunk_by="h2"))) == ["_preamble", "a", "c"]
    assert keys(read(text, by(chunk_by="h3"))) == ["_preamble", "a", "a/b", "c"]
    assert keys(read(text, by(chunk_by="h1"))) == [""]
    assert keys(read(text, by(chunk_by="file"))) == [""]


def test_an_explicit_level_is_taken_at_its_word() -> None:
    assert keys(read(RETRIES, by(chunk_by="h2"))) == [""]


def test_a_file_without_sections_is_one_chunk() -> None:
    for text in ("just text\n", "# Only a title\n\nand text\n"):
        (chunk,) = read(text).chunks
        assert (chunk.key, chunk.kind) == ("", "file")


def test_a_lone_first_h1_is_the_title_and_further_ones_are_in_the_path() -> None:
    text = "# Auth\n\n## Login\nfirst\n\n## Login\nsecond\n\n# Billing\n\npay\n\n## Retry\nthird\n"
    assert keys(read(text)) == ["_preamble", "auth/login", "auth/login-2", "billing", "billing/retry"]
    assert keys(read(text, by(chunk_by="h1"))) == ["auth", "billing"]
    late = "## Before\n\nx\n\n# Late\n\ny\n\n## After\n\nz\n"
    assert keys(read(late)) == ["before", "late", "late/after"]


def test_text_before_the_first_section_is_the_preamble() -> None:
    assert keys(read("intro\n\n## First\nbody\n")) == ["_preamble", "first"]
    assert keys(read("<img src='logo.png'>\n\n# Title\n\n## First\nbody\n")) == ["_preamble", "first"]


def test_equal_siblings_are_numbered_and_no_key_is_given_twice() -> None:
    assert keys(read("## A\n1\n## A\n2\n## A-2\n3\n## A\n4\n")) == ["a", "a-2", "a-2-2", "a-3"]
    text = "## A\n" + "word " * 30 + "\n\n" + "more " * 30 + "\n\n## A part 2\nx\n"
    assert keys(read(text, by(max_chunk_size=160))) == ["a", "a-part-2-2", "a-part-2"]


def test_equal_headings_under_different_parents_keep_their_slugs() -> None:
    text = "# T\n\n## A\n\n### Example\n\n1\n\n## B\n\n### Example\n\n2\n"
    assert keys(read(text, by(chunk_by="h3"))) == ["_preamble", "a", "a/example", "b", "b/example"]


@pytest.mark.parametrize(
    ("heading", "slug"),
    [
        ("インストール方法", "インストール方法"),
        ("Установка на Linux", "установка-на-linux"),
        ("Über größere Straßen", "über-größere-straßen"),
        ("हिन्दी में", "हिन्दी-में"),
        ("What's `new()` in **v2.0**?", "whats-new-in-v20"),
        ("[Linked](https://example.com) heading", "linked-heading"),
        ("Custom {#my-id}", "custom"),
        ("Custom { #my-id }", "custom"),
        ("Custom {/*my-id*/}", "custom"),
        ("Custom {/* #my-id */}", "custom"),
        ("!!!", "section"),
        ("A  --  B", "a-b"),
    ],
)
def test_slugs_are_readable_in_any_script(heading: str, slug: str) -> None:
    assert keys(read(f"# T\n\n## {heading}\n\nx\n")) == ["_preamble", slug]


def test_oversize_sections_are_divided_at_deeper_headings_first() -> None:
    body = "x" * 50
    text = f"## Authentication\n{body}\n\n### OAuth\n{body}\n\n#### Scopes\n{body}\n\n### JWT\n{body}\n"
    parsed = read(text, by(chunk_by="h2", max_chunk_size=100))
    assert keys(parsed) == [
        "authentication",
        "authentication/oauth",
        "authentication/oauth/scopes",
        "authentication/jwt",
    ]
    assert parsed.chunks[2].breadcrumb == ("retries", "Authentication", "OAuth", "Scopes")


def test_oversize_sections_without_headings_become_parts() -> None:
    text = "# T\n\n## Huge Section\nOne. " + "x" * 80 + "\n\nTwo. " + "x" * 80 + "\n\nThree.\n"
    assert keys(read(text, by(max_chunk_size=110))) == ["_preamble", "huge-section", "huge-section-part-2"]
    assert keys(read("a " * 60 + "\n\n" + "b " * 60, by(max_chunk_size=130))) == ["", "_part-2"]


def test_small_parts_join_the_part_before_but_small_sections_stay() -> None:
    text = "## One\nThis paragraph is intentionally long enough to force a split.\n\ntiny\n"
    assert keys(read(text, by(max_chunk_size=70, min_chunk_size=20))) == ["one"]
    assert keys(read("## One\nsmall\n\n## Two\ntiny\n", by(min_chunk_size=100))) == ["one", "two"]


def test_a_hash_in_a_fence_is_no_heading_and_setext_is_one() -> None:
    text = (
        "Title\n=====\n\n```sh\n# not a heading\n## nor this\n```\n\nPart\n----\n\ntext\n\n> ## quoted\n\n- ## listed\n"
    )
    parsed = read(text)
    assert keys(parsed) == ["_preamble", "part"]
    assert parsed.title == "Title"


def test_fences_tables_and_items_stay_whole_however_large() -> None:
    fence = "```python\n" + "\n\n".join(f"line_{n} = {n}" for n in range(40)) + "\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {n} |" for n in range(40))
    items = "\n".join(f"- item {n}\n\n  continued {n}" for n in range(10))
    parsed = read(f"## S\n\nintro\n\n{fence}\n\n{table}\n\n{items}\n", by(max_chunk_size=200))
    texts = [chunk.text for chunk in parsed.chunks]
    assert sum(fence in text for text in texts) == 1
    assert sum(table in text for text in texts) == 1
    for n in range(10):
        assert sum(f"- item {n}\n\n  continued {n}" in text for text in texts) == 1
    assert len(texts) == 5


def test_a_readme_that_begins_with_html_has_a_title() -> None:
    text = '<h1 align="center">\n  <img src="logo.png"> <b>Project</b>\n</h1>\n\nWords.\n\n## Use\n\nMore.\n'
    assert read(text).title == "Project"
    assert keys(read(text)) == ["_preamble", "use"]


def test_front_matter_is_metadata_and_no_chunk() -> None:
    text = "---\ntitle: My page\nversion: 1.10\ntags: [a, b]\nmetadata:\n  language: python\n---\n# Heading\n\nText.\n"
    parsed = read(text)
    assert parsed.title == "My page"
    assert parsed.metadata == {"title": "My page", "version": "1.10", "tags": "a, b", "language": "python"}
    (chunk,) = parsed.chunks
    assert chunk.metadata == {"language": "python"}
    assert (chunk.start_line, chunk.end_line, chunk.text) == (8, 10, "# Heading\n\nText.")


def test_broken_front_matter_is_noted() -> None:
    parsed = read("---\ntitle: a: b\n  - c\n---\n# H\n\ntext\n")
    assert "front matter is not valid YAML" in parsed.notes[0]
    assert parsed.chunks[0].start_line == 5


def test_toml_front_matter_and_a_rule_that_is_none() -> None:
    assert read('+++\ntitle = "T"\ndraft = false\n+++\ntext\n').metadata == {"title": "T", "draft": "false"}
    assert read("---\n\nJust text after a rule.\n\n---\n\nmore\n").chunks[0].start_line == 1


def test_a_page_of_front_matter_only_is_still_found() -> None:
    (chunk,) = read("---\ntitle: Landing\ndescription: All about it\n---\n").chunks
    assert "All about it" in chunk.text


def test_the_front_matter_and_a_comment_choose_the_strategy() -> None:
    text = "# T\n\n## A\n\n### B\n\nb\n"
    assert keys(read("---\nmcp_chunking_hint: file\n---\n" + text)) == [""]
    assert keys(read("---\nmcp_strategy:\n  chunk_by: h3\n---\n" + text)) == ["_preamble", "a", "a/b"]
    assert keys(read('<!-- mcp_chunking_hint: {"chunk_by": "h3"} -->\n' + text)) == ["_preamble", "a", "a/b"]


@pytest.mark.parametrize(
    ("body", "type_", "language"),
    [
        ("Just words.", "prose", "markdown"),
        ("Try:\n\n```py\nimport os\nprint(os.getcwd())\n```", "code", "python"),
        ("```console\n$ pip install refdesk\n```", "cmd", "bash"),
        ("```\n$ pip install refdesk\n$ refdesk index .\n```", "cmd", "markdown"),
        ("```yaml\na: 1\nb: 2\n```", "config", "yaml"),
        ("| Parameter | Type |\n|---|---|\n| retries | int |\n| delay | float |", "api", "markdown"),
        ("Words, many more words than there is code in here.\n\n```py\nx = 1\n```", "prose", "markdown"),
    ],
)
def test_a_chunk_knows_what_it_mostly_is(body: str, type_: str, language: str) -> None:
    chunk = read(f"# T\n\n## Section\n\n{body}\n").chunks[1]
    assert (chunk.type, chunk.language) == (type_, language)


@pytest.mark.parametrize("heading", ["`connect(host, port)`", "GET /users/{id}", "class Session", "client.retry"])
def test_a_signature_as_heading_is_an_api(heading: str) -> None:
    assert read(f"# T\n\n## {heading}\n\nDoes things.\n").chunks[1].type == "api"


def test_headings_read_as_text() -> None:
    assert plain_text("The `Vec<T>` of *all* [things](x) <br/> &amp; more") == "The Vec<T> of all things & more"


def test_token_limits_hold_where_no_corpus_rules() -> None:
    text = "# Title\n\n## API\n\n### one\n\nshort\n\n### two\n\n" + "\n\n".join(["many words here " * 20] * 20)
    parsed = read(text, NO_RULES, Chunking(max_tokens=200, min_tokens=30))
    assert all(chunk.tokens <= 200 for chunk in parsed.chunks)
    assert parsed.chunks[0].text.startswith("# Title\n\n## API\n\n### one")
    assert len(set(keys(parsed))) == len(parsed.chunks)


@pytest.mark.parametrize("body", ["word " * 900, "\n".join(["a line of words"] * 300)], ids=["one line", "many lines"])
@pytest.mark.parametrize("head", ["# Title\n\n## Part\n\n", "# Title\n\nFew words.\n\n## Part\n\n### Deeper\n\n"])
def test_headings_go_with_what_they_introduce_where_it_is_cut(head: str, body: str) -> None:
    chunks = read(head + body, NO_RULES).chunks
    assert chunks[0].text.startswith(head + body[:20])
    assert (chunks[0].start_line, chunks[0].title) == (1, head.split("# ")[-1].strip())
    assert all(chunk.tokens <= Chunking().max_tokens for chunk in chunks)
    assert "".join("".join(chunk.text for chunk in chunks).split()) == "".join((head + body).split())


def test_a_small_document_is_one_chunk_under_token_limits() -> None:
    (chunk,) = read("# T\n\n## A\n\na\n\n## B\n\nb\n", NO_RULES).chunks
    assert (chunk.key, chunk.kind, chunk.start_line, chunk.end_line) == ("", "file", 1, 9)


def test_overlap_repeats_the_end_of_the_part_before() -> None:
    text = "\n\n".join(f"Paragraph number {n} has a few words in it." for n in range(30))
    parsed = read(text, NO_RULES, Chunking(max_tokens=60, min_tokens=0, overlap_tokens=15))
    for before, after in zip(parsed.chunks, parsed.chunks[1:], strict=False):
        assert after.start_line == before.end_line


def test_crlf_is_kept_and_lines_are_exact() -> None:
    parsed = read("# T\r\n\r\n## A\r\n\r\ntext\r\nmore\r\n")
    assert keys(parsed) == ["_preamble", "a"]
    assert parsed.chunks[1].text == "## A\r\n\r\ntext\r\nmore"
    assert (parsed.chunks[1].start_line, parsed.chunks[1].end_line) == (3, 6)


def test_other_line_separators_do_not_shift_lines() -> None:
    parsed = read("# T\x0b\u2028x\x0cy\n\n## A\n\ntext\n")
    assert parsed.chunks[1].start_line == 3


@pytest.mark.parametrize(
    "text",
    [
        "> " * 10_000 + "deep",
        "- " * 10_000 + "deep",
        "".join("  " * n + "- a\n" for n in range(600)),
        "[" * 50_000,
        "*a_ " * 20_000,
        "`" * 30_000,
        "# " + "[" * 20_000,
        "# " + "<a " * 20_000,
        "|" * 20_000 + "\n" + "|-" * 20_000,
        "<!--\n" * 20_000,
        "---\n" + "a: [" * 5_000 + "\n---\n",
        "---\na: &a [x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n---\ntext",
    ],
    ids=range(12),
)
def test_hostile_nesting_is_survived(text: str) -> None:
    for rules in (DOCS, NO_RULES):
        assert_sound(text, read(text, rules), cut_lines=True)


def test_what_would_take_minutes_is_read_without_its_headings() -> None:
    text = "> " * 50 + "a\n" + "a\n" * 60_000
    start = time.process_time()
    parsed = read(text, NO_RULES)
    assert parsed.notes == ("too intricate: read without its headings",)
    assert time.process_time() - start < 30
    assert_sound(text, parsed, cut_lines=True)


BLOCKS = st.sampled_from(
    [
        "# One", "## Two", "## Two", "### Three", "#### Four", "Setext\n===", "Under\n---", "plain words here",
        "a longer paragraph\nover two lines", "```python\n# comment\n\ndef f(): ...\n```", "~~~\n## no heading\n~~~",
        "- item\n\n  more\n- other", "1. first\n   ```\n   code\n   ```", "| a | b |\n|---|---|\n| 1 | 2 |",
        "> quote\n> ## no", "> said\n> ```\n> a\n>\n> b\n> ```",
        "<div>\n\n## inside\n\n</div>", "<!-- # c -->", "    indented # code", "***", "",
        "[ref]: https://example.com", "日本語の段落です。", "text \\\nbreak", "```", "word " * 60,
    ]
)  # fmt: skip
DOCUMENTS = st.lists(BLOCKS, min_size=1, max_size=25).map("\n\n".join).filter(lambda text: text.strip() != "")
RULES = st.sampled_from(
    [DOCS, NO_RULES, by(chunk_by="h1"), by(chunk_by="h3"), by(chunk_by="file"), by(max_chunk_size=60),
     by(max_chunk_size=90, min_chunk_size=40), by(chunk_by="h3", max_chunk_size=30)]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(text=DOCUMENTS, rules=RULES, limit=st.sampled_from([20, 60, 512]))
def test_chunks_are_sound(text: str, rules: Governing, limit: int) -> None:
    chunking = Chunking(max_tokens=limit, min_tokens=limit // 8)
    parsed = read(text, rules, chunking)
    assert_sound(text, parsed, cut_lines=limit == 20 or rules.strategy is not None)
    assert parsed == read(text, rules, chunking)
    outline = read_outline(split_lines(text))
    for fence in outline.fences:
        holders = [c for c in parsed.chunks if c.start_line <= fence.end and c.end_line > fence.start]
        assert len(holders) == 1, "a fence or table was cut"


@settings(max_examples=200, deadline=None)
@given(text=st.text(min_size=1).filter(lambda text: text.strip() != "" and "\0" not in text), rules=RULES)
def test_any_text_is_survived(text: str, rules: Governing) -> None:
    assert_sound(text, read(text, rules), cut_lines=True)


def assert_sound(text: str, parsed: Parsed, cut_lines: bool) -> None:
    lines = split_lines(text)
    found = keys(parsed)
    assert len(set(found)) == len(found), "a key was given twice"
    body = parsed.chunks[0].start_line if parsed.chunks else 1
    covered = {line for chunk in parsed.chunks for line in range(chunk.start_line, chunk.end_line + 1)}
    missing = [n for n, line in enumerate(lines, 1) if line.strip() and n not in covered and n >= body]
    assert not missing, f"lines in no chunk: {missing}"
    for before, after in zip(parsed.chunks, parsed.chunks[1:], strict=False):
        assert after.start_line >= before.end_line if cut_lines else after.start_line > before.end_line
    for chunk in parsed.chunks:
        assert_chunk(lines, chunk)


def assert_chunk(lines: list[str], chunk: Chunk) -> None:
    assert chunk.text.strip()
    assert chunk.tokens == tokens.pieces(chunk.text)
    assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
    assert chunk.breadcrumb
    assert PurePosixPath(chunk.key).is_absolute() is False


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("07_random_forests.md", "07_random_forests"),
        ("guides/setup.md", "Setup"),
        ("README.md", "Setup"),
        ("data-0123456789ab.md", "Setup"),
    ],
)
def test_the_first_of_several_chapters_is_no_title(path: str, title: str) -> None:
    text = "# Setup\n\nInstall it.\n\n# Trees\n\nGrow them.\n"
    parsed = parse_markdown(text, path, Chunking())
    assert parsed.title == title
    assert {chunk.breadcrumb[0] for chunk in parsed.chunks} == {title}
    assert parse_markdown(f"---\nTitle: Forests\n---\n{text}", path, Chunking()).title == "Forests"


def test_imports_at_the_top_of_a_page_are_no_text() -> None:
    text = (
        "---\ntitle: Start\n---\nimport Note from '~/Note.astro'\nimport {\n  Tabs,\n  Tab\n} from \"@ui/tabs\";\n"
        "import './style.css'\n\nFirst words.\n\n## Use\nimport is a word here.\n"
    )
    parsed = read(text, path="start.mdx")
    assert [(chunk.text, chunk.lines) for chunk in parsed.chunks] == [
        ("First words.", "11-11"),
        ("## Use\nimport is a word here.", "13-14"),
    ]
    assert parsed.text == text
    for whole in ("import duties rise.\n", "import a from 'b'\n", "import {\nas of now\n"):
        assert read(whole).chunks[0].text == whole.strip()
