"""Every file gets the type a person would give it."""

from __future__ import annotations

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


def test_what_is_declared_comes_first_unless_it_says_nothing() -> None:
    assert detect("a.py", "x", "markdown") == "markdown"
    assert detect("page", "x", "text/html; charset=utf-8") == "html"
    assert detect("a.md", "x", "text/plain") == "markdown"
    assert detect("a", "x", "application/octet-stream") == "plain_text"
    assert detect("a", "x", "application/vnd.api+json") == "json"


def test_display_names() -> None:
    names = {"rust": "Rust", "cpp": "C++", "plain_text": "Plain Text", "typescript": "TypeScript", "json": "JSON"}
    assert {kind: display_name(kind) for kind in names} == names
