"""JSON-RPC messages: parses what clients send, and turns our values into MCP's JSON."""

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

RELATED_TASK = "io.modelcontextprotocol/related-task"


def _given(**fields: Any) -> Json:
    """The fields without those that are None or an empty list."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def clean(value: Any) -> Any:
    """The value with lone surrogates (from odd file names) replaced, so that it can be encoded as UTF-8."""
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


def annotations_json(annotations: Annotations | None) -> Json | None:
    if annotations is None:
        return None
    return _given(
        audience=list(annotations.audience),
        priority=annotations.priority,
        lastModified=annotations.last_modified,
    )


def icons_json(icons: Iterable[Icon]) -> list[Json]:
    return [_given(src=icon.src, mimeType=icon.mime_type, sizes=list(icon.sizes), theme=icon.theme) for icon in icons]


def contents_json(contents: ResourceContents) -> Json:
    return _given(uri=contents.uri, mimeType=contents.mime_type, text=clean(contents.text), blob=contents.blob)


def block_json(block: Block, version: str) -> Json:
    """The block as JSON; a line of text instead if the protocol version lacks that kind of block."""
    notes = annotations_json(block.annotations)
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
                icons=icons_json(block.icons),
            )
        case EmbeddedResource():
            return _given(type="resource", resource=contents_json(block.contents), annotations=notes)


def answer_json(answer: ToolAnswer, version: str) -> Json:
    result: Json = {"content": [block_json(block, version) for block in answer.content]}
    if answer.structured is not None and version >= "2025-06-18":
        result["structuredContent"] = answer.structured
    result["isError"] = answer.is_error
    if answer.meta:
        result["_meta"] = dict(answer.meta)
    cleaned: Json = clean(result)
    return cleaned


def tool_json(tool: Tool, version: str) -> Json:
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
        icons=icons_json(tool.icons),
    )
    if version == "2025-11-25":
        listed["execution"] = {"taskSupport": tool.task_support}
    return listed


def resource_json(resource: Resource) -> Json:
    return _given(
        uri=resource.uri,
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mimeType=resource.mime_type,
        size=resource.size,
        annotations=annotations_json(resource.annotations),
        icons=icons_json(resource.icons),
    )


def template_json(template: ResourceTemplate) -> Json:
    return _given(
        uriTemplate=template.uri_template,
        name=template.name,
        title=template.title,
        description=template.description,
        mimeType=template.mime_type,
        annotations=annotations_json(template.annotations),
        icons=icons_json(template.icons),
    )


def prompt_json(prompt: Prompt) -> Json:
    return _given(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            _given(name=each.name, description=each.description, required=each.required) for each in prompt.arguments
        ],
    )


# JSON-RPC batches exist in this revision only: the next one removed them.
BATCH_VERSION = "2025-03-26"


@dataclass(frozen=True, slots=True)
class Complaint:
    """The error that answers bytes which hold no valid message."""

    code: int
    message: str
    request_id: str | int | None = None

    def to_json(self) -> Json:
        error = {"code": self.code, "message": self.message}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


Found = types.JSONRPCMessage | Complaint


def read(data: bytes, most: int, *, batches: bool = False) -> Found | list[Found] | None:
    """Parses a message, or a batch of them; None if the bytes are blank."""
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
    """The value as the standard library parses it, which also accepts NaN, lone surrogates and UTF-16."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _message(value: Any) -> Found:
    try:
        message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        message = None
    # The SDK parses a request with an invalid id as a notification, but its sender waits for an answer.
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
    """The request id, or None if it is missing, invalid or can't be encoded as UTF-8."""
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, str):
        return found if clean(found) == found else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
