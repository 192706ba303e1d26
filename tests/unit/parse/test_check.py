"""`refdesk docs check` finds what an author would want to know."""

from __future__ import annotations

from pathlib import Path

from refdesk.parse.prose.check import Problem, check


def corpus(root: Path, **files: str) -> Path:
    for name, text in files.items():
        file = root / name.replace("__", "/").replace("_md", ".md").replace("_json", ".json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_sound_corpus_has_no_problems(tmp_path: Path) -> None:
    root = corpus(
        tmp_path,
        index_md="# Home\n\n[a](guides/a.md#set-up) [b](guides/a) [c](guides/a.html#naming_things) "
        "<a href='guides/'>g</a>\n\n[ref]: guides/a.md\n\n"
        "[ref] and [web](https://example.com) `[no](nowhere.md)` [mail](mailto:a@b.c)\n",
        guides__a_md="---\ntitle: A\n---\n# A\n\n## Set up\n\n[up](../index.md) [here](#set-up) [x](#by-hand)\n\n"
        "## Naming_things\n\n<a id='by-hand'></a>\n\n```\n[no](nowhere.md)\n```\n",
    )
    assert check(root) == []


def test_problems_have_their_lines(tmp_path: Path) -> None:
    root = corpus(
        tmp_path,
        a_md="---\ntitle: x\nbad: a: b\n---\n# A\n\ntext\n"
        "[gone](missing.md)\nand [head](b.md#nope)\n\n![pic](no.png)\n",
        b_md="# B\n\n## Same\n\none\n\n## Same\n\ntwo\n\n[self](#none)\n",
    )
    found = check(root)
    assert [(problem.path, problem.line) for problem in found] == [
        ("a.md", 3), ("a.md", 8), ("a.md", 9), ("a.md", 11), ("b.md", 7), ("b.md", 11),
    ]  # fmt: skip
    messages = " | ".join(problem.message for problem in found)
    assert "front matter is not valid YAML" in messages
    assert "dead link 'missing.md': there is no such file" in messages
    assert "dead link 'b.md#nope': there is no such heading" in messages
    assert "duplicate id: another section is called 'Same', so this one is #same-2" in messages


def test_oversize_sections(tmp_path: Path) -> None:
    long = "\n\n".join(["word " * 20] * 4)
    fence = "```\n" + "x" * 300 + "\n```"
    manifest = '{"version": "1", "strategy": {"chunk_by": "h2", "max_chunk_size": 200}, "colour": 1}'
    root = corpus(tmp_path, a_md=f"# A\n\n## Long\n\n{long}\n\n## Code\n\n{fence}\n")
    (root / ".docs-mcp.json").write_text(manifest)
    assert check(root) == [
        Problem(".docs-mcp.json", 1, "unknown key 'colour': it is ignored"),
        Problem("a.md", 3, "oversize section #long: more than 200 characters, it is cut into 4 parts"),
        Problem("a.md", 13, "oversize section #code: 317 characters that can't be cut, limit 200"),
    ]


def test_broken_manifests_and_files_are_told(tmp_path: Path) -> None:
    root = corpus(tmp_path, a_md="# A\n\ntext\n", empty_md="")
    (root / ".docs-mcp.json").write_text("{")
    (root / "bin.md").write_bytes(b"\0\1\2")
    found = check(root)
    assert [problem.path for problem in found] == [".docs-mcp.json", "bin.md", "empty.md"]


def test_labels_of_sphinx_are_no_files(tmp_path: Path) -> None:
    root = corpus(tmp_path, a_md="# A\n\n[label](how-it-works) [file](gone.md)\n")
    (root / "conf.py").write_text("")
    assert [problem.message for problem in check(root)] == ["dead link 'gone.md': there is no such file"]
