"""A client that starts a server and exchanges JSON lines with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Message = dict[str, Any]

SOURCE = Path(__file__).parents[2] / "src"
PATIENCE_S = 60.0


def environment() -> dict[str, str]:
    """This process's environment, with the package importable and output as it comes."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


class Inbox:
    """The messages that came, and waiting for one of them."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.closed = False
        self._changed = threading.Condition()

    def add(self, message: Message) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def wait(self, wanted: Callable[[Message], bool], timeout: float = PATIENCE_S) -> Message:
        """The first message that is wanted, taken out; raises when none comes."""

        def find() -> Message | None:
            return next((each for each in self.messages if wanted(each)), None)

        with self._changed:
            self._changed.wait_for(lambda: find() is not None or self.closed, timeout)
            found = find()
            if found is None:
                raise AssertionError(f"no such message; the server {'ended' if self.closed else 'is silent'}")
            self.messages.remove(found)
            return found


class StdioClient:
    """A server process and our end of its pipes; `answers` maps a method to our answer to the server's request."""

    def __init__(self, command: Sequence[str], answers: dict[str, Callable[[Message], Message]] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        self.answers = answers or {}
        self.inbox = Inbox()
        self.log: list[str] = []
        self.stray: list[str] = []
        self._next_id = 0
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_log, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @classmethod
    def python(cls, script: Path, *arguments: str, **more: Any) -> StdioClient:
        return cls([sys.executable, str(script), *arguments], **more)

    def __enter__(self) -> StdioClient:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue

    # ── sending ──

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, *messages: Message) -> None:
        self.send_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in messages))

    def start(self, method: str, params: Message | None = None) -> int:
        """Sends a request and gives its id, for `finish`."""
        self._next_id += 1
        message: Message = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        self.send(message if params is None else message | {"params": params})
        return self._next_id

    def finish(self, request_id: int | str | None, timeout: float = PATIENCE_S) -> Message:
        return self.inbox.wait(lambda each: "method" not in each and each.get("id") == request_id, timeout)

    def request(self, method: str, params: Message | None = None) -> Message:
        return self.finish(self.start(method, params))

    def notify(self, method: str, params: Message | None = None) -> None:
        message: Message = {"jsonrpc": "2.0", "method": method}
        self.send(message if params is None else message | {"params": params})

    # ── shorthands ──

    def initialize(self, version: str = "2025-11-25", capabilities: Message | None = None) -> Message:
        info = {"name": "raw", "version": "0"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": info}
        result: Message = self.request("initialize", params)["result"]
        self.notify("notifications/initialized")
        return result

    def call(self, tool: str, arguments: Message | None = None, **more: Any) -> Message:
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more})

    def notification(self, method: str, timeout: float = PATIENCE_S) -> Message:
        return self.inbox.wait(lambda each: each.get("method") == method and "id" not in each, timeout)

    def notifications(self, method: str) -> Iterable[Message]:
        return [each for each in self.inbox.messages if each.get("method") == method]

    def end(self, timeout: float = PATIENCE_S) -> int:
        """Closes our end and gives the server's exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(timeout)

    # ── receiving ──

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                self.stray.append(line.decode(errors="replace"))
                continue
            asked = isinstance(message, dict) and "id" in message
            answer = self.answers.get(message.get("method", "")) if asked else None
            if answer is not None:
                self.send({"jsonrpc": "2.0", "id": message["id"], "result": answer(message.get("params", {}))})
            self.inbox.add(message)
        self.inbox.close()

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace"))
