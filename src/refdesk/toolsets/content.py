"""What is an answer made of?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]

NOTICES: Json = {"type": "array", "items": {"type": "string"}}  # in an output schema
_NOTICES = "refdesk/notices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Whom a block is for and how much it matters (0..1)."""

    audience: tuple[Literal["user", "assistant"], ...] = ()
    priority: float | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] = ()
    theme: Literal["light", "dark"] | None = None


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    annotations: Annotations | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A picture; `data` is base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound; `data` is base64."""

    data: str
    mime_type: str
    annotations: Annotations | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceLink:
    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceContents:
    """What reading a resource gives: text, or base64 bytes in `blob`."""

    uri: str
    mime_type: str
    text: str | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    contents: ResourceContents
    annotations: Annotations | None = None


Block = Text | Image | Audio | ResourceLink | EmbeddedResource


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool says: blocks, the same as data where the tool declares an output schema, and `_meta`.

    Clients that subscribed to a URI in `updated` are told so; `relisted` says that the list of resources changed.
    """

    content: tuple[Block, ...]
    structured: Json | None = None
    is_error: bool = False
    meta: Json = field(default_factory=dict)
    updated: tuple[str, ...] = ()
    relisted: bool = False

    @classmethod
    def of_text(cls, text: str, *, notices: Sequence[str] = (), meta: Json | None = None) -> ToolAnswer:
        """An answer in words; what is to be said of it stands below, in a block of its own."""
        return cls((Text(text), *_said(notices)), meta=noted(meta, notices))

    @classmethod
    def of_json(
        cls,
        value: Json,
        *,
        notices: Sequence[str] = (),
        closed: bool = False,
        meta: Json | None = None,
        links: Sequence[ResourceLink] = (),
    ) -> ToolAnswer:
        """An answer whose text is `value` as JSON and whose structured content is the same.

        What is to be said of it is its `notices` too, unless the contract has closed its shape.
        """
        if notices and not closed:
            value = {**value, "notices": list(notices)}
        text = json.dumps(value, ensure_ascii=False)
        return cls((Text(text), *_said(notices), *links), structured=value, meta=noted(meta, notices))


def note_lines(notices: Sequence[str]) -> str:
    """What is to be said of an answer, as lines of a text."""
    return "\n".join(f"note: {' '.join(one.split())}" for one in notices)


def noted(meta: Json | None, notices: Sequence[str]) -> Json:
    """The `_meta` of an answer, with what is to be said of it."""
    return {**(meta or {}), **({_NOTICES: list(notices)} if notices else {})}


def _said(notices: Sequence[str]) -> tuple[Text, ...]:
    return (Text(note_lines(notices)),) if notices else ()
