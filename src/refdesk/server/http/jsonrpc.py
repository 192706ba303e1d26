"""ASGI middleware that parses the JSON-RPC messages in POST bodies: answers invalid ones and splits batches."""

from __future__ import annotations

import asyncio
import json

import mcp_types as types
from mcp.server.streamable_http import GET_STREAM_KEY
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refdesk.server.messages import BATCH_VERSION, InvalidMessage, ParsedMessage, decode, messages_in
from refdesk.server.sdk import MESSAGE, VALUE
from refdesk.toolsets.content import Json


class JsonRpcMiddleware:
    """Wraps the SDK's endpoint, which answers invalid messages too vaguely and knows no batches."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: set[tuple[str, str]] = set()
        self._answered: dict[tuple[str, str], asyncio.Event] = {}  # answered, but not finished yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        # Clients of revisions up to this one send no header.
        version = headers.get("mcp-protocol-version", BATCH_VERSION)
        json_body = headers.get("content-type", "").lower().startswith("application/json")
        if scope["method"] != "POST" or not json_body:
            await self._app(scope, receive, send)
            return
        body = await _body(receive, self._most)
        if body is None:
            return  # the client disconnected
        value = decode(body, self._most)
        found = messages_in(value, batches=version == BATCH_VERSION)
        if len(body) <= self._most and not body.strip():
            found = InvalidMessage(types.PARSE_ERROR, "Parse error: the body is empty.")
        if isinstance(found, InvalidMessage):
            status = 413 if len(body) > self._most else 400
            await JSONResponse(found.to_json(), status)(scope, receive, send)
        elif isinstance(found, list):
            await (await self._batch(found, scope))(scope, receive, send)
        else:
            scope[VALUE] = value
            await self._hand_on(found, scope, _replay(body, receive), send)

    async def _hand_on(self, message: types.JSONRPCMessage, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the message to the SDK, unless its id is in use: the SDK would mix up the two answers."""
        scope[MESSAGE] = message
        session = Headers(scope=scope).get("mcp-session-id")
        if session is None or not isinstance(message, types.JSONRPCRequest):
            await self._app(scope, receive, send)
            return
        key = (session, str(message.id))
        while (ended := self._answered.get(key)) is not None:
            await ended.wait()
        if key in self._open or key[1] == GET_STREAM_KEY:
            words = "Invalid request: its id is that of a request which is not answered yet. Give each its own."
            await JSONResponse(InvalidMessage(types.INVALID_REQUEST, words, message.id).to_json(), 400)(
                scope, receive, send
            )
            return
        self._open.add(key)

        async def note_end(sent: Message) -> None:
            if sent["type"] == "http.response.body" and not sent.get("more_body", False):
                self._answered[key] = asyncio.Event()
            await send(sent)

        try:
            await self._app(scope, receive, note_end)
        finally:
            self._open.discard(key)
            if (ended := self._answered.pop(key, None)) is not None:
                ended.set()

    async def _batch(self, found: list[ParsedMessage], scope: Scope) -> Response:
        """The answers to all requests in the batch, as one array."""
        answers = [each.to_json() for each in found if isinstance(each, InvalidMessage)]
        messages = [each for each in found if not isinstance(each, InvalidMessage)]
        answers += [each for each in await asyncio.gather(*(self._one(each, scope) for each in messages)) if each]
        return JSONResponse(answers) if answers else Response(status_code=202)

    async def _one(self, message: types.JSONRPCMessage, scope: Scope) -> Json | None:
        """The answer to one message of a batch, None if it needs none."""
        body = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        inner = {**scope, "headers": list(scope["headers"])}
        MutableHeaders(scope=inner)["content-length"] = str(len(body))
        parts: list[bytes] = []

        async def gather(part: Message) -> None:
            if part["type"] == "http.response.body":
                parts.append(part.get("body", b""))

        async def wait() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        await self._hand_on(message, inner, _replay(body, wait), gather)
        for answer in _answers(b"".join(parts)):
            if "method" not in answer and ("result" in answer or "error" in answer):
                return answer
        return None


def _answers(body: bytes) -> list[Json]:
    """The messages in a JSON body or an event stream."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith("{"):
        return [json.loads(text)]
    return [json.loads(line[5:]) for line in text.split("\n") if line.startswith("data:") and line[5:].strip()]


def _replay(body: bytes, then: Receive) -> Receive:
    """A `receive` that returns the body first."""
    pending = [body]

    async def receive() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await then()

    return receive


async def _body(receive: Receive, most: int) -> bytes | None:
    """The request's body, cut off beyond the limit; None if the client disconnected."""
    parts: list[bytes] = []
    size = 0
    while size <= most:
        part = await receive()
        if part["type"] != "http.request":
            return None
        parts.append(part.get("body", b""))
        size += len(parts[-1])
        if not part.get("more_body", False):
            break
    return b"".join(parts)
