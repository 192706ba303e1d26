"""Tools and toolsets, the context that a handler gets, and the answer that it returns.

A handler is a plain function `handler(arguments, ctx) -> ToolAnswer` that runs in a worker thread. Its arguments have
passed the input schema; it reports progress and checks for cancellation through its `CallContext`, and raises
`RefdeskError` on failure, which the tool's `ErrorStyle` turns into the contract's message. Nothing here depends on
the MCP SDK.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from refdesk.errors import ClientCannot, InvalidInput, NotFound
from refdesk.toolsets.content import (
    Annotations,
    ArgumentProblem,
    Block,
    ErrorStyle,
    Icon,
    Json,
    ResourceContents,
    TextErrors,
    ToolAnswer,
)

if TYPE_CHECKING:
    from refdesk.ports import Sampler

T = TypeVar("T")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

# ── the call context ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Question:
    """A request to the client: `sampling/createMessage`, `elicitation/create` or `roots/list`."""

    method: str
    params: Json = field(default_factory=dict)


class CallContext(Protocol):
    """The context of one call: its id, progress, cancellation, and requests to the client."""

    @property
    def correlation_id(self) -> str: ...
    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        ...

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """Writes to stderr with the correlation id."""
        ...

    @property
    def cancelled(self) -> bool:
        """Whether the call was cancelled; cheap enough for inner loops."""
        ...

    def raise_if_cancelled(self) -> None:
        """Raises `Cancelled` if the call was cancelled."""
        ...

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Reports progress; raises `Cancelled` if the call was cancelled."""
        ...

    def tell(self, level: LogLevel, data: Any) -> None:
        """Sends a log message to the client, if it wants messages of that level."""
        ...

    def client_roots(self) -> tuple[Path, ...]:
        """The client's roots; none if it has none to offer."""
        ...

    @property
    def sampler(self) -> Sampler | None:
        """The client's own model, if it offers sampling."""
        ...

    def client_can(self, method: str) -> bool:
        """Whether the client declared that it answers this method."""
        ...

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Json]:
        """The client's answers by the keys of the questions, which are unique within this call.

        On 2026-07-28 the handler is run again from the start after the client has answered, so ask before acting.
        """
        ...


class DirectContext:
    """A `CallContext` without a client and never cancelled: for the command line and for tests."""

    cancelled = False

    def __init__(self, on_progress: Callable[[float, float | None, str | None], None] | None = None) -> None:
        self.correlation_id = uuid.uuid4().hex
        self.meta: Mapping[str, Any] = {}
        self.log = logging.LoggerAdapter(logging.getLogger("refdesk.call"), {"correlation_id": self.correlation_id})
        self.sampler: Sampler | None = None
        self._on_progress = on_progress

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        if self._on_progress is not None:
            self._on_progress(done, total, message)

    def raise_if_cancelled(self) -> None:
        pass

    def tell(self, level: LogLevel, data: Any) -> None:
        self.log.debug("%s: %s", level, data)

    def client_roots(self) -> tuple[Path, ...]:
        return ()

    def client_can(self, method: str) -> bool:
        return False

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Json]:
        raise ClientCannot(f"There is no client to answer {', '.join(q.method for q in questions.values())}.")


# ── toolsets ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolHints:
    """The MCP hints on the effects of a tool."""

    read_only: bool
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False


