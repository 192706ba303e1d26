"""What answers are made of: blocks, notices, icons, token budgets, and each contract's style of errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar
from urllib.parse import quote

from refdesk.errors import RefdeskError, RpcError
from refdesk.text import tokens

if TYPE_CHECKING:
    from refdesk.model import Hit

_USED_SHARE = 0.9  # of a budget: the estimate of tokens may be a tenth too low
LISTED = 10_000  # tokens of a list
TOGETHER = 10  # hits, as many as most answers have
READ = 20_000  # tokens from which a document's size is stated before its text

T = TypeVar("T")


class _Budget:
    """The tokens that an answer may have; the first part always fits, and with 0 every part does."""

    def __init__(self, tokens: int) -> None:
        self._limit = _USED_SHARE * tokens
        self._used: int | None = None

    def takes(self, cost: int, share: float = 1.0) -> bool:
        """Whether a part fits into this share of the budget; if so, it is counted."""
        if self._limit and self._used is not None and self._used + cost > share * self._limit:
            return False
        self._used = (self._used or 0) + cost
        return True


def fitting(texts: Sequence[str], budget: int) -> int:
    """The number of leading texts that fit the budget: at least one, and all if the budget is 0."""
    if not budget or sum(map(tokens.at_most, texts)) <= _USED_SHARE * budget:
        return len(texts)  # counting takes three times as long as a bound
    return affordable(tokens.count_each(texts), budget)


def affordable(costs: Sequence[float], budget: int) -> int:
    """The number of leading parts with these costs in tokens that fit the budget, as `fitting`."""
    limit = _USED_SHARE * budget
    return next((at for at, used in enumerate(accumulate(costs)) if at and budget and used > limit), len(costs))


def shown(
    hits: Sequence[Hit], write: Callable[[int, Hit, bool], T], budget: int, how: str
) -> tuple[list[T], list[str]]:
    """The hits as `write` renders them by rank: whole, as excerpts once 3/4 of the budget is used, none beyond it.

    Also returns notices of what was cut and left out, and `how` to get it.
    """
    written: list[T] = []
    excerpts = 0
    room = _Budget(budget)
    for rank, (hit, one) in enumerate(_wholes(hits, write), 1):
        cost = _cost(one)
        if not room.takes(cost, 0.75):
            has_excerpt = len(hit.snippet) < len(hit.stored.chunk.text)
            if has_excerpt:
                one = write(rank, hit, False)
                cost = _cost(one)
            if not room.takes(cost):
                break
            excerpts += has_excerpt
        written.append(one)
    notices = [f"{excerpts} of the results are excerpts: {how}"] if excerpts else []
    if left := len(hits) - len(written):
        notices.append(f"{left} more results left out to keep the answer short: ask more narrowly")
    return written, notices


def _wholes(hits: Sequence[Hit], write: Callable[[int, Hit, bool], T]) -> Iterator[tuple[Hit, T]]:
    """Each hit and what `write` makes of it; tokens of some are counted at a time, which takes half as long."""
    for start in range(0, len(hits), TOGETHER):
        some = [(hit, write(rank, hit, True)) for rank, hit in enumerate(hits[start : start + TOGETHER], start + 1)]
        tokens.count.know([_content(one) for _, one in some], tokens.count_each)
        yield from some


def _content(one: object) -> str:
    found = one.get("content", "") if isinstance(one, dict) else one
    return found if isinstance(found, str) else ""


def _cost(one: object) -> int:
    content = _content(one)
    if one is content:
        return tokens.count(content) + 4
    rest = {key: value for key, value in one.items() if key != "content"} if isinstance(one, dict) else one
    return tokens.count(content) + content.count("\n") + len(json.dumps(rest, ensure_ascii=False)) * 2 // 5 + 4


Json = dict[str, Any]

STRING: Json = {"type": "string"}
STRINGS: Json = {"type": "array", "items": STRING}
_NOTICES = "refdesk/notices"


def object_schema(properties: Json, *required: str, **more: Any) -> Json:
    """The JSON schema of an object."""
    schema: Json = {"type": "object", "properties": properties, **more}
    return {**schema, "required": list(required)} if required else schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """The audience of a block and its priority (0..1)."""

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
    """The contents of a resource: text, or base64 bytes in `blob`."""

    uri: str
    mime_type: str
    text: str | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class EmbeddedResource:
    resource: ResourceContents
    annotations: Annotations | None = None


Block = Text | Image | Audio | ResourceLink | EmbeddedResource


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """A tool's answer: blocks, the same as data if the tool declares an output schema, and `_meta`.

    Clients that subscribed to a URI in `updated` are notified; `relisted` means that the list of resources changed.
    """

    content: tuple[Block, ...]
    structured: Json | None = None
    is_error: bool = False
    meta: Json = field(default_factory=dict)
    updated: tuple[str, ...] = ()
    relisted: bool = False

    @classmethod
    def of_text(cls, text: str, *, notices: Sequence[str] = (), meta: Json | None = None) -> ToolAnswer:
        """An answer in text, with its notices in a second block."""
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

        Notices are added as `notices`, unless the contract's shape is `closed`.
        """
        if notices and not closed:
            value = {**value, "notices": list(notices)}
        text = json.dumps(value, ensure_ascii=False)
        return cls((Text(text), *_said(notices), *links), structured=value, meta=noted(meta, notices))


