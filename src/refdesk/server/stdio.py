"""The stdio transport: one client, one JSON message a line."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import os
import select
import signal
import sys
import threading
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Self

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from refdesk.server.call import ServerCall
from refdesk.server.direct import DirectCall, direct_call
from refdesk.server.dispatcher import Dispatcher
from refdesk.server.messages import (
    BATCH_VERSION,
    InvalidMessage,
    ParsedMessage,
    decode,
    messages_in,
    unwritable,
)
from refdesk.server.process import ThreadPool, first_answer_sent
from refdesk.server.protocol import build_server
from refdesk.toolsets.content import Json

logger = logging.getLogger(__name__)

# Requests that may stay open for ever: shutdown does not wait for their answers.
_ENDLESS = frozenset({"subscriptions/listen", "tasks/result"})

# Messages behind which a call takes the same way, since it must find what they change.
_TELLING = frozenset({"initialize", "logging/setLevel", "notifications/roots/list_changed"})

_LAST_WORDS_S = 1.0  # for a client that does not read; the dispatcher cancels what is left

Into = MemoryObjectSendStream[SessionMessage | Exception]


def serve_stdio(dispatcher: Dispatcher) -> int:
    """Serves the process's stdin and stdout until stdin closes; returns the exit code."""
    wire_in, wire_out = _claim_streams()
    try:
        asyncio.run((session := StdioSession(dispatcher, wire_in, wire_out)).serve())
    except KeyboardInterrupt:
        return 130
    finally:
        dispatcher.stop()
    return 1 if session.failed else 0


@dataclass(slots=True)
class Batch:
    """A batch in progress: the ids still unanswered, and the answers so far."""

    waiting: set[str | int]
    answers: list[Json]


