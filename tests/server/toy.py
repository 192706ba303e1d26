"""A server of toy tools on RefDesk's core, for the tests of the wire."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from refdesk.errors import DocumentNotFound, InvalidInput, LibraryBusy
from refdesk.server import OAuth, ServerOptions, serve
from refdesk.toolsets.content import (
    Annotations,
    Audio,
    CodedErrors,
    ErrorStyle,
    Icon,
    ResourceContents,
    ResourceLink,
    RpcErrors,
    Text,
    TextErrors,
    ToolAnswer,
)
from refdesk.toolsets.contract import (
    CallContext,
    Handler,
    Question,
    Resource,
    ResourceTemplate,
    Tool,
    ToolHints,
    Toolset,
)

NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
TEXT: ErrorStyle = TextErrors(words=lambda p: "query is required" if p.kind == "missing" else None)
CODED: ErrorStyle = CodedErrors(code_of=lambda error: type(error).__name__.upper())
RPC: ErrorStyle = RpcErrors(mendable=(InvalidInput,))

SEARCH_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "language": {"type": "string", "enum": ["go", "python"]},
        "filters": {"type": "object", "properties": {"type": {"type": "string"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["query"],
}


ODD_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"fail": {"type": "boolean"}, "worse": {"type": "boolean"}},
}


def tool(name: str, handler: Handler, **more: Any) -> Tool:
    given: dict[str, Any] = {
        "name": name,
        "title": name.title(),
        "description": f"The {name} toy.",
        "input_schema": NO_ARGUMENTS,
        "handler": handler,
        "hints": ToolHints(read_only=True),
        "error_style": TEXT,
        "icons": (Icon(src="data:image/png;base64,AA==", mime_type="image/png", sizes=("16x16",)),),
    }
    return Tool(**(given | more))


def echo(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    return ToolAnswer.of_json(arguments, meta={"refdesk/correlation": ctx.correlation_id})


def refuse(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    if arguments["query"] == "invalid":
        raise InvalidInput("That can't be searched.", "Try another word.")
    raise DocumentNotFound("Document not found: x.", "List the documents.")


def crash(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    raise ZeroDivisionError("secret detail")


def chatter(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    print("a stray print must not reach the wire")
    sys.stdout.flush()
    os.write(1, b"nor a stray write\n")
    return ToolAnswer.of_text("quiet")


class Slow:
    """Counts up until told to stop, and leaves a file that says how far it came."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __call__(self, arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
        steps = arguments.get("steps", 10_000)
        for step in range(steps):
            if ctx.cancelled:
                self._trace.write_text(f"stopped at {step}")
            ctx.raise_if_cancelled()
            ctx.progress(step + 1, steps, f"step {step + 1}")
            self._trace.write_text(f"working at {step}")
            time.sleep(arguments.get("pause", 0.01))
        if arguments.get("fail"):
            return ToolAnswer((Text("it went wrong"),), is_error=True)
        return ToolAnswer.of_json({"steps": steps})


