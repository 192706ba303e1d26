"""What does the server make of messages that are wrong in every way?  Each must get an answer and no more.

`hostile` makes the bytes, `over_stdio` and `over_http` send them to a running server and say what went wrong,
`soak` does so for long and looks at the server's memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.mcp_client.http import ACCEPT, HttpClient, messages_in
from tests.mcp_client.stdio import Message, StdioClient

PATIENCE_S = 20.0
AT_ONCE = 50
BATCH_VERSION = "2025-03-26"

# As JSON, since much of it has no Python value: half of a surrogate pair, a number of 5,000 digits, NaN.
ODD = (
    '"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"', '"\\u0000"', '"\\u2028\\u0085\\u009b"', '"\ufeff"', '""', '" "',
    '"../../etc/passwd"', '"file:///dev/zero"', '"%00"', '"a\\\\u0000"', '"' + "x" * 70_000 + '"', '"(a+)+$"', '"[["',
    "0", "-1", "1.5", "-0.0", "1e999", "-1e999", "9007199254740993", "1" * 400, "1" * 5000, "2147483648", "NaN",
    "Infinity", "-Infinity", "null", "true", "[]", "{}", "[[]]", '{"":""}', '{"__proto__":{}}', '{"$ref":"#"}',
    "[" * 150 + "]" * 150, "[" * 300 + "]" * 300, '{"a":' * 190 + "1" + "}" * 190, "[" + "0," * 5000 + "0]",
)  # fmt: skip
RAW = (
    b"", b" ", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{", b"}", b"[", b"]", b"[]", b"{}", b"null", b"7", b'""',
    b"[1]", b"[" * 100_000, b'{"a":' * 50_000, b'"' + b"\\" * 50_001, b"GET / HTTP/1.1", b"Content-Length: 5",
    b"\xed\xa0\x80",
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', b'{"jsonrpc":"2.0","id":7,"method":"\\udfff"}',
    b'{"jsonrpc":"2.0","id":7,"method":"ping","id":8}', b'{"jsonrpc":"2.0","jsonrpc":"1.0","id":7,"method":"ping"}',
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":7,"method":"ping"}',
    '{"jsonrpc":"2.0","id":7,"method":"ping"}'.encode("utf-16"),
    b'{"jsonrpc":"2.0","id":7,"method":"ping"}\x00', b'{"jsonrpc":"2.0","id":7,"method":"ping"} {}',
    b'[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}]',
    b'{"jsonrpc":"2.0","id":7,"result":{}}', b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
)  # fmt: skip


@dataclass(slots=True)
class Tally:
    """How many messages were sent, how many answers came, and what was wrong."""

    sent: int = 0
    answered: int = 0
    wrong: list[str] = field(default_factory=list)


def hostile(seed: int, tools: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Messages without end, the same for the same seed; `tools` as `tools/list` gives them."""
    rng = random.Random(seed)
    while True:
        match rng.randrange(10):
            case 0:
                yield rng.choice(RAW)
            case 1 | 2 | 3:
                yield _damaged(rng, _spelt(rng, _request(rng, tools), 0.0))
            case _:
                yield _spelt(rng, _request(rng, tools), rng.choice((0.0, 0.05, 0.3)))


def _request(rng: random.Random, tools: Sequence[Mapping[str, Any]]) -> Message:
    tool = rng.choice(tools)
    wanted = tool["inputSchema"].get("properties", {})
    given = {name: _fitting(rng, schema) for name, schema in wanted.items() if rng.random() < 0.6}
    call: Message = {"name": tool["name"], "arguments": given}
    completed = {"name": "number", "value": "b"}
    uri = rng.choice(("rag://collections", "rag://nowhere/1", "toy://notes/1", "x", "file:///etc/passwd"))
    method, params = rng.choice(
        (
            ("tools/call", call),
            ("tools/call", call),
            ("tools/call", call | {"_meta": {"progressToken": 1, "correlationId": "fuzz"}}),
            ("tools/call", call | {"task": {"ttl": 50}}),
            ("ping", {}),
            ("tools/list", {"cursor": "YXQ6MQ=="}),
            ("resources/list", {}),
            ("resources/read", {"uri": uri}),
            ("resources/subscribe", {"uri": uri}),
            ("resources/unsubscribe", {"uri": uri}),
            ("completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": completed}),
            ("logging/setLevel", {"level": rng.choice(("debug", "error", "loud"))}),
            ("tasks/get", {"taskId": "none"}),
            ("tasks/result", {"taskId": "none"}),
            ("tasks/list", {}),
            ("prompts/get", {"name": "none"}),
            ("no/such", {"a": [1, {"b": None}]}),
        )
    )  # fmt: skip
    message: Message = {"jsonrpc": "2.0", "id": rng.randrange(1000, 10**9), "method": method, "params": params}
    if rng.random() < 0.1:
        del message["id"]
    return message