class StdioSession:
    """One client on two file descriptors."""

    def __init__(self, dispatcher: Dispatcher, wire_in: BinaryIO, wire_out: int) -> None:
        self._dispatcher = dispatcher
        self._in = wire_in
        self._out = wire_out
        self._writer = ThreadPool(1, "refdesk-stdout")
        self.failed = False
        self._version = ""
        self._has_answered = False
        self._unanswered: set[str | int] = set()
        self._answered = asyncio.Event()
        self._batches: list[Batch] = []
        self._direct: dict[ServerCall, str | int] = {}  # calls that the SDK does not know of, with their ids
        self._is_ending = False
        self._writing = threading.Lock()  # one line at a time

    async def serve(self) -> None:
        server = build_server(self._dispatcher)
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._into = into
        loop = asyncio.get_running_loop()
        reader = threading.Thread(target=self._read, args=(loop, into), name="refdesk-stdin", daemon=True)
        reader.start()
        polling = loop.create_task(self._dispatcher.poll())
        # Not loop.add_signal_handler, which would take over the wakeup descriptor that the watchdog needs.
        signal.signal(signal.SIGTERM, lambda *_: loop.call_soon_threadsafe(into.close))
        try:
            await server.run(incoming, self, server.create_initialization_options())
        finally:
            polling.cancel()
            await self._end_direct_calls()
            self._writer.wait_idle(self._dispatcher.options.exit_grace_s / 4)

    # ── in ──

    def _read(self, loop: asyncio.AbstractEventLoop, into: Into) -> None:
        """Reads lines in a thread; each waits until the last was processed, so no queue builds up."""
        last: concurrent.futures.Future[None] | None = None
        is_behind = False  # a message that changes what a call finds
        try:
            while (line := self._next_line()) is not None:
                most = self._dispatcher.options.max_message_bytes
                if len(line) <= most and line.isspace():
                    continue
                value = decode(line, most)
                if not is_behind and (asked := self._directly(value, loop)):
                    self._direct[asked.call] = asked.request_id
                    asked.start(partial(self._write_answer, asked), partial(self._note_end, asked))
                    continue
                found = messages_in(value, batches=self._version == BATCH_VERSION)
                method = getattr(found, "method", "")
                is_behind = method != "tools/call" and (is_behind or isinstance(found, list) or method in _TELLING)
                if last is not None:
                    last.result()  # only now, so that this thread sleeps while the message is processed
                last = _start_on(loop, self._take(found, into))
            if last is not None:
                last.result()
            _start_on(loop, self._finish(into)).result()
        except (concurrent.futures.CancelledError, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return  # the server is stopping
        except Exception:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._fail, into, sys.exc_info())

    def _fail(self, into: Into, error: Any) -> None:
        """Stops the server: with one direction broken it could not answer any more."""
        logger.critical("internal error in the stdio transport: stopping", exc_info=error)
        self.failed = True
        into.close()

    def _next_line(self) -> bytes | None:
        """The next line, cut off if it is too long; None at the end of input."""
        most = self._dispatcher.options.max_message_bytes
        try:
            line = self._in.readline(most + 1)
            rest = line
            while len(rest) > most and not rest.endswith(b"\n"):
                rest = self._in.readline(most + 1)
        except OSError:
            return None
        return line or None

    async def _take(self, found: ParsedMessage | list[ParsedMessage], into: Into) -> None:
        messages = found if isinstance(found, list) else [found]
        try:
            if isinstance(found, InvalidMessage):
                await self._send(found.to_json())
            elif isinstance(found, list):
                await self._open_batch(found)
        except OSError:
            await into.aclose()  # the client no longer reads
            return
        for message in messages:
            if isinstance(message, InvalidMessage):
                continue
            if isinstance(message, types.JSONRPCRequest) and message.method not in _ENDLESS:
                self._unanswered.add(message.id)
            elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
                cancelled = (message.params or {}).get("requestId", "")
                self._unanswered.discard(cancelled)  # it gets no answer
                for call, request_id in tuple(self._direct.items()):
                    if str(request_id) == str(cancelled):
                        call.cancel()
            await into.send(SessionMessage(message))

    async def _open_batch(self, found: list[ParsedMessage]) -> None:
        """Collects the answers of a batch until all are there, since they are sent as one array."""
        answers = [each.to_json() for each in found if isinstance(each, InvalidMessage)]
        waiting = {each.id for each in found if isinstance(each, types.JSONRPCRequest)}
        if waiting:
            self._batches.append(Batch(waiting, answers))
        elif answers:
            await self._send(answers)

    async def _finish(self, into: Into) -> None:
        """Waits up to the grace period for open requests, then tells the server that input has ended."""
        self._is_ending = True
        with anyio.move_on_after(self._dispatcher.options.exit_grace_s):
            while self._unanswered or self._direct:
                self._answered.clear()
                await self._answered.wait()
        await into.aclose()

    # ── calls that the SDK does not know of ──

    def _directly(self, value: Any, loop: asyncio.AbstractEventLoop) -> DirectCall | None:
        return direct_call(value, self._dispatcher.subscribers.connection(None), self._dispatcher, loop)

    def _write_answer(self, asked: DirectCall, data: bytes) -> None:
        if self._direct.pop(asked.call, None) is None:
            return  # the server is stopping, and has said so
        try:
            self._write(memoryview(data + b"\n"))
        except OSError:
            asked.call.loop.call_soon_threadsafe(self._into.close)  # the client no longer reads

    def _note_end(self, asked: DirectCall) -> None:
        self._direct.pop(asked.call, None)
        if self._is_ending:
            with suppress(RuntimeError):  # the loop has closed
                asked.call.loop.call_soon_threadsafe(self._answered.set)

    async def _end_direct_calls(self) -> None:
        """Cancels what is left of them and answers as the SDK answers its own when the connection closes."""
        error = types.ErrorData(code=types.CONNECTION_CLOSED, message="Connection closed")
        with anyio.move_on_after(_LAST_WORDS_S), suppress(OSError):
            while self._direct:
                call, request_id = self._direct.popitem()
                if not call.cancelled:
                    call.cancel()
                    await self._put(_encoded(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)))

    # ── out ──

    async def send(self, item: SessionMessage) -> None:
        """Writes a message in the task that sends it: a stream to a writing task took 0.1 ms of each answer."""
        try:
            await self._write_message(item.message)
        except OSError:
            logger.info("the client no longer reads: stopping")
            await self._into.aclose()
            raise anyio.BrokenResourceError from None
        except Exception:
            self._fail(self._into, sys.exc_info())
            raise anyio.BrokenResourceError from None
        if not self._has_answered:
            self._has_answered = True
            first_answer_sent()
            self._dispatcher.loading.start()  # after the first answer, so that the handshake is not delayed

    async def aclose(self) -> None:
        """The SDK closes what it writes to; the descriptor is the process's."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _write_message(self, message: types.JSONRPCMessage) -> None:
        answered = message.id if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) else None
        if isinstance(message, types.JSONRPCResponse) and "serverInfo" in message.result:
            self._version = message.result.get("protocolVersion", "")
        data = _encoded(message)
        batch = next((each for each in self._batches if answered in each.waiting), None)
        if batch is None:
            await self._put(data)
        else:
            batch.waiting.discard(answered or 0)
            batch.answers.append(json.loads(data))
            if not batch.waiting:
                self._batches.remove(batch)
                await self._send(batch.answers)
        if answered is not None:
            self._unanswered.discard(answered)
            self._answered.set()

    async def _send(self, value: Json | list[Json]) -> None:
        await self._put(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())

    async def _put(self, data: bytes) -> None:
        """Writes a line: here what the client's pipe takes at once, the rest in a thread."""
        line = memoryview(data + b"\n")
        is_mine = hasattr(select, "poll") and not self._writer.pending and self._writing.acquire(blocking=False)
        if is_mine:
            try:
                room = select.poll()
                room.register(self._out, select.POLLOUT)
                while line and room.poll(0) == [(self._out, select.POLLOUT)]:
                    line = line[os.write(self._out, line[: select.PIPE_BUF]) :]
            except BaseException:
                self._writing.release()
                raise
            if not line:
                self._writing.release()
                return
        await self._writer.run(partial(self._write, line, is_mine=is_mine))

    def _write(self, line: memoryview, *, is_mine: bool = False) -> None:
        """Writes a line, or the rest of the one that the caller has begun."""
        if not is_mine:
            self._writing.acquire()
        try:
            while line:
                line = line[os.write(self._out, line) :]
        finally:
            self._writing.release()


def _start_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> concurrent.futures.Future[None]:
    """Starts the coroutine on the loop, from another thread."""
    try:
        return asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()  # the loop is closed
        raise


def _encoded(message: types.JSONRPCMessage) -> bytes:
    """The message as JSON, or an error in its place if it can't be encoded: the connection must survive it."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except Exception:
        return unwritable(getattr(message, "id", None))


def _claim_streams() -> tuple[BinaryIO, int]:
    """Private copies of stdin and stdout; the originals now read nothing and print to stderr."""
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
