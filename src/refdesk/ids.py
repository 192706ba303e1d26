"""How is a new thing named?"""

from __future__ import annotations

import re

from refdesk.errors import InvalidName

_NAME = re.compile(r"[a-zA-Z0-9_-]+")


def new_id() -> str:
    """A ULID: sortable by the time it was made."""
    from ulid import ULID

    return str(ULID())


def checked_name(name: str) -> str:
    """The name, if a collection may have it."""
    if not _NAME.fullmatch(name):
        raise InvalidName(f"Collection name {name!r} is not allowed.", "Use letters, digits, hyphens and underscores.")
    return name


def name_from(text: str) -> str:
    """A collection name made from a folder's or a site's name."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-") or "library"