def _fitting(rng: random.Random, schema: Mapping[str, Any]) -> Any:
    """A value that the schema may allow."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            # A data: URI is the one kind that reaches neither the network nor a file.
            return rng.choice(("retry with backoff", "def main", "data:text/plain,hello", "x", "main"))
        case "integer":
            return rng.choice((1, 2, 10, schema.get("maximum", 5), schema.get("minimum", 0) - 1))
        case "number":
            return rng.choice((0, 0.5, 1, 2))
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [_fitting(rng, schema.get("items", {}))]
    return {}


def _spelt(rng: random.Random, value: Any, oddity: float) -> bytes:
    """The value as JSON, each part of it replaced by an odd one with that probability."""

    def spell(part: Any) -> str:
        if rng.random() < oddity:
            return rng.choice(ODD)
        if isinstance(part, dict):
            pairs = [f"{rng.choice(ODD[:16]) if rng.random() < oddity / 4 else json.dumps(key)}:{spell(each)}"
                     for key, each in part.items()]  # fmt: skip
            if pairs and rng.random() < oddity / 4:
                pairs.append(rng.choice(pairs))  # a key twice
            return "{" + ",".join(pairs) + "}"
        if isinstance(part, list):
            return "[" + ",".join(spell(each) for each in part) + "]"
        return json.dumps(part, ensure_ascii=rng.random() < 0.5)

    return spell(value).encode("utf-8", "surrogatepass")


def _damaged(rng: random.Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(damaged) + 1)
        match rng.randrange(4):
            case 0:
                del damaged[at : at + rng.randint(1, 20)]
            case 1:
                damaged[at:at] = rng.choice(
                    (b"\x00", b"\xff", b'"', b"{", b"\\", b"\xef\xbb\xbf", b"\xc3", b",", b"\x1b[")
                )
            case 2:
                damaged[at : at + 1] = bytes([rng.randrange(256)])
            case _:
                damaged[at:at] = damaged[at : at + rng.randint(1, 40)]
    return bytes(damaged)


def needs_answer(data: bytes, *, batches: bool = False) -> bool:
    """Whether whoever sent these bytes waits: not for blanks, notifications and answers."""
    if not data.strip():
        return False
    try:
        value = json.loads(data.decode(), parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return True
    if isinstance(value, list) and value and batches:
        return any(_waits(each) for each in value)
    return _waits(value)


def _waits(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return True
    if isinstance(value.get("method"), str):
        return "id" in value or not isinstance(value.get("params") or {}, dict)
    answers = isinstance(value.get("result"), dict) or isinstance(value.get("error"), dict)
    return not (answers and "id" in value)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def over_stdio(client: StdioClient, raw: Iterator[bytes], count: int, *, batches: bool = False) -> Tally:
    """Sends so many messages, some under way at a time, and waits for as many answers as they need."""
    tally = Tally()
    while tally.sent < count and not tally.wrong:
        lines = [next(raw).replace(b"\n", b" ").replace(b"\r", b" ") for _ in range(min(AT_ONCE, count - tally.sent))]
        client.send_bytes(b"".join(line + b"\n" for line in lines))
        tally.sent += len(lines)
        waited = sum(needs_answer(line, batches=batches) for line in lines)
        for missing in range(waited, 0, -1):
            try:
                answer = client.inbox.wait(lambda each: "method" not in each, PATIENCE_S)
            except AssertionError as error:
                tally.wrong.append(f"{missing} of {waited} answers did not come: {error}; sent {lines!r:.20000}")
                break
            tally.answered += 1
            _look(tally, json.dumps(answer), b"")
        if client.stray:
            tally.wrong.append(f"not JSON on stdout: {client.stray[0]:.500}")
        client.inbox.messages.clear()
    return tally


def over_http(url: str, raw: Iterator[bytes], count: int, seed: int = 0) -> Tally:
    """Posts so many messages, in sessions, without one and as 2026-07-28."""
    tally, rng = Tally(), random.Random(seed)
    with HttpClient(url) as client, httpx.Client(timeout=PATIENCE_S, verify=False) as http:
        client.initialize()
        session = dict(client.headers)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "left", "version": "0"}}
        modern = {**ACCEPT, "mcp-protocol-version": "2026-07-28"}
        while tally.sent < count and not tally.wrong:
            data = next(raw)
            headers = rng.choice((session, session, session, modern, dict(ACCEPT)))
            if rng.random() < 0.1:  # a session that nobody comes back to
                data = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode()
                headers = dict(ACCEPT)
            tally.sent += 1
            try:
                sent = {**headers, "content-type": "application/json"}
                with http.stream("POST", url, content=data, headers=sent) as response:
                    body = response.read()
                    answers = list(messages_in(response)) if response.status_code != 202 else []
            except (httpx.HTTPError, ValueError) as error:
                tally.wrong.append(f"{type(error).__name__} {error} after {data!r:.2000}")
                break
            if response.status_code >= 500:
                tally.wrong.append(f"status {response.status_code} after {data!r:.2000}: {body!r:.500}")
            if headers is session and needs_answer(data) and not any("method" not in each for each in answers):
                tally.wrong.append(f"status {response.status_code}, no answer to {data!r:.2000}: {body!r:.500}")
            tally.answered += bool(answers)
            _look(tally, body.decode(errors="replace"), data)
    return tally


def soak(pid: int, send: Callable[[int], Tally], calls: int) -> tuple[Tally, list[int]]:
    """What became of so many calls that `send` makes, and what the process held after each tenth of them, in kB."""
    whole, held = Tally(), []
    for _ in range(10):
        tally = send(calls // 10)
        whole.sent += tally.sent
        whole.answered += tally.answered
        whole.wrong += tally.wrong
        held.append(own_kb(pid))
    return whole, held


def own_kb(pid: int) -> int:
    """What the process holds for itself: pages of mapped files come and go as the system likes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1])


def _look(tally: Tally, said: str, after: bytes) -> None:
    if "Traceback (most recent" in said or 'File \\"' in said:
        tally.wrong.append(f"a traceback reached the client after {after!r:.2000}: {said:.2000}")
