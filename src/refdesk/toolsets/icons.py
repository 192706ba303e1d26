"""The pictures beside the tools: small SVGs that need no server, spelt in as few tokens as can be."""

from __future__ import annotations

from urllib.parse import quote

from refdesk.toolsets.contract import Icon

_FRAME = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0,0,24,24'><path d='{}'/></svg>"
_SHAPES = {
    "search": "M3,3h12v9l9,9h-4l-6-6H3z",
    "read": "M3,4h8v16H3zM13,4h8v16h-8z",
    "add": "M10,3h4v7h7v4h-7v7h-4v-7H3v-4h7z",
    "remove": "M3,10h18v4H3z",
    "list": "M3,5h18v2H3zM3,11h18v2H3zM3,17h18v2H3z",
    "count": "M4,10h4v10H4zM10,4h4v16h-4zM16,13h4v7h-4z",
    "learn": "m2,9,10-5,10,5-10,5zM6,13v4l6,3,6-3v-4l-6,3z",
    "index": "M4,4h4v16H4zM10,4h10v16H10z",
    "graph": "M3,10h4v4H3zM17,3h4v4h-4zM17,17h4v4h-4zM7,11l10-6v2L7,13z",
}


def icon(name: str) -> tuple[Icon, ...]:
    """The icon of that name, as a data: URI."""
    return (Icon(src=f"data:image/svg+xml,{quote(_FRAME.format(_SHAPES[name]), safe=_UNQUOTED)}"),)


_UNQUOTED = "'/:=,"
