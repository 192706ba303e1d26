"""How much of what was loaded is taken in at a time?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from refdesk.model import Content, Skipped
from refdesk.progress import Progress

_GROUP_BYTES = 8_000_000


def marked(content: Content, content_type: str, metadata: Mapping[str, Any]) -> Content:
    """The content with what its caller says of it."""
    return replace(
        content, content_type=content_type or content.content_type, metadata={**content.metadata, **metadata}
    )


def following(progress: Progress, before: int, is_last: bool) -> Callable[[int, int, str], None]:
    """Reports a group of contents after others; how many there are in all is known when the last group comes."""
    return lambda done, total, what: progress.report(before + done, before + total if is_last else 0, what)


def groups(loaded: Iterable[Content | Skipped]) -> Iterator[tuple[list[Content | Skipped], bool]]:
    """Lists of a few million bytes, or of one content that is larger: what is held in memory at a time.

    With each comes whether it is the last.
    """
    group: list[Content | Skipped] = []
    size = 0
    for one in loaded:
        more = len(one.data) if isinstance(one, Content) else 0
        if group and size + more > _GROUP_BYTES:
            yield group, False
            group, size = [], 0
        group.append(one)
        size += more
    if group:
        yield group, True
