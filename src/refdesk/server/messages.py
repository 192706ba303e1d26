"""JSON-RPC messages: parses what clients send, and turns our values into MCP's JSON."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import mcp_types as types
import pydantic_core
from mcp_types.methods import serialize_server_result

from refdesk.errors import RpcError
from refdesk.toolsets.content import Audio, Block, EmbeddedResource, Image, Json, ResourceLink, Text, ToolAnswer
from refdesk.toolsets.contract import Tool

logger = logging.getLogger(__name__)

RELATED_TASK = "io.modelcontextprotocol/related-task"


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


_BLOCKS = {Text: "text", Image: "image", Audio: "audio", ResourceLink: "resource_link", EmbeddedResource: "resource"}
_FUNCTIONS = frozenset({"read", "render", "complete"})  # fields for the server alone


def to_json(value: Any) -> Any:
    """A dataclass as MCP's JSON: names in camel case, without functions and without what is None or empty."""
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if not is_dataclass(value):
        return value
    found: Json = {"type": kind} if (kind := _BLOCKS.get(type(value))) else {}
    for one in fields(value):
        each = getattr(value, one.name)
        if one.name not in _FUNCTIONS and each is not None and each != ():
            first, *more = one.name.split("_")
            found[first + "".join(map(str.capitalize, more))] = to_json(each)
    return found


def block_json(block: Block, version: str) -> Json:
    """The block as JSON; a line of text instead if the protocol version lacks that kind of block."""
    if isinstance(block, Audio) and version < "2025-03-26":
        block = Text(f"[{block.mime_type} audio, which this protocol version can't carry]")
    if isinstance(block, ResourceLink) and version < "2025-06-18":
        block = Text(f"[{block.name}]({block.uri})", block.annotations)
    found: Json = to_json(block)
    return found


def answer_json(answer: ToolAnswer, version: str) -> Json:
    result: Json = {"content": [block_json(block, version) for block in answer.content]}
    if answer.structured is not None and version >= "2025-06-18":
        result["structuredContent"] = answer.structured
    result["isError"] = answer.is_error
    if answer.meta:
        result["_meta"] = dict(answer.meta)
    try:
        pydantic_core.to_json(result)
    except ValueError:  # rare, and ten times as slow to look for in Python
        result = clean(result)
    return result


def encoded_answer(request_id: str | int, answer: ToolAnswer | RpcError, version: str) -> bytes:
    """The response to a call as the SDK would write it."""
    try:
        return _encoded_answer(request_id, answer, version)
    except Exception:
        return unwritable(request_id)


def unwritable(request_id: str | int | None) -> bytes:
    """The error in place of a message that can't be encoded: the connection must survive it."""
    logger.exception("a message could not be written")
    error = InvalidMessage(types.INTERNAL_ERROR, "The answer could not be written as JSON.", request_id)
    return json.dumps(error.to_json()).encode()


def _encoded_answer(request_id: str | int, answer: ToolAnswer | RpcError, version: str) -> bytes:
    if isinstance(answer, RpcError):
        error: Json = {"code": answer.code, "message": answer.message}
        if answer.data is not None:
            error["data"] = answer.data
        return _to_json({"jsonrpc": "2.0", "id": request_id, "error": error})
    result: Json
    plain = [block.text for block in answer.content if isinstance(block, Text) and block.annotations is None]
    if len(plain) == len(answer.content):
        result = {"_meta": answer.meta} if answer.meta else {}
        result["content"] = [{"text": text, "type": "text"} for text in plain]
        result["isError"] = answer.is_error
        if answer.structured is not None and version >= "2025-06-18":
            result["structuredContent"] = answer.structured
    else:  # it leaves out what the version does not have
        result = serialize_server_result("tools/call", version, answer_json(answer, version))
    return _to_json({"jsonrpc": "2.0", "id": request_id, "result": result})


def _to_json(value: Json) -> bytes:
    try:
        return pydantic_core.to_json(value, inf_nan_mode="null")
    except ValueError:
        return pydantic_core.to_json(clean(value), inf_nan_mode="null")


def tool_json(tool: Tool, version: str) -> Json:
    hints = {f"{name}Hint": value for name, value in to_json(tool.hints).items()}
    listed: Json = {"name": tool.name, "title": tool.title, "description": tool.description}
    listed |= {"inputSchema": tool.input_schema, "annotations": {"title": tool.title, **hints}}
    if tool.output_schema is not None:
        listed["outputSchema"] = tool.output_schema
    if tool.icons:
        listed["icons"] = to_json(tool.icons)
    if version == "2025-11-25":
        listed["execution"] = {"taskSupport": tool.task_support}
    return listed


# JSON-RPC batches exist in this revision only: the next one removed them.
BATCH_VERSION = "2025-03-26"


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """The error that answers bytes which hold no valid message."""

    code: int
    message: str
    request_id: str | int | None = None

    def to_json(self) -> Json:
        error = {"code": self.code, "message": self.message}
        return {"jsonrpc": "2.0", "id": self.request_id, "error": error}


ParsedMessage = types.JSONRPCMessage | InvalidMessage


def decode(data: bytes, most: int) -> Any:
    """The value that the bytes hold as JSON, or an `InvalidMessage`."""
    if len(data) > most:
        return InvalidMessage(types.INVALID_REQUEST, f"Message too large: {most} bytes is the most.")
    try:
        return pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        return InvalidMessage(types.PARSE_ERROR, f"Parse error: {error}.", _id_in(_loosely(data)))


def messages_in(value: Any, *, batches: bool = False) -> ParsedMessage | list[ParsedMessage]:
    """The message that a decoded value is, or the batch of them."""
    if isinstance(value, InvalidMessage):
        return value
    if isinstance(value, list) and value and batches:
        return [_one(each) for each in value]
    return _message(value)


def _loosely(data: bytes) -> Any:
    """The value as the standard library parses it, which also accepts NaN, lone surrogates and UTF-16."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _message(value: Any) -> ParsedMessage:
    try:
        message = types.jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValueError:
        message = None
    # The SDK parses a request with an invalid id as a notification, but its sender waits for an answer.
    if message is None or (isinstance(message, types.JSONRPCNotification) and "id" in value):
        return InvalidMessage(types.INVALID_REQUEST, _what_is_wrong(value), _id_in(value))
    return message


def _one(value: Any) -> ParsedMessage:
    message = _message(value)
    if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
        return InvalidMessage(types.INVALID_REQUEST, "Invalid request: initialize can't be in a batch.", message.id)
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
