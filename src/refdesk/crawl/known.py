"""What is a page of a crawl, before and after it was fetched?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

PageState = Literal[
    "queued",  # to be asked for
    "answered",  # its body waits to be looked at
    "fetched",  # its body waits to be indexed
    "stored",  # in the library, as it is now
    "alias",  # gives another address as its own; its body is held until that one is there
    "duplicate",  # has the same bytes as another; its body is held until that one is there
    "moved",  # redirects
    "gone",  # 404 or 410
    "scripts",  # empty without scripts
    "skipped",  # left out by a rule or for its type or size
    "failed",  # could not be had; tried again by the next run
    "left",  # beyond the limits of depth or number
]


@dataclass(slots=True)
class Entry:
    """A page to be asked for."""

    url: str
    depth: int
    late: int = 0  # 1: after all others, since it probably repeats one of them
    hops: int = 0  # redirects and canonical links that led here
    etag: str = ""
    last_modified: str = ""
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Body:
    """A fetched page whose body is still here."""

    url: str
    target: str
    hash: str
    data: bytes
    content_type: str
    charset: str
    last_modified: str


class Saved(NamedTuple):
    """A body that was written down: what is known of it, where it is and how large."""

    told: dict[str, Any]
    at: int
    size: int


def digest_of(data: bytes) -> str:
    """What tells the bytes of two pages apart."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()
