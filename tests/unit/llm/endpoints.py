"""Endpoints on loopback that speak the vendors' wire formats, and misbehave when told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from refdesk.settings import Settings

Body = Callable[[str], Any]


@dataclass
class Reply:
    """What the endpoint does with one request: says a text, or fails."""

    text: str = ""
    status: int = 200
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_s: float = 0.0
    raw: str | None = None
    body: Any = None


@dataclass
class Endpoint:
    """A running endpoint: where it is, what it was asked, what it will say."""

    url: str
    replies: list[Reply]
    requests: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    sent_headers: list[dict[str, str]] = field(default_factory=list)


def gemini(text: str) -> Any:
    """What Gemini's generateContent answers."""
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-test", "responseId": "r1"}


def openai(text: str) -> Any:
    """What chat completions answers."""
    message = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "test",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def anthropic(text: str) -> Any:
    """What Anthropic's messages answers."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "test",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _error(vendor: str, reply: Reply) -> Any:
    if vendor == "gemini":
        return {"error": {"code": reply.status, "message": reply.message, "status": "UNAVAILABLE"}}
    if vendor == "openai":
        return {"error": {"message": reply.message, "type": "server_error", "param": None, "code": None}}
    return {"type": "error", "error": {"type": "api_error", "message": reply.message}, "request_id": "req_1"}


_BODIES: dict[str, Body] = {"gemini": gemini, "openai": openai, "anthropic": anthropic}


@contextmanager
def endpoint(vendor: str, *replies: Reply) -> Iterator[Endpoint]:
    """A running endpoint that gives the replies in turn, the last one again and again."""
    state = Endpoint("", list(replies))
    lock = threading.Lock()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                state.requests.append(sent)
                state.times.append(time.monotonic())
                state.paths.append(self.path)
                state.sent_headers.append({name.lower(): value for name, value in self.headers.items()})
                reply = state.replies.pop(0) if len(state.replies) > 1 else state.replies[0]
            if reply.hang_s:
                over.wait(reply.hang_s)
            self._send(reply)

        def _send(self, reply: Reply) -> None:
            body = reply.body or (_BODIES[vendor](reply.text) if reply.status == 200 else _error(vendor, reply))
            data = (reply.raw if reply.raw is not None else json.dumps(body)).encode()
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def settings_for(vendor: str, url: str = "", key: str = "k" * 20, **more: Any) -> Settings:
    """Settings by which a vendor is reached at this address."""
    return Settings(**{f"{vendor}_api_key": key, f"{vendor}_base_url": url, **more})