def hog(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    """Holds Python's lock for ever, as native code may."""
    re.match("(a+)+b", "a" * 100)
    return ToolAnswer.of_text("never")


def stubborn(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    threading.Event().wait()
    return ToolAnswer.of_text("never")


def odd(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    """What a file name with bytes that are no text makes of an answer."""
    ctx.progress(1, 1, "half \udc80")
    ctx.tell("info", "half \udc80")
    if arguments.get("fail"):
        raise InvalidInput("half \udc80")
    if arguments.get("worse"):
        return ToolAnswer((Text("worse"),), structured={"it": object()})
    return ToolAnswer.of_json({"name \udc80": ["é \udc80"]})


def child(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    """Starts a process that would live for ever."""
    started = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(10**6,), daemon=True)
    started.start()
    return ToolAnswer.of_json({"pid": started.pid})


def media(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    return ToolAnswer(
        (
            Audio("UklGRg==", "audio/wav", Annotations(audience=("user",), priority=0.25)),
            ResourceLink(
                uri="file:///a%20b/Main.swift",
                name="Main.swift",
                description="Where it starts",
                mime_type="text/x-swift",
                annotations=Annotations(audience=("user", "assistant"), priority=0.9),
            ),
        )
    )


def roots(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    return ToolAnswer.of_json({"roots": [str(path) for path in ctx.client_roots()]})


def think(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    if ctx.sampler is None:
        return ToolAnswer.of_text("the client has no model")
    said = ctx.sampler("How many?", system="Be brief.", max_tokens=5)
    return ToolAnswer.of_text(f"the client's model says {said}")


def inquire(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    asked = ctx.ask({"who": Question("elicitation/create", {"message": "Who?", "requestedSchema": schema})})
    return ToolAnswer.of_text(f"hello {asked['who']['content']['name']}")


def touch(arguments: dict[str, Any], ctx: CallContext) -> ToolAnswer:
    return ToolAnswer((Text("touched"),), updated=("toy://notes/1",), relisted=True)


def _read_note(variables: Mapping[str, str], ctx: CallContext) -> ResourceContents:
    number = variables["number"]
    if number == "404":
        raise DocumentNotFound("No such note: 404.")
    if number == "500":
        raise ZeroDivisionError("secret detail")
    return ResourceContents(uri=f"toy://notes/{number}", mime_type="text/plain", text=f"note {number}")


def _notes() -> Sequence[Resource]:
    return [
        Resource(
            uri=f"toy://about/{n}",
            name=f"about-{n}",
            read=lambda ctx, n=n: ResourceContents(  # type: ignore[misc]
                uri=f"toy://about/{n}", mime_type="application/json", text=json.dumps({"n": n})
            ),
        )
        for n in range(250)
    ]


def make_tools(folder: Path) -> tuple[Tool, ...]:
    slow = Slow(folder / "trace")
    steps = {
        "type": "object",
        "properties": {
            "steps": {"type": "integer"},
            "pause": {"type": "number"},
            "fail": {"type": "boolean"},
        },
    }
    return (
        tool("echo", echo, input_schema=SEARCH_SCHEMA, output_schema={"type": "object"}),
        tool("refuse_text", refuse, input_schema=SEARCH_SCHEMA),
        tool("refuse_coded", refuse, input_schema=SEARCH_SCHEMA, error_style=CODED),
        tool("refuse_rpc", refuse, input_schema=SEARCH_SCHEMA, error_style=RPC),
        tool("crash_text", crash),
        tool("crash_coded", crash, error_style=CODED),
        tool("crash_rpc", crash, error_style=RPC, task_support="optional"),
        tool("slow", slow, input_schema=steps, task_support="optional"),
        tool("stubborn", stubborn, task_support="optional"),
        tool("hog", hog),
        tool("media", media),
        tool("roots", roots, task_support="optional"),
        tool("think", think),
        tool("inquire", inquire, task_support="optional"),
        tool("touch", touch, hints=ToolHints(read_only=False, destructive=True)),
        tool("chatter", chatter),
        tool("child", child),
        tool("odd", odd, input_schema=ODD_SCHEMA, error_style=RPC, task_support="optional"),
    )


def make_toolsets(folder: Path) -> list[Toolset]:
    if (folder / "busy").exists():
        raise LibraryBusy("Another process writes.", "Wait for it.")
    if (folder / "broken").exists():
        raise ZeroDivisionError("secret detail")
    while (folder / "wait").exists():
        time.sleep(0.01)
    changing = folder / "taxonomy"

    def poll() -> list[Tool]:
        if not changing.exists():
            return []
        values = changing.read_text().split()
        schema = SEARCH_SCHEMA | {
            "properties": SEARCH_SCHEMA["properties"] | {"scope": {"type": "string", "enum": values}}
        }
        return [tool("echo", echo, input_schema=schema, output_schema={"type": "object"})]

    template = ResourceTemplate(
        uri_template="toy://notes/{number}",
        name="note",
        read=_read_note,
        complete={"number": lambda value, _: [str(n) for n in range(200) if str(n).startswith(value)]},
    )
    return [Toolset(name="toy", tools=make_tools(folder), resources=_notes, templates=(template,), poll=poll)]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--transport", default="stdio")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token")
    parser.add_argument("--issuer")
    parser.add_argument("--audience")
    parser.add_argument("--options", default="{}", help="more ServerOptions, as JSON")
    given = parser.parse_args()
    oauth = OAuth(issuer=given.issuer, audience=given.audience, scopes=("refdesk",)) if given.issuer else None
    options = ServerOptions(
        version="1.2.3",
        transport=given.transport,
        host=given.host,
        port=given.port,
        auth_token=given.token,
        oauth=oauth,
        poll_seconds=0.05,
        check_outputs=True,
        **json.loads(given.options),
    )
    return serve(lambda: make_toolsets(given.folder), options)


if __name__ == "__main__":
    sys.exit(main())
