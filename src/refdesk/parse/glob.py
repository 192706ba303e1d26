"""Which paths does a manifest's pattern mean?  Globs as picomatch reads them, with dot files matched."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

_EXTENDED = {"?": "?", "*": "*", "+": "+", "@": ""}


@lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """A pattern that fullmatches the relative paths the glob means."""
    negated = pattern.startswith("!") and not pattern.startswith("!(")
    body = _translate(pattern[negated:].removeprefix("./"))
    return re.compile(f"(?!{body}$).*" if negated else body, re.DOTALL)


def _translate(glob: str) -> str:
    parts: list[str] = []
    open_groups: list[str] = []
    at = 0
    while at < len(glob):
        char = glob[at]
        if char in "?*+@!" and glob[at + 1 : at + 2] == "(":
            parts.append("(?!" if char == "!" else "(?:")
            open_groups.append(")[^/]*" if char == "!" else f"){_EXTENDED[char]}")
            at += 2
        elif char == ")" and open_groups:
            parts.append(open_groups.pop())
            at += 1
        elif char == "|" and open_groups:
            parts.append("|")
            at += 1
        elif char == "{":
            text, at = _braces(glob, at)
            parts.append(text)
        elif char == "[":
            text, at = _set(glob, at)
            parts.append(text)
        elif char in "*?\\":
            text, at = _wildcard(glob, at)
            parts.append(text)
        else:
            parts.append(re.escape(char))
            at += 1
    return "".join(parts) + "".join(reversed(open_groups))


def _wildcard(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        return re.escape(glob[at + 1]), at + 2
    if glob[at] == "?":
        return "[^/]", at + 1
    if glob.startswith("**", at) and (at == 0 or glob[at - 1] == "/"):
        if glob.startswith("**/", at):
            return "(?:[^/]+/)*", at + 3
        if at + 2 == len(glob):
            return ".*", at + 2
    if glob[at] != "*":
        return re.escape(glob[at]), at + 1
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    return "[^/]*", end


def _braces(glob: str, at: int) -> tuple[str, int]:
    """Alternatives or a range of numbers; an unclosed brace is a brace."""
    depth, starts, end = 0, [at + 1], 0
    for i in range(at, len(glob)):
        depth += {"{": 1, "}": -1}.get(glob[i], 0)
        if glob[i] == "," and depth == 1:
            starts.append(i + 1)
        elif depth == 0:
            end = i
            break
    if not end:
        return re.escape("{"), at + 1
    bounds = [*starts, end + 1]
    choices = [glob[a : b - 1] for a, b in pairwise(bounds)]
    span = re.fullmatch(r"(\d{1,4})\.\.(\d{1,4})", choices[0]) if len(choices) == 1 else None
    if span:
        low, high = sorted((int(span[1]), int(span[2])))
        choices = [str(number) for number in range(low, min(high, low + 1000) + 1)]
    elif len(choices) == 1:
        return re.escape("{") + _translate(choices[0]) + re.escape("}"), end + 1
    return f"(?:{'|'.join(_translate(choice) for choice in choices)})", end + 1


def _set(glob: str, at: int) -> tuple[str, int]:
    end = glob.find("]", at + 2)
    if end < 0:
        return re.escape("["), at + 1
    inside = glob[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
    if inside[0] in "!^":
        inside = "^/" + inside[1:]
    try:
        re.compile(f"[{inside}]")
    except re.error:
        return re.escape("["), at + 1
    return f"[{inside}]", end + 1
