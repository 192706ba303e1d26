"""reStructuredText is cut at its sections, and its directives stay whole."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from refdesk.model import Chunking, Parsed
from refdesk.parse.prose.manifest import NO_RULES, Governing, ManifestSet, Strategy
from refdesk.parse.prose.rst import parse_plain, parse_rst, plain_text

from .test_markdown import assert_sound

DOCS = ManifestSet().for_path("index.rst")
TEXT = """:author: Someone

=====
Title
=====

Intro with ``code``.

.. contents::

Install
=======

Run this::

    pip install x

    # done

Usage
=====

.. code-block:: python

   import x

   x.run()

Details
-------

.. function:: run(speed=1)

   Runs.

More
====

+---+---+
| a | b |
+---+---+
"""


def read(text: str, rules: Governing = DOCS, chunking: Chunking | None = None) -> Parsed:
    return parse_rst(text, "docs/index.rst", chunking or Chunking(), rules)


def test_sections() -> None:
    parsed = read(TEXT)
    assert [chunk.key for chunk in parsed.chunks] == ["_preamble", "install", "usage", "more"]
    assert parsed.title == "Title"
    assert parsed.metadata == {"author": "Someone"}
    assert parsed.chunks[2].breadcrumb == ("Title", "Usage")
    assert (parsed.chunks[1].start_line, parsed.chunks[1].end_line) == (11, 18)
    assert all(chunk.language in ("rst", "python") for chunk in parsed.chunks)


def test_h3_splits_deeper_and_objects_divide_what_is_too_large() -> None:
    deeper = read(TEXT, Governing(strategy=Strategy(chunk_by="h3")))
    assert [chunk.key for chunk in deeper.chunks] == ["_preamble", "install", "usage", "usage/details", "more"]
    text = "Title\n=====\n\n" + "".join(f".. function:: f{n}(x)\n\n   {'word ' * 30}\n\n" for n in range(6))
    parsed = read(text, NO_RULES, Chunking(max_tokens=80, min_tokens=0))
    assert [chunk.title for chunk in parsed.chunks] == ["Title", *(f"f{n}(x)" for n in range(6))]


def test_methods_are_below_their_class() -> None:
    text = "T\n=\n\n.. class:: Client\n\n   Talks.\n\n   .. method:: close()\n\n      " + "Ends it. " * 60 + "\n"
    parsed = read(text, NO_RULES, Chunking(max_tokens=60, min_tokens=0))
    assert parsed.chunks[-1].breadcrumb == ("T", "Client", "close()")


def test_code_is_never_cut() -> None:
    code = ".. code-block:: python\n\n" + "\n\n".join(f"   line_{n} = {n}" for n in range(60))
    literal = "Look::\n\n" + "\n\n".join(f"   other {n}" for n in range(60))
    parsed = read(f"T\n=\n\n{code}\n\n{literal}\n\nend\n", NO_RULES, Chunking(max_tokens=50))
    assert sum(code in chunk.text for chunk in parsed.chunks) == 1
    assert sum(literal in chunk.text for chunk in parsed.chunks) == 1


def test_roles_and_links_read_as_text() -> None:
    assert (
        plain_text(":class:`~a.b.Client` and `link <http://x>`_ or **bold** ``code``") == "Client and link or bold code"
    )


def test_an_include_is_not_followed() -> None:
    parsed = read("T\n=\n\n.. include:: /etc/passwd\n\n.. raw:: html\n   :file: /etc/passwd\n")
    assert "root:" not in "".join(chunk.text for chunk in parsed.chunks)


@pytest.mark.parametrize(
    "text",
    [
        ".. note::\n" + "".join(" " * n + ".. note::\n" for n in range(1, 2_000)),
        "=" * 100_000,
        "::\n\n" + " x\n" * 50_000,
        ".. class:: A\n\n" + "".join("   " * n + ".. class:: B\n\n" for n in range(1, 500)),
        "+-" * 50_000,
    ],
    ids=range(5),
)
def test_hostile_nesting_is_survived(text: str) -> None:
    assert_sound(text, read(text), cut_lines=True)


BLOCKS = st.sampled_from(
    [
        "Title\n=====", "=====\nOver\n=====", "Sub\n---", "Sub\n~~~", "words here\nand more", "====", "* * *", "",
        "code::\n\n   x = 1\n\n   y = 2", ".. code-block:: sh\n\n   ls\n\n   pwd", "- item\n\n  more\n- two",
        ".. note:: hi\n   there\n\n   more", "===  ===\na    b\n===  ===\n1    2\n===  ===", "+--+\n|a |\n+--+",
        ".. _target:", ".. comment\n   of two", "term\n   means", "   quoted\n\n   block", ">>> 1 + 1\n2", ":field: x",
        ".. class:: A\n\n   doc\n\n   .. method:: b()\n\n      more",
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    text=st.lists(BLOCKS, min_size=1, max_size=20).map("\n\n".join).filter(lambda text: text.strip() != ""),
    rules=st.sampled_from([DOCS, NO_RULES, Governing(strategy=Strategy(chunk_by="h3", max_chunk_size=40))]),
)
def test_chunks_are_sound(text: str, rules: Governing) -> None:
    assert_sound(text, read(text, rules, Chunking(max_tokens=30, min_tokens=5)), cut_lines=True)


@settings(max_examples=200, deadline=None)
@given(text=st.text(alphabet="ab \n=-~.:+|*`>", min_size=1, max_size=150).filter(lambda text: text.strip() != ""))
@example(":\n \n=:=:=>:=>:=")
def test_any_text_is_survived(text: str) -> None:
    assert_sound(text, read(text, NO_RULES, Chunking(max_tokens=10, min_tokens=2)), cut_lines=True)


_WATER = "Water flows from the well to the house and from there to the garden, where all of it is needed.\n" * 5
_HELP = f"""*flow.txt*  For Vim version 9.1.  Last change: 2026 Feb 14

                  VIM REFERENCE MANUAL    by Somebody

                        Moving water

