"""The pictures beside the tools: small SVGs that need no server."""

from __future__ import annotations

from urllib.parse import quote

from refdesk.toolsets.contract import Icon

_FRAME = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24' fill='none' stroke='#4a7' stroke-width='2'>{}</svg>"
)
_SHAPES = {
    "search": "<circle cx='10' cy='10' r='6'/><path d='m15 15 6 6'/>",
    "read": "<path d='M4 4h7v16H4zM13 4h7v16h-7z'/>",
    "add": "<path d='M12 4v16M4 12h16'/>",
    "remove": "<path d='M4 12h16'/>",
    "list": "<path d='M4 6h16M4 12h16M4 18h16'/>",
    "count": "<path d='M5 20V10M12 20V4M19 20v-7'/>",
    "learn": "<path d='m2 9 10-5 10 5-10 5zM6 12v5c4 3 8 3 12 0v-5'/>",
    "index": "<path d='M4 4h16v16H4zM9 4v16'/>",
    "graph": "<circle cx='5' cy='12' r='2'/><circle cx='19' cy='5' r='2'/><circle cx='19' cy='19' r='2'/>"
    "<path d='m7 11 10-5M7 13l10 5'/>",
}


def icon(name: str) -> tuple[Icon, ...]:
    """The icon of that name, as a data: URI."""
    svg = _FRAME.format(_SHAPES[name])
    return (Icon(src=f"data:image/svg+xml,{quote(svg)}", mime_type="image/svg+xml", sizes=("any",)),)
