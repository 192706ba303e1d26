"""What does a plain page say to a crawler?  Read without building its tree, which most pages do not need."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

_HEAD_END = re.compile(rb"</head\s*>", re.IGNORECASE)
_NAME = re.compile(rb"<([a-zA-Z!][a-zA-Z0-9]*)")
# What makes a tree different from what is read here, or says something about the page from outside of its head.
_ODD = frozenset(
    b"base meta link template textarea xmp iframe noembed noframes plaintext frameset".split(),
)
_IN_HEAD = frozenset(b"! !doctype html head title meta link script style base noscript".split())
_TELLING = re.compile(rb"<base|canonical|http-equiv|robots|refdesk", re.IGNORECASE)
_MOST_HEAD = 100_000
_ODD_COMMENTS = (b"<!-->", b"<!--->", b"--!>", b"<![")
_UNREAD_NAMES = frozenset((b"!", b"script", b"style"))
_UNREAD = re.compile(rb"<(!--|script|style)")
_UNREAD_END = {b"!--": b"-->", b"script": b"</script", b"style": b"</style"}
# Nothing is tried twice (*+, ++): pages are written by strangers.
_ATTRIBUTES = rb"(?:\s++(?!href[\s=])[a-zA-Z_@:][\w@:.-]*+(?:=\"[^\"]*+\"|='[^']*+')?+)*+"
_ANCHOR = re.compile(
    rb"<(?:a|area)" + _ATTRIBUTES + rb"(?:\s++href=(?:\"([^\"#]*+)[^\"]*+\"|'([^'#]*+)[^']*+')"
    rb"(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>|\s*+>)"
    rb"|<(?:a|area)(?=[\s/])(.*+)",  # an odd one: no more is read
    re.DOTALL,
)
_UNSEEN_NAMES = frozenset((b"svg", b"noscript"))
_UNSEEN = re.compile(rb"<(/?)(?:svg|noscript)\b")
_TAG = re.compile(rb"<[^<>]*>")
_PIECE = 4096


class Glanced(NamedTuple):
    """A page's head, which is small, and what its body shows."""

    head: str  # "" when it says nothing to a crawler
    hrefs: tuple[str, ...]  # without fragments


def glance(data: bytes, few_words: int) -> Glanced | None:
    """What a page in UTF-8 says when it has more than a few words to read; None when only its tree can tell."""
    end = _HEAD_END.search(data)
    if end is None or b"\0" in data:
        return None
    head, body = data[: end.start()].removeprefix(codecs.BOM_UTF8), data[end.end() :]
    names = set(_NAME.findall(body))
    if not _is_plain_head(head) or names & _ODD or any(name != name.lower() for name in names):
        return None
    bare = _without_unread(body, names)
    if bare is None or not _has_words(bare, names, few_words):
        return None
    found = _ANCHOR.findall(bare)
    if found and found[-1][2]:
        return None
    hrefs = {double or single: None for double, single, _ in found}
    written = b"\n".join(hrefs)
    if written.count(b"\n") >= max(1, len(hrefs)):
        return None
    try:
        return Glanced(head.decode() if _TELLING.search(head) else "", _hrefs(written.decode()))
    except (UnicodeDecodeError, _NotPlain):
        return None


def _is_plain_head(head: bytes) -> bool:
    """Whether the head is a head and no more."""
    is_open = head.count(b"<script") != head.count(b"</script") or head.count(b"<!--") != head.count(b"-->")
    return not is_open and len(head) <= _MOST_HEAD and _IN_HEAD.issuperset(map(bytes.lower, _NAME.findall(head)))


class _NotPlain(Exception):
    pass


def _hrefs(written: str) -> tuple[str, ...]:
    """The hrefs of which there is one a line."""
    plain = written.replace("&amp;", "&")
    if plain.count("&") != written.count("&amp;") or "\r" in plain:
        raise _NotPlain
    return tuple(plain.split("\n"))


def _without_unread(body: bytes, names: set[bytes]) -> bytes | None:
    """The body without comments, scripts and styles; None when one of them does not end or holds another."""
    if b"!" in names and any(one in body for one in _ODD_COMMENTS):
        return None
    if not names & _UNREAD_NAMES:
        return body
    kept: list[bytes] = []
    last = 0
    while found := _UNREAD.search(body, last):
        end = _UNREAD_END[found[1]]
        stop = body.find(end, found.end())
        if stop < 0 or (found[1] != b"!--" and body.find(b"<!--", found.end(), stop) >= 0):
            return None
        kept.append(body[last : found.start()])
        last = stop + len(end)
    kept.append(body[last:])
    return b" ".join(kept)


def _has_words(bare: bytes, names: set[bytes], wanted: int) -> bool:
    """Whether so many words can be read for sure."""
    words = 0
    for seen in _seen(bare) if names & _UNSEEN_NAMES else (bare,):
        for start in range(0, len(seen), _PIECE):
            words += len(_TAG.sub(b" ", seen[start : start + _PIECE].rpartition(b"<")[0]).split())
            if words >= wanted:
                return True
    return False


def _seen(bare: bytes) -> Iterator[bytes]:
    """What lies outside of drawings and of what is for readers without scripts."""
    level = last = 0
    for found in _UNSEEN.finditer(bare):
        if level == 0:
            yield bare[last : found.start()]
        level += -1 if found[1] else 1
        if level < 0:
            return
        last = bare.find(b">", found.end()) + 1
    if level == 0:
        yield bare[last:]
