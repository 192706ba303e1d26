"""A client for Streamable HTTP, and the server process that it talks to."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests.mcp_client.stdio import Inbox, Message, environment

ACCEPT = {"accept": "application/json, text/event-stream"}


class HttpServer:
    """A server process that says on stderr where it listens."""

    def __init__(self, script: Path, *arguments: str) -> None:
        command = [sys.executable, str(script), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        self.log: list[str] = []
        self._told = threading.Event()
        self.url = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._told.wait(60)
        if not self.url:
            self.process.kill()
            raise AssertionError(f"the server did not start: {''.join(self.log)}")

    def __enter__(self) -> HttpServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def root(self) -> str:
        return self.url.removesuffix("/mcp")

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.decode())
            with contextlib.suppress(ValueError):
                self.url = self.url or json.loads(line).get("url", "")
            if self.url:
                self._told.set()
        self._told.set()


class HttpClient:
    """One session; `answers` maps a method to our answer to the server's request."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url = url
        self.headers: dict[str, str] = {**ACCEPT, **(headers or {})}
        self.inbox = Inbox()
        self.answers: dict[str, Callable[[Message], Message]] = {}
        self._http = httpx.Client(timeout=60, verify=False)  # plain HTTP: certificates only cost time
        self._next_id = 0
        self._listening: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def initialize(self, version: str = "2025-11-25", capabilities: Message | None = None) -> Message:
        info = {"name": "raw", "version": "0"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        result: Message = self.request("initialize", params)["result"]
        self.headers["mcp-protocol-version"] = result["protocolVersion"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def post(self, message: Any, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return self._http.post(self.url, json=message, headers={**self.headers, **(headers or {})})

    def request(self, method: str, params: Message | None = None, headers: Mapping[str, str] | None = None) -> Message:
        """The response; what else comes on its stream goes to the inbox."""
        self._next_id += 1
        request_id = self._next_id
        message: Message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        sent = {**self.headers, **(headers or {})}
        with self._http.stream("POST", self.url, json=message, headers=sent) as response:
            if "mcp-session-id" in response.headers:
                self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
            for each in messages_in(response):
                if "method" not in each and each.get("id") == request_id:
                    return each
                self._take(each)
        raise AssertionError(f"no answer to {method}")

    def call(self, tool: str, arguments: Message | None = None, **more: Any) -> Message:
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def modern(self, method: str, params: Message | None = None, capabilities: Message | None = None) -> Message:
        """A 2026-07-28 request: no session, everything in its envelope."""
        version = "2026-07-28"
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": capabilities or {},
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        }
        given = dict(params or {})
        headers = {"mcp-protocol-version": version, "mcp-method": method}
        if "name" in given:
            headers["mcp-name"] = given["name"]
        if "uri" in given:
            headers["mcp-name"] = given["uri"]
        given["_meta"] = meta | given.get("_meta", {})
        return self.request(method, given, headers)

    def listen(self) -> None:
        """Opens the stream on which the server speaks unasked; what comes goes to the inbox."""
        opened = threading.Event()

        def read() -> None:
            with contextlib.suppress(httpx.HTTPError), httpx.Client(timeout=None, verify=False) as client:
                # 409: the server has not noticed yet that our last stream is gone
                while not opened.is_set():
                    with client.stream("GET", self.url, headers=self.headers) as response:
                        if response.status_code == 409:
                            time.sleep(0.05)
                            continue
                        assert response.status_code == 200
                        self._sockets.append(response.extensions["network_stream"].get_extra_info("socket"))
                        opened.set()
                        for each in messages_in(response):
                            self._take(each)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self._listening.append(thread)
        assert opened.wait(30)

    def end_session(self) -> httpx.Response:
        return self._http.delete(self.url, headers=self.headers)

    def leave(self) -> None:
        """Drops all connections, as a client does whose network went away."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._listening:
            thread.join()
        self._sockets.clear()
        self._listening.clear()
        self._http.close()

    def _take(self, message: Message) -> None:
        answer = self.answers.get(message.get("method", "")) if "id" in message else None
        if answer is not None:
            self.post({"jsonrpc": "2.0", "id": message["id"], "result": answer(message.get("params", {}))})
        self.inbox.add(message)


def messages_in(response: httpx.Response) -> Iterator[Message]:
    """The messages in a JSON body or an event stream."""
    if response.headers.get("content-type", "").startswith("application/json"):
        yield json.loads(response.read())
        return
    rest = b""
    for part in [response.content] if response.is_stream_consumed else response.iter_bytes():
        # Only these end a line of the stream; httpx's own lines end at U+2028 and U+0085 too.
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if line.startswith(b"data: ") and line[6:].strip():
                yield json.loads(line[6:])
