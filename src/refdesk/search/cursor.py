"""How does a caller ask for the next page?"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from refdesk.errors import InvalidCursor
from refdesk.model import Query

_NEXT = "Omit cursor to start again from the first page."


def encode(query: Query, state: int, offset: int) -> str:
    """An opaque token for the page at `offset`, bound to the query, its filters and the record's state."""
    body = f"{offset}.{state}"
    return base64.urlsafe_b64encode(f"{body}.{_seal(query, body)}".encode()).decode().rstrip("=")


def decode(cursor: str, query: Query, state: int) -> int:
    """The offset a token stands for; InvalidCursor when it is foreign, altered or stale."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        offset, made_at, seal = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii").split(".")
        position, made = int(offset), int(made_at)
    except (binascii.Error, ValueError) as error:
        raise InvalidCursor("The cursor is malformed.", _NEXT) from error
    if seal != _seal(query, f"{offset}.{made_at}"):
        raise InvalidCursor("The cursor belongs to another query or other filters, or was altered.", _NEXT)
    if made != state:
        raise InvalidCursor("The cursor is stale: the index changed since that page.", _NEXT)
    return position


def _seal(query: Query, body: str) -> str:
    bound = json.dumps([body, query.text, query.alpha, query.fusion, query.exact, repr(query.filters)])
    return hashlib.blake2b(bound.encode(), digest_size=9).hexdigest()
