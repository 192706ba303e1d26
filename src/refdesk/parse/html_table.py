"""Is a table a table, and which cells does it have?"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_MAX_SPAN = 20


def table_rows(table: LexborNode) -> list[list[LexborNode | None]]:
    """The cells row by row, None where one spans on."""
    rows: list[list[LexborNode | None]] = []
    for part in table.iter():
        holders = [part] if part.tag in ("thead", "tbody", "tfoot") else []
        for row in [part] if part.tag == "tr" else [row for holder in holders for row in holder.iter()]:
            cells: list[LexborNode | None] = []
            for cell in row.iter():
                if cell.tag in ("td", "th"):
                    cells += [cell, *[None] * (_span(cell) - 1)]
            if cells:
                rows.append(cells)
    return rows


def is_layout(table: LexborNode) -> bool:
    """Whether the table only places things: it has no head, and its cells hold blocks of their own."""
    if (table.attributes.get("role") or "") == "presentation":
        return True
    if table.css_first("td table, th table, td h1, td h2, td h3") is not None:
        return True
    rows = table_rows(table)
    if table.css_first("th") is not None:
        return False
    if max((len(row) for row in rows), default=0) < 2:
        return True
    return table.css_first("ul, ol, pre, blockquote") is not None and table.css_first("p, div") is not None


def _span(cell: LexborNode) -> int:
    value = cell.attributes.get("colspan") or "1"
    return max(1, min(_MAX_SPAN, int(value))) if value.isdecimal() else 1
