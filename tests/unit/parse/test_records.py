"""Records are cut at their keys, with exact lines, and nothing of them is lost."""

from __future__ import annotations

import json
import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from refdesk.model import Chunking, Parsed
from refdesk.parse.records import parse_records
from refdesk.text import tokens

SMALL = Chunking(max_tokens=40, min_tokens=5)


def read(text: str, kind: str, chunking: Chunking = SMALL) -> Parsed:
    return parse_records(text, f"conf/file.{kind}", chunking, kind)


def lines_of(parsed: Parsed) -> list[tuple[str, int, int]]:
    return [(chunk.key, chunk.start_line, chunk.end_line) for chunk in parsed.chunks]


def test_a_small_record_is_one_chunk() -> None:
    (chunk,) = read('{"a": 1}', "json").chunks
    assert (chunk.key, chunk.kind, chunk.type, chunk.language) == ("", "file", "config", "json")
    assert chunk.breadcrumb == ("file.json",)


def test_json_is_cut_at_its_keys() -> None:
    scripts = {f"script{n}": f"run the script number {n} of all scripts" for n in range(6)}
    text = json.dumps({"name": "x", "scripts": scripts, "license": "MIT"}, indent=2)
    parsed = read(text, "json")
    assert parsed.chunks[0].start_line == 1
    assert parsed.chunks[-1].end_line == text.count("\n") + 1
    assert "scripts/script3" in [chunk.key for chunk in parsed.chunks]
    inner = next(chunk for chunk in parsed.chunks if chunk.key == "scripts/script3")
    assert inner.breadcrumb[:2] == ("file.json", "scripts")
    assert inner.text.lstrip().startswith('"script3"')


def test_json_on_one_line_is_cut_too() -> None:
    text = json.dumps([{"id": n, "text": "some words of text " * 3} for n in range(50)])
    parsed = read(text, "json")
    assert len(parsed.chunks) > 20
    assert all(chunk.tokens <= 60 and chunk.start_line == chunk.end_line == 1 for chunk in parsed.chunks)
    assert "".join(chunk.text for chunk in parsed.chunks) == text


def test_comments_and_odd_strings_do_not_confuse_json() -> None:
    text = (
        '{\n  // a "comment" {\n  "a": "br{ace, \\" and [",\n' + "".join(f'  "k{n}": {n},\n' for n in range(40)) + "}"
    )
    parsed = read(text, "json")
    assert parsed.chunks[0].key == "a"
    assert parsed.chunks[0].title.startswith("a, k0")


def test_yaml_is_cut_at_its_keys_with_their_comments() -> None:
    text = (
        "# header\nname: x\n\n# about the jobs\njobs:\n  # first\n  build:\n"
        "    run: |\n      echo: not a key\n      done\n"
        + "".join(f"    step{n}: do the step number {n}\n" for n in range(8))
        + "  test:\n"
        + "".join(f"    check{n}: look at {n}\n" for n in range(8))
    )
    parsed = read(text, "yaml")
    keys = [chunk.key for chunk in parsed.chunks]
    assert keys[0] == "name"
    assert "jobs/test/check0" in keys or "jobs/test" in keys
    assert not any("echo" in key for key in keys)
    start = next(chunk for chunk in parsed.chunks if "# about the jobs" in chunk.text)
    assert start.key.startswith("jobs")


def test_yaml_streams_are_cut_at_their_documents() -> None:
    one = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  type: ClusterIP of some kind\n"
    parsed = read("---\n" + one + "---\n" + one.replace("Service", "Deployment"), "yaml")
    assert [chunk.title for chunk in parsed.chunks] == ["Service web", "Deployment web"]


def test_toml_is_cut_at_its_tables() -> None:
    text = 'top = 1\n\n[tool.a]\nx = """\n[not.a.table]\n"""\ny = [\n[1, 2]\n]\n' + "long = 'value of words here'\n" * 6
    text += "\n# about b\n[[tool.b]]\nz = 1\nw = 'several words go here to fill'\n"
    parsed = read(text, "toml")
    keys = [chunk.key for chunk in parsed.chunks]
    assert not any("not.a.table" in key for key in keys)
    last = parsed.chunks[-1]
    assert last.key == "tool.b"
    assert last.text.startswith("# about b")


