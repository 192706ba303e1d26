"""Mail: single messages and mbox files, with decoded headers and text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from email.header import decode_header
from email.message import Message
from email.parser import BytesParser
from itertools import count
from pathlib import PurePosixPath

from refdesk.errors import ParseFailed
from refdesk.model import Chunk, Chunking, Parsed
from refdesk.parse.html.page import extract, placed
from refdesk.parse.parser import decode
from refdesk.parse.prose.manifest import NO_RULES, Governing
from refdesk.parse.prose.passages import Keys, Limits, Sizes, pack, paragraphs, split_lines
from refdesk.parse.prose.sections import limits_of

# A line that starts a message of an mbox file; text that begins with "From " is followed by no header.
_ENVELOPE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=>?[!-9;-~]+:)")
_ESCAPED = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_SHOWN = ("Subject", "From", "To", "Cc", "Date")
_LONGEST_HEADER = 1_000  # characters that are decoded; patterns of the standard library take time by their square
_LONGEST_SHOWN = 300  # characters: a message to hundreds would be all addresses
_DEEPEST = 20  # messages and multiparts within each other
_MOST_PARTS = 500  # of a message that are read
_NO_CHARSET = ("idna", "punycode")  # their decoders take time by the square of the text


def parse_mail(data: bytes, path: str, chunking: Chunking, rules: Governing = NO_RULES) -> Parsed:
    """The messages, each cut by tokens, with lines of the file where it is not encoded."""
    envelopes = [found.span() for found in _ENVELOPE.finditer(data)]
    starts = [end for _, end in envelopes]
    ends = [*(start for start, _ in envelopes[1:]), len(data)]
    is_box = len(starts) > 1
    limits = limits_of(chunking, rules.strategy)
    keys = Keys(f"message-{number}" for number in range(1, len(starts) + 1))
    name = PurePosixPath(path).name
    texts: list[str] = []
    chunks: list[Chunk] = []
    metadata: dict[str, str] = {}
    notes: list[str] = []
    line = reached = 0
    for number, start, end in zip(count(1), starts or [0], ends, strict=False):
        raw = data[start:end]
        line, reached = line + data.count(b"\n", reached, start), start
        message = BytesParser().parsebytes(_ESCAPED.sub(b"", raw) if starts else raw)
        heads = _heads(message)
        subject = heads.get("Subject") or (f"Message {number}" if is_box else name)
        reader = _Reader()
        body = "\n\n".join(reader.texts(message))
        if reader.left_out:
            notes.append(f"{subject[:60]}: {reader.left_out} parts were left out")
        text = "\n".join(f"{key}: {value}" for key, value in heads.items()) + f"\n\n{body}"
        texts.append(text.strip() + "\n")
        key = f"message-{number}" if is_box else ""
        found = _chunks(split_lines(text), key, keys, limits, (name, subject) if is_box else (subject,), rules)
        for chunk in placed(found, raw.decode("utf-8", "replace")):
            # Of an encoded part, only what is not encoded would be found: a footer, or a word by chance.
            is_found = chunk.start_line and chunk.end_line - chunk.start_line >= chunk.text.count("\n") // 2
            own = (chunk.start_line + line, chunk.end_line + line) if is_found else (0, 0)
            chunks.append(chunk._replace(start_line=own[0], end_line=own[1]))
        if not is_box:
            given = {"author": heads.get("From", ""), "published": heads.get("Date", "")}
            metadata = {key: value for key, value in given.items() if value}
    return Parsed(
        title=name if is_box else subject,
        content_type="mail",
        text="\n\n".join(texts),
        chunks=tuple(chunks),
        metadata={**metadata, **rules.metadata},
        notes=tuple(notes[:5]),
    )


def _chunks(
    lines: list[str], key: str, keys: Keys, limits: Limits, breadcrumb: tuple[str, ...], rules: Governing
) -> list[Chunk]:
    sizes = Sizes(lines, limits)
    pieces = pack(lines, paragraphs(lines), limits, sizes)
    return [
        Chunk(
            text=piece.text,
            kind="message" if len(pieces) == 1 else "paragraph",
            type="prose",
            language="plain_text",
            start_line=0,
            end_line=0,
            tokens=sizes.tokens(piece),
            key=keys.part(key, part),
            title=breadcrumb[-1],
            breadcrumb=breadcrumb,
            metadata=rules.metadata,
        )
        for part, piece in enumerate(pieces, 1)
    ]


class _Reader:
    """Reads the text of a message, up to so many parts."""

    def __init__(self) -> None:
        self._read = 0
        self.left_out = 0

    def texts(self, part: Message, depth: int = 0) -> Iterator[str]:
        """The readable texts of a part, in order; of alternatives one, and of other attachments the name."""
        self._read += 1
        if self._read > _MOST_PARTS or depth > _DEEPEST:
            self.left_out += 1
            return
        payload = part.get_payload()
        kind = part.get_content_type()
        if isinstance(payload, list):
            inner = [one for one in payload if isinstance(one, Message)]
            if kind == "multipart/alternative":
                plain = [one for one in inner if one.get_content_type() == "text/plain" and _text(one).strip()]
                inner = plain[:1] or inner[-1:]  # the last is the richest
            for one in inner:
                if part.get_content_maintype() == "message":  # a forwarded one, or the lines of a delivery report
                    heads = _heads(one) or {key: _decoded(value) for key, value in one.raw_items()}
                    yield "\n".join(f"{key}: {value}" for key, value in heads.items())
                yield from self.texts(one, depth + 1)
            return
        name = _decoded(str(part.get_filename() or ""))
        if part.get_content_maintype() == "text":
            text = _text(part)
            text = extract(text).markdown if kind == "text/html" and text.strip() else text
            text = text.replace("\r\n", "\n").replace("\0", "").strip("\n")
            if text.strip():
                yield f"Attachment: {name}\n\n{text}" if name else text
        elif name and not kind.endswith("-signature"):
            yield f"Attachment: {name} ({kind})"


def _text(part: Message) -> str:
    """The text of a part, by its charset if that is right."""
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes) or not data:
        return ""
    charset = part.get_content_charset("") or ""
    try:
        if codecs.lookup(charset).name not in _NO_CHARSET:
            return data.decode(charset)
    except (LookupError, ValueError):  # unknown or wrong
        pass
    try:
        return decode(data).text
    except ParseFailed:  # binary
        return ""


def _heads(message: Message) -> Mapping[str, str]:
    """The headers that are shown, decoded; of a repeated one the first."""
    raw: dict[str, str] = {}
    for key, value in message.raw_items():
        raw.setdefault(key.lower(), value)
    decoded = {key: _decoded(raw[key.lower()]) for key in _SHOWN if key.lower() in raw}
    return {key: value for key, value in decoded.items() if value}


def _decoded(value: str) -> str:
    """The value of a header as it reads, on one line."""
    raw = str(value)[:_LONGEST_HEADER].encode("utf-8", "surrogateescape")
    try:
        value = raw.decode("utf-8")
    except UnicodeDecodeError:  # bytes that were never allowed, of an unknown charset
        value = raw.decode("cp1252", "replace")
    try:
        parts = [
            part if isinstance(part, str) else part.decode(charset or "ascii", "replace")
            for part, charset in decode_header(value)
        ]
    except (LookupError, ValueError):
        parts = [value]
    text = " ".join("".join(parts).split())
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
