"""What is in these bytes: a message, a batch of them, or a mistake to complain about?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pydantic_core

from refdesk.toolsets.contract import (
    Annotations,
    Audio,
    Block,
    EmbeddedResource,
    Icon,
    Image,
    Json,
    Prompt,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    Text,
    Tool,
    ToolAnswer,
)

# How do our values look on MCP's wire?  Plain dicts in the wire's spelling.

RELATED_TASK = "io.modelcontextprotocol/related-task"


def _given(**fields: Any) -> Json:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def clean(value: Any) -> Any:
    """The value with text that has no UTF-8 (half a surrogate pair, from a strange file name) made writable."""
    match value:
        case str():
            if value.isascii():
                return value
            try:
                value.encode()
            except UnicodeEncodeError:
                return value.encode("utf-8", "replace").decode()
            return value
        case dict():
            return {clean(key): clean(each) for key, each in value.items()}
        case list() | tuple():
            return [clean(each) for each in value]
    return value


def annotations_on_wire(annotations: Annotations | None) -> Json | None:
    if annotations is None:
        return None
    return _given(
        audience=list(annotations.audience),
        priority=annotations.priority,
        lastModified=annotations.last_modified,
    )


def icons_on_wire(icons: Iterable[Icon]) -> list[Json]:
    return [_given(src=icon.src, mimeType=icon.mime_type, sizes=list(icon.sizes), theme=icon.theme) for icon in icons]


def contents_on_wire(contents: ResourceContents) -> Json:
    return _given(uri=contents.uri, mimeType=contents.mime_type, text=clean(contents.text), blob=contents.blob)


def block_on_wire(block: Block, version: str) -> Json:
    """The block as this version's clients know it; one from before a kind existed reads a line about it instead."""
    notes = annotations_on_wire(block.annotations)
    match block:
        case Text():
            return _given(type="text", text=block.text, annotations=notes)
        case Image():
            return _given(type="image", data=block.data, mimeType=block.mime_type, annotations=notes)
        case Audio():
            if version < "2025-03-26":
                return _given(type="text", text=f"[{block.mime_type} audio, which this protocol version can't carry]")
            return _given(type="audio", data=block.data, mimeType=block.mime_type, annotations=notes)
        case ResourceLink():
            if version < "2025-06-18":
                return _given(type="text", text=f"[{block.name}]({block.uri})", annotations=notes)
            return _given(
                type="resource_link",
                uri=block.uri,
                name=block.name,
                title=block.title,
                description=block.description,
                mimeType=block.mime_type,
                size=block.size,
                annotations=notes,
                icons=icons_on_wire(block.icons),
            )
        case EmbeddedResource():
            return _given(type="resource", resource=contents_on_wire(block.contents), annotations=notes)


def answer_on_wire(answer: ToolAnswer, version: str) -> Json:
    result: Json = {"content": [block_on_wire(block, version) for block in answer.content]}
    if answer.structured is not None and version >= "2025-06-18":
        result["structuredContent"] = answer.structured
    result["isError"] = answer.is_error
    if answer.meta:
        result["_meta"] = dict(answer.meta)
    cleaned: Json = clean(result)
    return cleaned


def tool_on_wire(tool: Tool, version: str) -> Json:
    listed = _given(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        inputSchema=tool.input_schema,
        outputSchema=tool.output_schema,
        annotations={
            "title": tool.title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
        icons=icons_on_wire(tool.icons),
    )
    if version == "2025-11-25":
        listed["execution"] = {"taskSupport": tool.task_support}
    return listed


def resource_on_wire(resource: Resource) -> Json:
    return _given(
        uri=resource.uri,
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mimeType=resource.mime_type,
        size=resource.size,
        annotations=annotations_on_wire(resource.annotations),
        icons=icons_on_wire(resource.icons),
    )


def template_on_wire(template: ResourceTemplate) -> Json:
    return _given(
        uriTemplate=template.uri_template,
        name=template.name,
        title=template.title,
        description=template.description,
        mimeType=template.mime_type,
        annotations=annotations_on_wire(template.annotations),
        icons=icons_on_wire(template.icons),
    )


def prompt_on_wire(prompt: Prompt) -> Json:
    return _given(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            _given(name=each.name, description=each.description, required=each.required) for each in prompt.arguments
        ],
    )


# JSON-RPC batches are part of this one revision: added by it, removed by the next.
BATCH_VERSION = "2025-03-26"


@dataclass(frozen=True, slots=True)
class Complaint:
    """What we answer to bytes that hold no message."""

    code: int
    message: str
    request_id: str | int | None = None

    def on_wire(self) -> Json:
        error = {"code": self.code, "message": self.message}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


Found = types.JSONRPCMessage | Complaint


def read(data: bytes, most: int, *, batches: bool = False) -> Found | list[Found] | None:
    """What the bytes hold; None if they are blank."""
    if len(data) > most:
        return Complaint(types.INVALID_REQUEST, f"Message too large: {most} bytes is the most.")
    if not data.strip():
        return None
    try:
        value = pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        return Complaint(types.PARSE_ERROR, f"Parse error: {error}.", _id_in(_loosely(data)))
    if isinstance(value, list) and value and batches:
        return [_one(each) for each in value]
    return _message(value)


def _loosely(data: bytes) -> Any:
    """What the standard library reads, which takes more for JSON: NaN, halves of surrogate pairs, UTF-16."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _message(value: Any) -> Found:
    try:
        message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        message = None
    # The SDK takes a request whose id makes no sense for a notification; its sender waits for an answer.
    if message is None or (isinstance(message, types.JSONRPCNotification) and "id" in value):
        return Complaint(types.INVALID_REQUEST, _what_is_wrong(value), _id_in(value))
    return message


def _one(value: Any) -> Found:
    message = _message(value)
    if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
        return Complaint(types.INVALID_REQUEST, "Invalid request: initialize can't be in a batch.", message.id)
    return message


def _what_is_wrong(value: Any) -> str:
    if isinstance(value, list):
        return f"Invalid request: batches exist in protocol {BATCH_VERSION} only. Send one message at a time."
    if not isinstance(value, dict):
        return "Invalid request: a message must be an object."
    if value.get("jsonrpc") != "2.0":
        return 'Invalid request: "jsonrpc" must be "2.0".'
    if "params" in value and not isinstance(value["params"], dict):
        return 'Invalid request: "params" must be an object.'
    return 'Invalid request: it needs a string "method", and an "id" that is a string or an integer.'


def _id_in(value: Any) -> str | int | None:
    """The id to answer to; one that is no text in UTF-8 could not be sent back."""
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, str):
        return found if clean(found) == found else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
