"""Ids of documents and names of collections."""

from __future__ import annotations

import re
import secrets
import time

from refdesk.errors import InvalidName

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's
_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def new_id() -> str:
    """A new ULID: 48 bits of milliseconds and 80 random bits, so that ids sort by time."""
    value = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join([_LETTERS[value >> shift & 31] for shift in range(125, -1, -5)])


def checked_name(name: str) -> str:
    """Returns the name if it is valid for a collection, else raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(f"Collection name {name!r} is not allowed.", "Use letters, digits, hyphens and underscores.")
    return name


def name_from(text: str) -> str:
    """A collection name made from a folder's or a site's name."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-") or "library"
