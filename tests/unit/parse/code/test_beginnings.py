"""Where does a chunk begin?  At a declaration with its comment or at a statement, never at the end of another."""

from __future__ import annotations

import re

import pytest

from refdesk.model import Chunk, Chunking
from refdesk.parse.code.parser import parse_code

CLOSING = re.compile(r"[\s\])};,]*(?:end|fi|done)?\s*")
NAMES = [f"{word}{n}" for n in range(5) for word in ("Reader", "Writer", "Handler", "Decoder")]

# Import statements of many lines, and what follows them.
IMPORTS = {
    "go": (
        "package demo\n\nimport (\n" + "".join(f'\t"example.com/demo/{name.lower()}"\n' for name in NAMES) + ")\n\n",
        "// ErrGone is given when\n// there is none.\nvar (\n"
        + "".join(f'\tErr{name} = errors.New("no {name}")\n' for name in NAMES)
        + ")\n",
    ),
    "typescript": (
        "import {\n" + "".join(f"  {name},\n" for name in NAMES) + "} from './demo';\n\n",
        "// What is known.\nregister(\n" + "".join(f"  {name},\n" for name in NAMES) + ");\n",
    ),
    "javascript": (
        "const {\n" + "".join(f"  {name},\n" for name in NAMES) + "} = require('./demo');\n\n",
        "// What is known.\nregister(\n" + "".join(f"  {name},\n" for name in NAMES) + ");\n",
    ),
    "rust": (
        "use crate::demo::{\n" + "".join(f"    {name},\n" for name in NAMES) + "};\n\n",
        "// What is known.\nregister!(\n" + "".join(f"    {name},\n" for name in NAMES) + ");\n",
    ),
    "python": (
        "from demo import (\n" + "".join(f"    {name},\n" for name in NAMES) + ")\n\n",
        "# What is known.\nregister(\n" + "".join(f"    {name},\n" for name in NAMES) + ")\n",
    ),
    "php": (
        "<?php\nuse Demo\\{\n" + ",\n".join(f"    {name}" for name in NAMES) + "\n};\n\n",
        "// What is known.\nregister(\n" + ",\n".join(f"    {name}::class" for name in NAMES) + "\n);\n",
    ),
    "scala": (
        "import demo.{\n" + ",\n".join(f"  {name}" for name in NAMES) + "\n}\n\n",
        "// What is known.\nregister(\n" + ",\n".join(f"  {name}" for name in NAMES) + "\n)\n",
    ),
    "swift": (
        "".join(f"import {name}\n" for name in NAMES) + "\n",
        "// What is known.\nregister(\n" + ",\n".join(f"    {name}.self" for name in NAMES) + "\n)\n",
    ),
    "c": (
        "".join(f'#include "demo/{name}.h"\n' for name in NAMES) + "\n",
        "/* What is known. */\nstatic const char *names[] = {\n"
        + "".join(f'    "{name}",\n' for name in NAMES)
        + "};\n",
    ),
}


def chunks_of(text: str, language: str, **chunking: int) -> tuple[Chunk, ...]:
    return parse_code(text, "demo/sample", language, Chunking(**chunking)).chunks


@pytest.mark.parametrize("language", IMPORTS)
def test_imports_are_whole_and_what_follows_begins_with_its_comment(language: str) -> None:
    imports, following = IMPORTS[language]
    first, second = chunks_of(imports + following, language)
    assert (first.kind, first.text) == ("imports", imports.rstrip())
    assert second.text == following.rstrip()


def begun_badly(text: str, language: str, sizes: range) -> list[tuple[int, str]]:
    """The chunks, with the size that was asked for, that begin with what ends something else."""
    cut = [(size, chunk.text) for size in sizes for chunk in chunks_of(text, language, max_tokens=size)]
    return [(size, text) for size, text in cut if CLOSING.fullmatch(text.split("\n")[0])]


def test_a_function_that_is_cut_leaves_no_bracket_to_a_chunk_of_its_own() -> None:
    text = "fn f() {\n" + "".join(f"    let value_{n} = compute({n});\n" for n in range(12)) + "}\n"
    whole = chunks_of(text, "rust", max_tokens=1000)[0].tokens
    assert begun_badly(text, "rust", range(whole // 3, whole)) == []


def test_parts_begin_at_statements_and_not_at_the_end_of_blocks() -> None:
    steps = "".join(f"        run({n}, value);\n" for n in range(12))
    blocks = f"    while (ready()) {{\n{steps}    }}\n" * 4
    assert begun_badly(f"function f() {{\n{blocks}}}\n", "javascript", range(60, 120)) == []
