"""What does a gitignore pattern match?  Git's own wildmatch, byte for byte."""

from __future__ import annotations

import re
import string

from refdesk.globs import ANY, FOLDERS, STAR, expression

_SPECIAL = frozenset(b"*?[\\")
_STAR, _QUERY, _OPEN, _CLOSE, _ESCAPE, _SLASH, _DASH = b"*?[]\\/-"


def _bytes_of(text: str) -> frozenset[int]:
    return frozenset(text.encode("ascii"))


_CLASSES: dict[bytes, frozenset[int]] = {
    b"alnum": _bytes_of(string.ascii_letters + string.digits),
    b"alpha": _bytes_of(string.ascii_letters),
    b"blank": _bytes_of(" \t"),
    b"cntrl": frozenset((*range(32), 127)),
    b"digit": _bytes_of(string.digits),
    b"graph": frozenset(range(33, 127)),
    b"lower": _bytes_of(string.ascii_lowercase),
    b"print": frozenset(range(32, 127)),
    b"punct": _bytes_of(string.punctuation),
    b"space": _bytes_of(" \t\n\r\v\f"),
    b"upper": _bytes_of(string.ascii_uppercase),
    b"xdigit": _bytes_of(string.hexdigits),
}


class _NeverMatches(Exception):
    """Git gives up on such a pattern: an open bracket, an unknown class, a lone backslash at the end."""


def compile_pattern(pattern: bytes, *, slashes: bool, ignore_case: bool = False) -> re.Pattern[bytes] | None:
    """The expression that fully matches what git matches, None for a pattern that never does.

    With `slashes`, "*", "?" and brackets stop at "/" and "**" crosses it, as for a pattern that names a path.
    """
    start = next((i for i, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    try:
        # Git compares the literal head apart, so that "**" right behind it counts as standing at a boundary.
        items = [re.escape(chr(byte)) for byte in pattern[:start]] + _items(pattern[start:], slashes)
    except _NeverMatches:
        return None
    written = expression(items)
    assert written is not None, "git has neither groups nor stars in a row that need an automaton"
    return re.compile(written.encode("latin-1"), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _items(pattern: bytes, slashes: bool) -> list[str]:
    items: list[str] = []
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at]
        if byte == _STAR:
            item, at = _stars(pattern, at, slashes)
        elif byte == _QUERY:
            item, at = "[^/]" if slashes else ".", at + 1
        elif byte == _OPEN:
            item, at = _bracket(pattern, at + 1, slashes)
        elif byte == _ESCAPE:
            if at + 1 == end:
                raise _NeverMatches
            item, at = re.escape(chr(pattern[at + 1])), at + 2
        else:
            item, at = re.escape(chr(byte)), at + 1
        items.append(item)
    return items


def _stars(pattern: bytes, at: int, slashes: bool) -> tuple[str, int]:
    """What a run of stars matches, and where the pattern goes on."""
    after = at
    while pattern[after : after + 1] == b"*":
        after += 1
    if not slashes:
        return ANY, after
    at_boundary = at == 0 or pattern[at - 1] == _SLASH
    rest = pattern[after : after + 2]
    if after - at < 2 or not at_boundary or not (rest == b"" or rest[:1] == b"/" or rest == b"\\/"):
        return STAR, after
    if rest[:1] == b"/":
        return FOLDERS, after + 1
    return ANY, after


def _bracket(pattern: bytes, at: int, slashes: bool) -> tuple[str, int]:
    """What a bracket expression matches, and where the pattern goes on behind it."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    previous, first = -1, True
    while first or _at(pattern, at) != _CLOSE:
        first = False
        byte = _at(pattern, at)
        if byte == _ESCAPE:
            at += 1
            byte = _at(pattern, at)
            members.add(byte)
        elif byte == _DASH and previous >= 0 and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if pattern[at + 1] == _ESCAPE else 1
            members.update(range(previous, _at(pattern, at) + 1))
            byte = -1
        elif byte == _OPEN and pattern[at + 1 : at + 2] == b":":
            close = pattern.find(b"]", at + 2)
            if close < 0:
                raise _NeverMatches
            if close - 1 > at + 1 and pattern[close - 1] == ord(":"):
                members |= _named_class(pattern[at + 2 : close - 1])
                at, byte = close, -1
            else:
                members.add(byte)
        else:
            members.add(byte)
        previous = byte
        at += 1
    return _one_of(members, negated, slashes), at + 1


def _at(pattern: bytes, at: int) -> int:
    if at >= len(pattern):
        raise _NeverMatches
    return pattern[at]


def _named_class(name: bytes) -> frozenset[int]:
    if name not in _CLASSES:
        raise _NeverMatches
    return _CLASSES[name]


def _one_of(members: set[int], negated: bool, slashes: bool) -> str:
    if slashes:
        members = members | {_SLASH} if negated else members - {_SLASH}
    if not members:
        return "(?!)"
    inside = "".join(f"\\x{byte:02x}" for byte in sorted(members))
    return f"[^{inside}]" if negated else f"[{inside}]"
