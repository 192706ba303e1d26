"""Texts at the edge: empty, deep, long, broken."""

from __future__ import annotations

import lzma
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from refdesk.model import Chunking
from refdesk.parse.code.languages import LANGUAGES, language_of
from refdesk.parse.code.parser import parse_code


def parse(text: str, language: str = "python", **chunking: int):
    return parse_code(text, "a/b.x", language, Chunking(**chunking))


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n\r\n"])
@pytest.mark.parametrize("language", ["python", "swift", "zig", "no such language"])
def test_nothing_gives_no_chunks(text: str, language: str) -> None:
    parsed = parse(text, language)
    assert parsed.chunks == parsed.symbols == parsed.references == parsed.notes == ()


def test_a_file_of_one_chunk_has_the_empty_key() -> None:
    (chunk,) = parse("def f():\n    return 1\n").chunks
    assert (chunk.key, chunk.kind, chunk.title, chunk.breadcrumb) == ("", "function", "f", ("a/b.x",))


def test_an_unknown_language_is_cut_by_blank_lines() -> None:
    parsed = parse("\n\n".join(f"word {n} " * 10 for n in range(50)), "no such language", max_tokens=100)
    assert len(parsed.chunks) > 5
    assert parsed.notes == ("read without its syntax",)


@pytest.mark.parametrize("language", sorted(LANGUAGES))
@pytest.mark.parametrize("pair", ["()", "[]", "{}"])
def test_deep_nesting(language: str, pair: str) -> None:
    assert parse(f"x = {pair[0] * 10_000}1{pair[1] * 10_000}\n", language).chunks


def test_deeply_nested_definitions() -> None:
    text = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(3000)) + " " * 3000 + "pass\n"
    assert parse(text).chunks
    text = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(150)) + " " * 150 + "pass\n"
    assert len(parse(text).symbols) == 150


def test_what_is_beside_syntax_errors_is_read() -> None:
    parsed = parse("def good():\n    return 1\n\nx = = broken )\n\ndef also_good(x):\n    return x\n")
    assert {"good", "also_good"} <= {symbol.name for symbol in parsed.symbols}


def test_a_long_comment_is_no_sign_of_another_language() -> None:
    prose = "/**\n" + " * Route it through an HTTP proxy: see the manual.\n" * 400 + "*/\n"
    parsed = parse(prose + "class First(val x: Int)\n" + prose + "class Second(val x: Int)\n", "kotlin")
    assert parsed.notes == ()
    assert {"First", "Second"} <= {symbol.name for symbol in parsed.symbols}


def test_a_long_line_is_cut_into_pieces() -> None:
    parsed = parse("x = [" + "1234567, " * 20_000 + "]\n")
    assert len(parsed.chunks) > 10
    assert {(chunk.start_line, chunk.end_line) for chunk in parsed.chunks} == {(1, 1)}
    assert len({chunk.key for chunk in parsed.chunks}) == len(parsed.chunks)


def test_names_in_any_script() -> None:
    parsed = parse("class Größe:\n    def 计算(self):\n        return self.ｘ()\n")
    assert [symbol.qualified for symbol in parsed.symbols] == ["Größe", "Größe.计算"]


def test_lone_surrogates_and_nul() -> None:
    assert parse("x = '\ud800'\n\0\ndef f(): pass\n").chunks


def test_overlap_repeats_the_end_of_the_part_before() -> None:
    body = "\n".join(f"    value_{n} = compute({n})" for n in range(100))
    plain = parse(f"def f():\n{body}\n", max_tokens=200).chunks
    overlapping = parse(f"def f():\n{body}\n", max_tokens=200, overlap_tokens=30).chunks
    assert [c.key for c in plain] == ["f"] + [f"f-part-{n}" for n in range(2, len(plain) + 1)]
    assert all(b.start_line == a.end_line + 1 for a, b in pairwise(plain))
    assert all(b.start_line <= a.end_line for a, b in pairwise(overlapping))


def test_a_generated_file_of_a_megabyte_takes_seconds() -> None:
    text = "".join(f"def function_{n}(a, b):\n    return other_{n}(a, key=b.c[{n}])\n\n\n" for n in range(15_000))
    started = time.process_time()
    assert len(parse(text).symbols) == 15_000
    assert time.process_time() - started < 10


