"""What is taken out of files, what is asked for it, and where it is afterwards."""

from __future__ import annotations

import ast

import pytest

from bench.undocument import first_sentence, undocument, without_marks

PYTHON = '''"""Module docs that are here to go away."""

def read(path):
    """Return the bytes of the file at a path.

    More that nobody asks for.
    """
    with open(path) as file:
        return file.read()


class Box:
    """A box that holds things."""

    def put(self, thing):
        r"""Put a thing into the box, \\\\o/."""
        self.things.append(thing)
        self.count += 1

    def empty(self):
        """Says nothing but its own docstring here."""

    def one(self): "All of it on a single line"


def outer():
    def inner():
        """A function inside of a function."""
        a = 1
        return a
    return inner
'''


def test_python_docstrings_go_and_lines_are_found_again() -> None:
    found = undocument(PYTHON.encode(), "py")
    assert found is not None
    ast.parse(found.text)
    for gone in ("docs that", "bytes of", "holds", "Put a thing", "its own", "single line", "inside of"):
        assert gone not in found.text
    lines = found.text.split("\n")
    places = {one.query: (lines[one.start_line - 1].strip(), lines[one.end_line - 1].strip()) for one in found.targets}
    assert places == {
        "Return the bytes of the file at a path.": ("def read(path):", "return file.read()"),
        "Put a thing into the box, \\\\o/.": ("def put(self, thing):", "self.count += 1"),
    }


def test_python_that_does_not_parse_is_left_out() -> None:
    assert undocument(b"def broken(:\n", "py") is None


TYPESCRIPT = """// A licence line that stays.

import x from 'y';

/**
 * Joins the parts of a path with slashes.
 * @param parts what is joined
 */
export function join(...parts: string[]): string {
  // said inside, stays
  return parts.join('/');
}

export class Path {
  /** Tells whether the path starts at the root. */
  isAbsolute(): boolean {
    const first = this.text[0];
    return first === '/';
  }
}
"""
RUST = """/// Counts the lines of a text that are not blank.
///
/// # Examples
#[inline]
pub fn count(text: &str) -> usize {
    let lines = text.lines();
    lines.filter(|l| !l.trim().is_empty()).count()
}
"""
C = """/* Opens the device and remembers its handle. */
int device_open(struct device *d);

/**
 * Close the device and forget about its handle.
 */
static int
device_close(struct device *d) {
    d->handle = 0;
    return 0;
}
"""


@pytest.mark.parametrize(
    ("suffix", "source", "expected", "stays"),
    [
        (
            "ts",
            TYPESCRIPT,
            {
                "Joins the parts of a path with slashes.": "export function join(...parts: string[]): string {",
                "Tells whether the path starts at the root.": "isAbsolute(): boolean {",
            },
            ["A licence line that stays.", "said inside, stays"],
        ),
        (
            "rs",
            RUST,
            {"Counts the lines of a text that are not blank.": "pub fn count(text: &str) -> usize {"},
            ["#[inline]"],
        ),
        ("c", C, {"Close the device and forget about its handle.": "static int"}, ["int device_open"]),
    ],
)
def test_comments_above_functions_go(suffix: str, source: str, expected: dict[str, str], stays: list[str]) -> None:
    found = undocument(source.encode(), suffix)
    assert found is not None
    lines = found.text.split("\n")
    assert {one.query: lines[one.start_line - 1].strip() for one in found.targets} == expected
    assert all(query not in found.text for query in expected)
    assert "remembers its handle" not in found.text
    assert all(text in found.text for text in stays)


def test_first_sentence_is_prose_or_nothing() -> None:
    assert first_sentence("Return the :class:`~a.Thing` of a\n``name``. Then more.") == "Return the a.Thing of a name."
    assert first_sentence("Too short.") == ""
    assert first_sentence("x = [1, 2, 3]; y = {4: 5}; z = (6, 7, 8); aa bb cc dd") == ""
    assert first_sentence("TODO: write down what this function does") == ""
    assert without_marks("/**\n * hb_shape:\n * @font: a font\n *\n * Shapes a buffer.\n **/") == "Shapes a buffer."
