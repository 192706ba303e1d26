"""How does one client talk to us over stdin and stdout?  One JSON message a line."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from refdesk.server.hub import Hub
from refdesk.server.protocol import build_server
from refdesk.server.workers import Workers

logger = logging.getLogger(__name__)

# Requests that stay open on purpose: the end of input need not wait for their answers.
_ENDLESS = frozenset({"subscriptions/listen", "tasks/result"})


def serve_stdio(hub: Hub) -> int:
    """Serves the process's stdin and stdout until stdin closes; returns the exit code."""
    wire_in, wire_out = _claim_streams()
    try:
        asyncio.run(Pipe(hub, wire_in, wire_out).serve())
    except KeyboardInterrupt:
        return 130
    finally:
        hub.stop()
    return 0


class Pipe:
    """One client on two file descriptors."""

    def __init__(self, hub: Hub, wire_in: BinaryIO, wire_out: int) -> None:
        self._hub = hub
        self._in = wire_in
        self._out = wire_out
        self._writer = Workers(1, "refdesk-stdout")
        self._unanswered: set[str | int] = set()
        self._answered = asyncio.Event()

    async def serve(self) -> None:
        server = build_server(self._hub)
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, out_of = anyio.create_memory_object_stream[SessionMessage](0)
        loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read, args=(loop, into, outgoing.clone()), name="refdesk-stdin", daemon=True
        ).start()
        writing = loop.create_task(self._write(out_of, into))
        polling = loop.create_task(self._hub.poll())
        try:
            await server.run(incoming, outgoing, server.create_initialization_options())
        finally:
            polling.cancel()
            await asyncio.wait([writing], timeout=self._hub.options.exit_grace_s)
            writing.cancel()

    # ── in ──

    def _read(
        self,
        loop: asyncio.AbstractEventLoop,
        into: MemoryObjectSendStream[SessionMessage | Exception],
        outgoing: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Reads lines in a thread of its own; each waits for the last to be taken, so nothing piles up."""

        async def take(found: types.JSONRPCMessage | Complaint) -> None:
            if isinstance(found, Complaint):
                await outgoing.send(SessionMessage(found.on_wire()))
                return
            if isinstance(found, types.JSONRPCRequest) and found.method not in _ENDLESS:
                self._unanswered.add(found.id)
            await into.send(SessionMessage(found))

        async def finish() -> None:
            with anyio.move_on_after(self._hub.options.exit_grace_s):
                while self._unanswered:
                    self._answered.clear()
                    await self._answered.wait()
            outgoing.close()
            await into.aclose()

        try:
            while (line := self._next_line()) is not None:
                found = _parse(line, self._hub.options.max_message_bytes)
                if found is not None:
                    asyncio.run_coroutine_threadsafe(take(found), loop).result()
            asyncio.run_coroutine_threadsafe(finish(), loop).result()
        except (RuntimeError, asyncio.CancelledError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the other side has gone already

    def _next_line(self) -> bytes | None:
        """The next line; one that is too long comes cut, its rest thrown away; None at the end."""
        most = self._hub.options.max_message_bytes
        try:
            line = self._in.readline(most + 1)
            rest = line
            while len(rest) > most and not rest.endswith(b"\n"):
                rest = self._in.readline(most + 1)
        except OSError:
            return None
        return line or None

    # ── out ──

    async def _write(
        self,
        out_of: MemoryObjectReceiveStream[SessionMessage],
        into: MemoryObjectSendStream[SessionMessage | Exception],
    ) -> None:
        async with out_of:
            async for item in out_of:
                message = item.message
                data = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await self._writer.run(lambda data=data: _write_all(self._out, data))  # type: ignore[misc]
                except OSError:
                    logger.info("the client no longer reads: stopping")
                    await into.aclose()
                    return
                if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
                    self._unanswered.discard(message.id)
                    self._answered.set()
                self._hub.loading.start()  # now that the first answer is out


@dataclass(frozen=True, slots=True)
class Complaint:
    """What we say about a line that holds no message."""

    code: int
    message: str
    request_id: str | int | None = None

    def on_wire(self) -> types.JSONRPCError:
        error = types.ErrorData(code=self.code, message=self.message)
        return types.JSONRPCError(jsonrpc="2.0", id=self.request_id, error=error)


def _parse(line: bytes, most: int) -> types.JSONRPCMessage | Complaint | None:
    """The message in a line, our complaint if there is none, or None for a blank line."""
    if len(line) > most:
        return Complaint(types.INVALID_REQUEST, f"Message too large: {most} bytes is the most.")
    if not line.strip():
        return None
    message: types.JSONRPCMessage | None
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = None
    if message is not None and not isinstance(message, types.JSONRPCNotification):
        return message
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return Complaint(types.PARSE_ERROR, "Parse error: the line is not JSON.")
    # The SDK takes a request whose id makes no sense for a notification; its sender waits for an answer.
    if message is not None and "id" not in value:
        return message
    return Complaint(types.INVALID_REQUEST, _what_is_wrong(value), _id_in(value))


def _what_is_wrong(value: Any) -> str:
    if isinstance(value, list):
        return "Invalid request: batches are not supported. Send one message a line."
    if not isinstance(value, dict):
        return "Invalid request: a message must be an object."
    if value.get("jsonrpc") != "2.0":
        return 'Invalid request: "jsonrpc" must be "2.0".'
    if "params" in value and not isinstance(value["params"], dict):
        return 'Invalid request: "params" must be an object.'
    return 'Invalid request: it needs a string "method", and an "id" that is a string or an integer.'


def _id_in(value: Any) -> str | int | None:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _claim_streams() -> tuple[BinaryIO, int]:
    """Private copies of stdin and stdout; what prints from now on goes to stderr, and what reads finds nothing."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(wire_in, os.O_BINARY)
        msvcrt.setmode(wire_out, os.O_BINARY)
    return os.fdopen(wire_in, "rb", buffering=1 << 16), wire_out