def note_lines(notices: Sequence[str]) -> str:
    """The notices as lines of text."""
    return "\n".join(f"note: {' '.join(one.split())}" for one in notices)


def noted(meta: Json | None, notices: Sequence[str]) -> Json:
    """The `_meta` of an answer with its notices."""
    return {**(meta or {}), **({_NOTICES: list(notices)} if notices else {})}


def _said(notices: Sequence[str]) -> tuple[Text, ...]:
    return (Text(note_lines(notices)),) if notices else ()


# Icons of the tools: inline SVGs, kept short since clients may count their tokens.

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


# ── errors ──

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


ProblemKind = Literal["missing", "unknown", "type", "enum", "range", "length", "pattern", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """An invalid argument: `argument` is its path (`filters.type`), `message` says how to correct it."""

    tool: str
    kind: ProblemKind
    argument: str
    message: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Words = Callable[[ArgumentProblem], str | None]
"""A contract's own message for an invalid argument, or None for the server's."""


def _words(problem: ArgumentProblem, words: Words | None) -> str:
    own = words(problem) if words else None
    return problem.message if own is None else own


class ErrorStyle(Protocol):
    """How one contract reports errors; a returned `RpcError` is sent as a JSON-RPC error."""

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer | RpcError: ...
    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer | RpcError: ...
    def unexpected(self, correlation_id: str) -> ToolAnswer | RpcError: ...


def unexpected_text(correlation_id: str) -> str:
    """The message after an unexpected exception; the log has its details under that id."""
    return f"Internal error. Try again; if it persists, look for correlation id {correlation_id} in the server's log."


@dataclass(frozen=True, slots=True)
class TextErrors:
    """For docs, skills and code: `isError: true`, and the text says what to do next."""

    words: Words | None = None

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer:
        return self._answer(_words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer:
        return self._answer(str(error))

    def unexpected(self, correlation_id: str) -> ToolAnswer:
        return self._answer(unexpected_text(correlation_id))

    def _answer(self, text: str) -> ToolAnswer:
        return ToolAnswer((Text(text),), is_error=True)


@dataclass(frozen=True, slots=True)
class CodedErrors:
    """For rag: `isError: true`, and the text is `{"error": {"code", "message"}}`; `code_of` gives the code."""

    code_of: Callable[[RefdeskError], str]
    words: Words | None = None
    argument_code: str = "INVALID_ARGUMENT"
    unexpected_code: str = "DATABASE_ERROR"

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer:
        return self._answer(self.argument_code, _words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer:
        return self._answer(self.code_of(error), str(error))

    def unexpected(self, correlation_id: str) -> ToolAnswer:
        return self._answer(self.unexpected_code, unexpected_text(correlation_id))

    def _answer(self, code: str, message: str) -> ToolAnswer:
        body = {"error": {"code": code, "message": message}}
        return ToolAnswer((Text(json.dumps(body, ensure_ascii=False)),), is_error=True)


@dataclass(frozen=True, slots=True)
class RpcErrors:
    """For pages: JSON-RPC errors, -32602 for the caller's errors (`mendable`), -32603 with `data.correlationId`."""

    mendable: tuple[type[RefdeskError], ...] = ()
    words: Words | None = None

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> RpcError:
        return RpcError(INVALID_PARAMS, _words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> RpcError:
        if isinstance(error, self.mendable):
            return RpcError(INVALID_PARAMS, str(error))
        return RpcError(INTERNAL_ERROR, str(error), {"correlationId": correlation_id})

    def unexpected(self, correlation_id: str) -> RpcError:
        return RpcError(INTERNAL_ERROR, unexpected_text(correlation_id), {"correlationId": correlation_id})
