"""What is seen without a parser is what the parser would have said."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from refdesk.parse.prose import markdown
from refdesk.parse.prose.markdown import scan
from refdesk.parse.prose.passages import Block, Fence, Heading, trim

_LINES = """text here
**bold** x
`code` a
[b] x
2020 was
3.14 is
\\# not a heading
# H
## H `a` *b*
# closed #
#none
- item
* x
+ y
  more
  - inner
    deep
      deeper
1. one
2. two
10. ten
   three
1) p
  1. inner one
  2. inner two
```
```py
  ```
  ```py
   ```
~~~
``` x ```
> quote
> - q
>

* * *
- - -
_ _ _
---
===
-
-     far
<div>
</div>
<!-- c
-->
<pre>
<script>
[a]: http://x
    code
\tcode
 - odd
 text
x\ty
- # h
- > q
- ```
\xa0
| a | b |
| --- | --- |
a | b
--- | ---
  | a | b |
  | --- | --- |""".splitlines()


def _shown(lines: list[str], parts: markdown._Parts) -> tuple[list[Heading], list[Block], list[Fence]]:
    """The parts, each without blank lines at its end: a parser counts some of them in."""
    blocks = list(markdown._with_gaps(lines, 0, parts.blocks))
    cut = [replace(one, end=max(one.start + 1, trim(lines, one.start, one.end)[1])) for one in blocks]
    fences = [replace(one, end=max(one.start + 1, trim(lines, one.start, one.end)[1])) for one in parts.fences]
    return parts.headings, cut, fences


@pytest.mark.parametrize("seed", range(8))
def test_any_lines_read_as_a_parser_reads_them(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(250):
        some = [*drawn.sample(_LINES, drawn.randint(2, 12)), "", ""]
        lines = [drawn.choice(some) for _ in range(drawn.choice((4, 8, 12, 20)))]
        assert _shown(lines, markdown._parts(lines)) == _shown(lines, markdown._parsed(lines)), lines


def test_what_is_plain_is_not_left_to_the_parser() -> None:
    text = (
        "# Title\n\nSome text\nin two lines.\n\n- one\n- two\n  and more\n\n  ```sh\n  run\n  ```\n\n"
        "> **Note:** mind\n> this\n\n```py\nx = 1\n\n# no heading\n```\n## Next\n1. first\n\n   more\n2. second\n\nEnd."
    )
    scanned = scan(text.split("\n"))
    assert scanned is not None and scanned[1] == []
    found = scanned[0]
    assert [(one.level, one.text) for one in found.headings] == [(1, "Title"), (2, "Next")]
    items = [(one.start, one.end) for one in found.blocks if one.kind == "item"]
    assert items == [(5, 6), (6, 12), (22, 25), (25, 26)]
    assert [(one.start, one.end, one.info) for one in found.fences] == [(9, 12, "sh"), (16, 21, "py")]


def test_a_table_is_left_to_the_parser() -> None:
    found = scan(["Text.", "", "| a | b |", "| --- | --- |", "| 1 | 2 |", "", "More."])
    assert found is not None and found[1] == [(2, 6)]
    assert [(one.start, one.end) for one in found[0].blocks] == [(0, 1), (6, 7)]


def test_html_that_may_go_on_behind_blank_lines_is_left_to_the_parser_with_all_else() -> None:
    assert scan(["<!-- a", "", "text", "-->"]) is None