def test_ini_and_properties() -> None:
    text = "[one]\nkey = several words of a value here\n" + "more = words and words\n" * 8 + "; note\n[two]\nk: v\n" * 2
    assert [chunk.key for chunk in read(text, "ini").chunks][-1].startswith("two")


def test_csv_keeps_quoted_rows_whole_and_names_the_columns() -> None:
    text = "name,text\n" + "".join(f'row{n},"first line\nsecond {n}"\n' for n in range(20))
    parsed = read(text, "csv")
    assert len(parsed.chunks) > 3
    assert all(chunk.text.count('"') % 2 == 0 for chunk in parsed.chunks)
    assert parsed.chunks[1].signature == "name,text"
    assert parsed.chunks[1].title.startswith("row ")


def test_json_lines() -> None:
    text = "".join(json.dumps({"id": f"item-{n}", "body": "words " * 10}) + "\n" for n in range(10))
    parsed = read(text, "jsonl")
    assert parsed.chunks[0].title.startswith("1 item-0")
    assert lines_of(parsed)[-1][2] == 10


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", "[" * 100_000),
        ("json", '{"a":' * 20_000 + "1" + "}" * 20_000),
        ("json", '"' + "x" * 200_000 + '"'),
        ("json", '{"a": "' + "word " * 50_000),
        ("yaml", "".join("  " * n + f"k{n}:\n" for n in range(1_500))),
        ("yaml", "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nd: [*c,*c]\n" * 20),
        ("yaml", "- " * 50_000),
        ("yaml", "? " * 5_000),
        ("toml", "[" * 100_000),
        ("csv", '"' * 100_001),
        ("ini", "=" * 100_000),
        ("jsonl", "{" * 50_000 + "\n" + "}" * 50_000),
    ],
    ids=range(12),
)
def test_hostile_records_are_survived(kind: str, text: str) -> None:
    start = time.process_time()
    parsed = read(text, kind, Chunking())
    assert time.process_time() - start < 10
    assert_sound(text, parsed)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=150, deadline=None)
@given(value=VALUES, indent=st.sampled_from([None, 2]), limit=st.sampled_from([8, 30, 200]))
def test_any_json_is_covered(value: object, indent: int | None, limit: int) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    assert_sound(text, read(text, "json", Chunking(max_tokens=limit, min_tokens=limit // 5)))


@settings(max_examples=100, deadline=None)
@given(value=VALUES, limit=st.sampled_from([8, 30, 200]))
def test_any_yaml_is_covered(value: object, limit: int) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert_sound(text, read(text, "yaml", Chunking(max_tokens=limit, min_tokens=limit // 5)))


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(alphabet="ab1 \n\t{}[]\",:=#-|>'\r", max_size=200).filter(lambda text: text.strip() != ""),
    kind=st.sampled_from(["json", "yaml", "toml", "ini", "csv", "jsonl"]),
)
def test_any_text_is_covered(text: str, kind: str) -> None:
    assert_sound(text, read(text, kind, Chunking(max_tokens=10, min_tokens=2)))


def assert_sound(text: str, parsed: Parsed) -> None:
    lines = text.split("\n")
    keys = [chunk.key for chunk in parsed.chunks]
    assert len(set(keys)) == len(keys)
    covered: set[int] = set()
    for chunk in parsed.chunks:
        covered |= set(range(chunk.start_line, chunk.end_line + 1))
        assert chunk.text in text
        assert chunk.tokens == tokens.pieces(chunk.text)
        assert chunk.text.strip("\r\n") in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
    assert not [n for n, line in enumerate(lines, 1) if line.strip() and n not in covered]
    assert [chunk.start_line for chunk in parsed.chunks] == sorted(chunk.start_line for chunk in parsed.chunks)


def test_the_first_member_of_an_object_is_cut_at_its_own_members() -> None:
    schemas = {f"schema{number}": {"description": "what it holds " * 20} for number in range(30)}
    text = json.dumps({"components": {"schemas": schemas, "tags": ["a"]}, "info": {"title": "x"}}, indent=2)
    parsed = parse_records(text, "api.json", Chunking(), "json")
    assert {chunk.breadcrumb for chunk in parsed.chunks if '"schema2"' in chunk.text} == {
        ("api.json", "components", "schemas")
    }
    assert max(len(chunk.breadcrumb) for chunk in parsed.chunks) == 3
    assert max(chunk.tokens for chunk in parsed.chunks) <= 512
