"""Every file gets the type a person would give it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from refdesk.parse.detect import by_content, by_name, detect, display_name


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("src/main.rs", "rust"), ("a.py", "python"), ("a.ts", "typescript"), ("a.js", "javascript"), ("a.go", "go"),
        ("A.java", "java"), ("a.cpp", "cpp"), ("README.md", "markdown"), ("docs/page.MDX", "markdown"),
        ("i.html", "html"), ("p.json", "json"), ("c.yml", "yaml"), ("notes.txt", "plain_text"), ("p.toml", "toml"),
        ("i.rst", "rst"), ("d.csv", "csv"), ("setup.cfg", "ini"), ("pom.xml", "xml"), ("n.ipynb", "notebook"),
        ("README", "markdown"), ("LICENSE", "plain_text"), (".env", "ini"), ("a.pdf", "pdf"), ("a.docx", "docx"),
        ("llms.txt", "markdown"), ("a.jsonl", "jsonl"), ("noextension", ""), (".hidden", ""), ("a.unknown", ""),
        ("lib/CMakeLists.txt", "cmake"), ("api/core.api", "plain_text"), ("meson_options.txt", "meson"),
        ("values.yaml.j2", "yaml"), ("config.h.in", "c"), ("Dockerfile.j2", "dockerfile"), ("app.toml.example", "toml"),
        ("page.html.erb", ""), ("requirements.in", ""), ("README.md.tmpl", "markdown"), ("up.sh.tpl", "bash"),
    ],
)  # fmt: skip
def test_by_name(path: str, kind: str) -> None:
    assert by_name(path) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("#!/usr/bin/env python3\nprint(1)\n", "python"),
        ("#!/bin/sh\necho\n", "bash"),
        ("#! /usr/bin/env -S node --x\n", "javascript"),
        ("<!DOCTYPE html>\n<p>x", "html"),
        ("  <!-- c -->\n<html lang='en'>", "html"),
        ('<?xml version="1.0"?><a/>', "xml"),
        ('{"a": [1, 2]}', "json"),
        ("[1, 2, 3]", "json"),
        ("{not json}", "plain_text"),
        ("# Title\n\nSome words.\n", "markdown"),
        ("---\ntitle: x\n---\nwords\n", "markdown"),
        ("Title\n=====\n\n.. note:: x\n\n``code`` and :ref:`there`\n", "rst"),
        ("Just some words.\nAnd more.\n", "plain_text"),
    ],
)
def test_by_content(text: str, kind: str) -> None:
    assert by_content(text) == kind


FIXTURES = Path(__file__).parents[2] / "fixtures" / "code"


@pytest.mark.parametrize("suffix", ["rs", "py", "ts", "js", "go", "java", "cpp"])
def test_code_without_a_name_is_known_by_its_signs(suffix: str) -> None:
    (file,) = FIXTURES.glob(f"*.{suffix}")
    text = file.read_text("utf-8")
    assert by_content(text) == by_name(file.name)
    assert by_content(text[: len(text) // 2]) == by_name(file.name)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('fn main() {\n    println!("Hello");\n}\n', "rust"),
        ("def f(a):\n    return a\n", "python"),
        ("interface A {\n  name: string;\n}\n", "typescript"),
        ("const a = (b) => b + 1;\n", "javascript"),
        ('package main\n\nfunc main() {\n\tprintln("x")\n}\n', "go"),
        ("public class A {\n  public static void main(String[] a) {}\n}\n", "java"),
        ("#include <vector>\nstd::vector<int> a;\n", "cpp"),
        ('#include <stdio.h>\nint main(void) { printf("x"); return 0; }\n', "c"),
        ("name: refdesk\non: [push]\njobs:\n  test:\n    runs-on: ubuntu\n", "yaml"),
        ("# a comment\n- one: 1\n  two: 2\n- one: 3\n", "yaml"),
        ("Customer: my order is late\nAgent: let me look\n", "plain_text"),
        ("- bread\n- milk\n- eggs\n", "plain_text"),
        ("We import goods from abroad, let us say tea.\nThe class of 1990 met: all of them came.\n", "plain_text"),
        ("# How to\n\n```python\nimport os\n\ndef f():\n    return os.name\n```\n", "markdown"),
    ],
)
def test_texts_without_a_name(text: str, kind: str) -> None:
    assert by_content(text) == kind


def test_blank_lines_and_brackets_without_end_take_no_time() -> None:
    for text in ("\n" * 8_000, " " * 8_000, "a::" * 3_000, "(" * 8_000, "x: " * 3_000, "#[" * 4_000):
        began = time.process_time()
        by_content(text)
        assert time.process_time() - began < 5


def test_prose_is_not_taken_for_code() -> None:
    for file in (FIXTURES.parent / "conversations").glob("*.yaml"):
        if file.stem == "split":  # says which are for what
            continue
        words = "\n".join(line.strip(" -|") for line in file.read_text("utf-8").splitlines() if " " in line.strip())
        assert by_content(words) in ("plain_text", "markdown"), file.name


def test_what_is_declared_comes_first_unless_it_says_nothing() -> None:
    assert detect("a.py", "x", "markdown") == "markdown"
    assert detect("page", "x", "text/html; charset=utf-8") == "html"
    assert detect("a.md", "x", "text/plain") == "markdown"
    assert detect("a", "x", "application/octet-stream") == "plain_text"
    assert detect("a", "x", "application/vnd.api+json") == "json"


def test_display_names() -> None:
    names = {"rust": "Rust", "cpp": "C++", "plain_text": "Plain Text", "typescript": "TypeScript", "json": "JSON"}
    assert {kind: display_name(kind) for kind in names} == names


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("int f(void);\n", "c"),
        ("#pragma once\nclass Reader : public Base {\n public:\n  int read();\n};\n", "cpp"),
        ("@interface Reader : NSObject\n- (int)read;\n@end\n", "objc"),
        ("/* Read it\n   using std::vector or\n   class X {\n*/\nint f(void);\n", "c"),
        ("int f(void);\n/* never closed\nclass Reader {\n", "c"),
        ("/*" + " licence\n" * 2_000 + "*/\nnamespace io {\nint read();\n}\n", "cpp"),
    ],
)
def test_a_header_is_of_the_language_it_is_written_in(text: str, language: str) -> None:
    assert detect("include/reader.h", text) == language
    assert detect("include/reader.h", text, "c") == "c"