Handler = Callable[[Json, CallContext], ToolAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A name, a schema, a handler and its contract's error style.

    With `fill_defaults` the handler also gets the schema's top-level defaults for what the caller left out.
    """

    name: str
    title: str
    description: str
    input_schema: Json
    handler: Handler
    hints: ToolHints
    error_style: ErrorStyle
    output_schema: Json | None = None
    icons: tuple[Icon, ...] = ()
    task_support: Literal["forbidden", "optional"] = "forbidden"
    fill_defaults: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    uri: str
    name: str
    read: Callable[[CallContext], ResourceContents]
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


Completer = Callable[[str, Mapping[str, str]], Sequence[str]]
"""The values that start with what the client typed, given the arguments that are already set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTemplate:
    """Resources by URI template (RFC 6570); `read` gets the variables and raises `NotFound`."""

    uri_template: str
    name: str
    read: Callable[[Mapping[str, str], CallContext], ResourceContents]
    complete: Mapping[str, Completer] = field(default_factory=dict)
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptArgument:
    name: str
    description: str | None = None
    required: bool = False
    complete: Completer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt template; `render` returns (role, block) pairs."""

    name: str
    render: Callable[[Mapping[str, str], CallContext], Sequence[tuple[Literal["user", "assistant"], Block]]]
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()


class Announcer(Protocol):
    """Notifies clients of changes that were not made by their own calls; from any thread."""

    def register(self, *tools: Tool) -> None:
        """Adds tools, replacing those of the same name in place."""
        ...

    def relisted(self, kind: Literal["tools", "resources", "prompts"]) -> None: ...
    def updated(self, uri: str) -> None: ...
    def watched(self) -> set[str]:
        """The resources that clients subscribed to."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """One contract's tools and resources.

    `resources` is called for every listing. `poll` is called periodically and returns tools that changed (with a new
    taxonomy, say); they replace those of the same name. `attach` is called once, with the announcer of other changes.
    `heard` is called after every tool call with the tool, its arguments, the answer (None for an error of the protocol)
    and the seconds it took. `site` makes the pages for people from a key that signs what they send back.
    `gauges` looks at what is measured for /metrics, by name. `close` is called when the server stops.
    """

    name: str
    tools: tuple[Tool, ...] = ()
    resources: Callable[[], Sequence[Resource]] = tuple
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    poll: Callable[[], Sequence[Tool]] | None = None
    attach: Callable[[Announcer], None] | None = None
    heard: Callable[[str, Json, ToolAnswer | None, float], None] | None = None
    site: Callable[[bytes], Any] | None = None  # an ASGI application
    gauges: Callable[[], Mapping[str, float]] | None = None
    close: Callable[[], None] | None = None


def once(make: Callable[[], T]) -> Callable[[], T]:
    """A function that makes something when it is first called, and returns that from then on."""
    making, made = threading.Lock(), list[T]()

    def get() -> T:
        if not made:
            with making:
                if not made:
                    made.append(make())
        return made[0]

    return get


# ── one search_docs for two contracts: an argument that only one of them has decides which one answers ──

_SHARED_TOOL = "search_docs"
_CODE_ONLY = ("path", "path_filter", "format")


def united(docs: Toolset, code: Toolset, has_corpus: Callable[[], bool]) -> tuple[Toolset, Toolset]:
    """The docs toolset with the union of both search_docs tools, and the code toolset without its own.

    Without a docs corpus the codebase of the working directory is searched, if it is indexed.
    """
    of_code = next(tool for tool in code.tools if tool.name == _SHARED_TOOL)
    changed_docs = docs.poll or (lambda: ())

    def poll() -> Sequence[Tool]:
        return [_unite(tool, of_code, has_corpus) if tool.name == _SHARED_TOOL else tool for tool in changed_docs()]

    tools = tuple(_unite(tool, of_code, has_corpus) if tool.name == _SHARED_TOOL else tool for tool in docs.tools)
    rest = tuple(tool for tool in code.tools if tool.name != _SHARED_TOOL)
    return replace(docs, tools=tools, poll=poll), replace(code, tools=rest)


def _unite(docs: Tool, code: Tool, has_corpus: Callable[[], bool]) -> Tool:
    def handler(arguments: Json, context: CallContext) -> ToolAnswer:
        named = [name for name in _CODE_ONLY if name in arguments]
        if not named and (has_corpus() or any(key not in of_code for key in arguments)):
            return docs.handler(arguments, context)
        if not named:
            try:
                return code.handler(arguments, context)
            except NotFound:  # of an index of this folder
                return docs.handler(arguments, context)
        if foreign := [key for key in arguments if key not in of_code]:
            raise InvalidInput(
                f"Argument '{foreign[0]}' does not go with '{named[0]}'.",
                f"With {named[0]} the documentation in a codebase is searched, by {', '.join(of_code)}.",
            )
        return code.handler(arguments, context)

    def words(problem: ArgumentProblem) -> str | None:
        chosen = code if any(name in problem.arguments for name in _CODE_ONLY) else docs
        own = chosen.error_style.words if isinstance(chosen.error_style, TextErrors) else None
        return own(problem) if own else None

    of_docs, of_code = docs.input_schema["properties"], code.input_schema["properties"]
    only_code = {key: _plain(of_code[key]) for key in _CODE_ONLY}
    return replace(
        docs,
        description=f"{docs.description} With path or format: docs in a codebase.",
        input_schema={**docs.input_schema, "properties": {**of_docs, **only_code}},
        output_schema=_either(docs.output_schema or {}, code.output_schema or {}),
        handler=handler,
        error_style=TextErrors(words=words),
        fill_defaults=False,
    )


def _plain(schema: Json) -> Json:
    """The schema without its default (a default path would send every call to code) and without its description,
    which search_code has too.
    """
    return {key: value for key, value in schema.items() if key not in ("default", "description")}


def _either(one: Json, other: Json) -> Json:
    """An object schema with the properties of both, none required; a shared property may have either type."""
    shared = {
        key: {**other["properties"][key], **schema, "type": [*_types(schema), *_types(other["properties"][key])]}
        for key, schema in one["properties"].items()
        if key in other["properties"] and schema != other["properties"][key]
    }
    results = {"results": {"type": "array"}}  # search_code's schema says what is in them
    return {"type": "object", "properties": {**one["properties"], **other["properties"], **shared, **results}}


def _types(schema: Json) -> list[str]:
    kind = schema["type"]
    return list(kind) if isinstance(kind, list) else [kind]
