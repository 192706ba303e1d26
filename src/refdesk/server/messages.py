"""What is in these bytes: a message, a batch of them, or a mistake to complain about?"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import mcp_types as types
import pydantic_core

from refdesk.server.wire import clean
from refdesk.toolsets.contract import Json

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