def test_importing_loads_no_grammar() -> None:
    code = "import sys, refdesk.parse.code; print([m for m in sys.modules if 'language_pack' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_file_gives_the_same_in_every_process() -> None:
    text = "package a\n\nfunc f() {\n\tone, two, three := g()\n\tone.h(two.i(), three.j())\n}\n"
    code = (
        "from refdesk.model import Chunking; from refdesk.parse.code.parser import parse_code;"
        f" print(parse_code({text!r}, 'a.go', 'go', Chunking()))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in "1234"
    }
    assert len(found) == 1


@pytest.mark.parametrize("cache", ["cache", "a file/cache", "damaged"])
def test_grammars_of_a_wheel_are_unpacked_on_first_use(cache: str, tmp_path: Path) -> None:
    import tree_sitter_c_sharp
    import tree_sitter_language_pack

    (python,) = Path(tree_sitter_language_pack.__file__).parent.glob("bindings/python.*")
    (csharp,) = Path(tree_sitter_c_sharp.__file__).parent.glob("_binding.*")
    packed = tmp_path / "grammars"
    packed.mkdir()
    for name, file in {"python": python, "csharp": csharp}.items():
        (packed / f"{name}.{file.stat().st_size}.xz").write_bytes(lzma.compress(file.read_bytes(), preset=0))
    (tmp_path / "a file").touch()
    code = f"""if True:
        import sys
        from pathlib import Path
        import platformdirs
        from refdesk.parse.code import syntax
        syntax._PACKED = Path({str(packed)!r})
        platformdirs.user_cache_path = lambda *_, **__: Path({str(tmp_path / cache)!r})
        print(syntax.parse(b"f(1)", "python").root_node, syntax.parse(b"f(1);", "csharp").root_node.type,
              syntax.grammar("zig"), "tree_sitter_language_pack" in sys.modules)"""
    expected = "(module (call function: (identifier) arguments: (argument_list (integer))))"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == f"{expected} compilation_unit None False"
        unpacked = [file for file in tmp_path.glob(f"{cache}/grammars/*") if cache != "a file/cache"]
        assert len(unpacked) == (0 if cache == "a file/cache" else 2)
        for file in unpacked if cache == "damaged" else ():
            file.write_bytes(file.read_bytes()[:1000])


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        ("a/b.PY", "", "python"),
        ("Makefile", "", "make"),
        ("bin/tool", "#!/usr/bin/env python3\n", "python"),
        ("bin/tool", "#!/bin/sh -e\n", "bash"),
        ("LICENSE", "MIT", ""),
        ("a.h", "", "c"),
        ("a.h", "int f(void);\n", "c"),
        ("a.h", "#pragma once\nnamespace a {\n", "cpp"),
        ("a.h", "@interface A : NSObject\n", "objc"),
    ],
)
def test_language_of_a_file(path: str, head: str, language: str) -> None:
    assert language_of(path, head) == language


def test_sql_in_a_template_is_read_by_its_syntax() -> None:
    text = """
{% if target.name == 'prod' %}
create table {{ index .Options "Namespace" }}.users (id int, name text);
{% endif %}
create function {{ schema }}.uid() returns int as $$ select 1 $$ language sql;
"""
    assert [symbol.qualified for symbol in parse(text, "sql").symbols] == ["users", "users.id", "users.name", "uid"]


def test_a_name_with_hyphens_is_one_name() -> None:
    parsed = parse_code("function Get-Order {\n  Write-Host 1\n}\n", "shop.ps1", "powershell", Chunking())
    assert [f"{one.kind} {one.qualified}" for one in parsed.symbols] == ["function Get-Order"]


def test_clauses_of_an_erlang_function_are_one_symbol_and_another_arity_is_another() -> None:
    text = "price(apple) ->\n    3;\n%% the rest\nprice(_) ->\n    0.\n\nprice(One, More) -> price(One) + More.\n"
    found = [(one.name, one.start_line, one.end_line) for one in parse(text, "erlang").symbols]
    assert found == [("price", 1, 5), ("price", 7, 7)]
