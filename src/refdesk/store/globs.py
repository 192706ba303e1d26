"""Which paths does a glob mean?"""

from __future__ import annotations

import re
from functools import lru_cache

_MEMBER = re.compile(r"(.)(?:-(.))?", re.DOTALL)


@lru_cache(maxsize=512)
def compile(glob: str) -> re.Pattern[str]:  # noqa: A001 - read as globs.compile
    """A pattern whose full match is every path the glob means.

    As in gitignore: without a slash it means that name at any depth, `*` stays within a name, `**` does not,
    and what is below a matching folder matches too.
    """
    body = glob.strip().removeprefix("./")
    anchored = "/" in body.rstrip("/")
    body = body.strip("/")
    if body in ("", "**"):
        return re.compile(".*", re.DOTALL)
    prefix = "" if anchored else "(?:.*/)?"
    try:
        return re.compile(f"{prefix}{_translate(body)}(?:/.*)?", re.DOTALL)
    except re.error:  # such as a range from z to a
        return re.compile(f"{prefix}{re.escape(body)}(?:/.*)?", re.DOTALL)


def _translate(body: str) -> str:
    out: list[str] = []
    i = 0
    while i < len(body):
        if body.startswith("**", i):
            piece, i = _stars(body, i)
        elif body[i] == "*":
            piece, i = "[^/]*", i + 1
        elif body[i] == "?":
            piece, i = "[^/]", i + 1
        elif body[i] == "[" and (end := body.find("]", i + 2)) > 0:
            piece, i = _character_class(body[i + 1 : end]), end + 1
        elif body[i] == "{" and (end := _closing(body, i)) > 0:
            choices = _split_choices(body[i + 1 : end])
            piece, i = "(?:" + "|".join(_translate(choice) for choice in choices) + ")", end + 1
        elif body[i] == "\\" and i + 1 < len(body):
            piece, i = re.escape(body[i + 1]), i + 2
        else:
            piece, i = re.escape(body[i]), i + 1
        out.append(piece)
    return "".join(out)


def _stars(body: str, i: int) -> tuple[str, int]:
    end = i
    while end < len(body) and body[end] == "*":
        end += 1
    whole_name = i == 0 or body[i - 1] in "/{,"
    if whole_name and body.startswith("/", end):
        return "(?:.*/)?", end + 1
    return ".*", end


def _character_class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = inside[1:] if negated else inside
    escaped = "".join("-".join(map(re.escape, filter(None, one))) for one in _MEMBER.findall(members))
    return f"[^/{escaped}]" if negated else f"[{escaped}]"


def _closing(body: str, start: int) -> int:
    depth = 0
    for i in range(start, len(body)):
        depth += {"{": 1, "}": -1}.get(body[i], 0)
        if depth == 0:
            return i
    return -1


def _split_choices(inside: str) -> list[str]:
    choices, depth, current = [], 0, ""
    for c in inside:
        depth += {"{": 1, "}": -1}.get(c, 0)
        if c == "," and depth == 0:
            choices.append(current)
            current = ""
        else:
            current += c
    return [*choices, current]
