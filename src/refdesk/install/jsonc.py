"""Sets one value in a JSON file with comments, and leaves its comments and spacing as they are."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_SPACE = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.S)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"-?\d[\d.eE+-]*|true|false|null")


class NotJson(ValueError):
    """The text is not JSON, even with comments allowed; the message names the line."""


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object and its position."""

    start: int
    value_start: int
    value_end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Span:
    """A parsed value and its position; for an object, its members too."""

    start: int
    end: int
    value: Any
    members: dict[str, Member]


def parse(text: str) -> Any:
    """The value in JSON that may have comments and trailing commas; an empty text is an empty object."""
    return _root(text).value if text[_skip(text, 0) :] else {}


def set_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with the object member at `path` set to `value` and everything else unchanged."""
    newline = "\r\n" if "\r\n" in text else "\n"
    if not text[_skip(text, 0) :]:
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False).replace("\n", newline) + newline
    step = _indent_step(text)
    spot, depth = _root(text), 0
    while len(path) - depth > 1 and isinstance(spot.value, dict) and path[depth] in spot.members:
        spot, _ = _value(text, spot.members[path[depth]].value_start)
        depth += 1
    if not isinstance(spot.value, dict):
        where = ".".join(path[:depth]) or "the file"
        raise NotJson(f"{where} is not an object")
    key, inner = path[depth], _nested(path[depth + 1 :], value)
    written = json.dumps(inner, indent=step, ensure_ascii=False).replace("\n", newline + step * (depth + 1))
    if key in spot.members:
        member = spot.members[key]
        return text[: member.value_start] + written + text[member.value_end :]
    return _insert(text, spot, f"{json.dumps(key, ensure_ascii=False)}: {written}", newline, step, depth)


def _insert(text: str, spot: Span, entry: str, newline: str, step: str, depth: int) -> str:
    """The text with `entry` as the object's last member."""
    outer, inner = newline + step * depth, newline + step * (depth + 1)
    if not spot.members:
        inside = text[spot.start + 1 : spot.end - 1].rstrip()
        return text[: spot.start + 1] + inside + inner + entry + outer + text[spot.end - 1 :]
    last = max(member.value_end for member in spot.members.values())
    # A comma may follow already, with comments before or after it: both stay where they are.
    comma = _skip(text, last)
    if text[comma] == ",":
        tail = text[comma + 1 : spot.end - 1].rstrip()
        return text[: comma + 1] + tail + inner + entry + outer + text[spot.end - 1 :]
    tail = text[last : spot.end - 1].rstrip()
    return text[:last] + "," + tail + inner + entry + outer + text[spot.end - 1 :]


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _indent_step(text: str) -> str:
    found = re.search(r"^([ \t]+)\"", text, re.M)
    return found.group(1) if found else "  "


def _root(text: str) -> Span:
    span, end = _value(text, _skip(text, 0))
    if _skip(text, end) != len(text):
        raise _trouble(text, _skip(text, end))
    return span


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int) -> tuple[Span, int]:
    """The value at `at`, and the end of it."""
    if text[at : at + 1] == "{":
        return _object(text, at)
    if text[at : at + 1] == "[":
        return _array(text, at)
    for kind in (_STRING, _SCALAR):
        if found := kind.match(text, at):
            try:
                value = json.loads(found.group())
            except ValueError:
                break
            return Span(at, found.end(), value, {}), found.end()
    raise _trouble(text, at)


def _object(text: str, start: int) -> tuple[Span, int]:
    members: dict[str, Member] = {}
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        key = _STRING.match(text, at)
        if key is None:
            raise _trouble(text, at)
        colon = _skip(text, key.end())
        if text[colon : colon + 1] != ":":
            raise _trouble(text, colon)
        span, end = _value(text, _skip(text, colon + 1))
        members[json.loads(key.group())] = Member(at, span.start, end, span.value)
        at = _after_comma(text, end, "}")
    value = {name: member.value for name, member in members.items()}
    return Span(start, at + 1, value, members), at + 1


def _array(text: str, start: int) -> tuple[Span, int]:
    items: list[Any] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        span, end = _value(text, at)
        items.append(span.value)
        at = _after_comma(text, end, "]")
    return Span(start, at + 1, items, {}), at + 1


def _after_comma(text: str, end: int, closing: str) -> int:
    at = _skip(text, end)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise _trouble(text, at)
    return at


def _trouble(text: str, at: int) -> NotJson:
    line = text.count("\n", 0, at) + 1
    return NotJson(f"line {line}: {text[at : at + 20]!r}" if at < len(text) else f"line {line}: it ends too early")
