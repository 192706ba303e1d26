"""How is a long list handed out?  In pages, each with an opaque cursor to the next."""

from __future__ import annotations

import base64
import binascii

import mcp_types as types
from mcp.shared.exceptions import MCPError

from refdesk.toolsets.contract import INVALID_PARAMS, Json


def page(name: str, items: list[Json], params: types.PaginatedRequestParams | None, size: int) -> Json:
    """The page of `items` that the cursor asks for."""
    start = read_cursor(params.cursor if params else None)
    if start and start >= len(items):
        raise bad_cursor()
    result: Json = {name: items[start : start + size]}
    if start + size < len(items):
        result["nextCursor"] = make_cursor(start + size)
    return result


def make_cursor(position: int) -> str:
    return base64.urlsafe_b64encode(f"at:{position}".encode()).decode()


def read_cursor(cursor: str | None) -> int:
    """The position in the cursor; 0 without one."""
    if cursor is None:
        return 0
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise bad_cursor() from None
    if not text.startswith("at:") or not text[3:].isdigit():
        raise bad_cursor()
    return int(text[3:])


def bad_cursor() -> MCPError:
    return MCPError(INVALID_PARAMS, "Invalid cursor. Use the nextCursor of the previous page, or none for the first.")