|flow-start|    Starting

==============================================================================
1. Starting                                     *flow-start* *E999*

{_WATER}
                                                *:Flow*
:Flow {{rate}}            Lets water flow at that rate, as `a * b * c` would.
{_WATER}
MAPPINGS                                        *flow-maps*

{_WATER}
"""


def test_help_of_vim_is_cut_at_its_tags() -> None:
    parsed = parse_plain(_HELP, "doc/flow.txt", Chunking(max_tokens=200))
    assert parsed.title == "Moving water"
    assert [(one.breadcrumb[1:], one.start_line) for one in parsed.chunks] == [
        ((), 1),
        (("1. Starting flow-start E999",), 10),
        (("1. Starting flow-start E999", ":Flow"), 18),
        (("MAPPINGS flow-maps",), 26),
    ]
    by_mode_line = _HELP.replace("*flow.txt*", "flow.txt") + "\n vim:tw=78:ft=help:norl:\n"
    assert len(parse_plain(by_mode_line, "doc/flow.txt", Chunking(max_tokens=200)).chunks) == 4
    assert parse_plain(_HELP, "doc/flow.log", Chunking()).title == "flow.log"


_NOTES = """\
tool(1)
=======

NAME
----
tool - does things

[verse]
'tool' <file>

------------
$ tool a

Not a title
-----------
------------

Key  Value
----------

== Limits ==

OPTIONS
-------
All of them.
"""


def test_headings_of_plain_text_are_underlined_or_between_signs() -> None:
    parsed = parse_plain(_NOTES, "tool.txt", Chunking(), rules=ManifestSet().for_path("tool.txt"))
    assert parsed.title == "tool(1)"
    assert [(one.title, one.start_line) for one in parsed.chunks] == [
        ("tool(1)", 1), ("NAME", 4), ("Limits", 21), ("OPTIONS", 23)
    ]  # fmt: skip
    assert_sound(_NOTES, parsed, cut_lines=False)
    one = parse_plain("Notes\n=====\n\nOnly one.\n", "a.txt", Chunking())
    assert [(chunk.kind, chunk.title) for chunk in one.chunks] == [("file", "a.txt")]


def test_manual_pages_are_cut_at_their_sections() -> None:
    page = (
        '.\\" A comment.\n.Dt PACK 1\n.Sh NAME\n.Nm pack\n.Nd makes archives\n.Sh OPTIONS\n.Ss Input\n.It Fl v\nMore.\n'
        '.SH "SEE ALSO"\n.Xr tar 1\n'
    )
    parsed = parse_plain(page, "man/pack.1", Chunking(min_tokens=0), rules=ManifestSet().for_path("man/pack.1"))
    assert parsed.title == "pack.1"
    assert [(chunk.breadcrumb[1:], chunk.lines) for chunk in parsed.chunks] == [
        ((), "1-2"),
        (("NAME",), "3-5"),
        (("OPTIONS",), "6-9"),
        (("SEE ALSO",), "10-11"),
    ]
