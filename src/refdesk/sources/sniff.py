"""What do the first bytes tell?  Whether a file is text that somebody wrote."""

from __future__ import annotations

import codecs
import re

HEAD = 8192
_READABLE_BINARY = (b"%PDF-", b"PK\x03\x04")
_READABLE_BINARY_ENDS = (".pdf", ".docx")
_UTF_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_GENERATED = re.compile(
    rb"^\W{0,6}(?:code generated .*do not edit|@generated\b|<auto-?generated\b|this (?:file|code) (?:is|was|has been) "
    rb"(?:auto(?:matically)?[- ]?)?generated\b.{0,80}(?:do not (?:edit|modify)|by ))",
    re.IGNORECASE | re.MULTILINE,
)
_MINIFIABLE = (".js", ".mjs", ".cjs", ".css")
_MINIFIED_LINE = 2_000  # bytes of an average line that nobody writes by hand
_GENERATED_HEAD = 1_024


def why_binary(path: str, head: bytes) -> str:
    """Why these first bytes are not text, "" when they may be or when their format has a parser."""
    if head.startswith(_READABLE_BINARY) and path.lower().endswith(_READABLE_BINARY_ENDS):
        return ""
    head = head[:HEAD]
    if b"\0" not in head or head.startswith(_UTF_MARKS) or _is_utf16(head):
        return ""
    return f"binary: a NUL byte at offset {head.index(0)}"


def _is_utf16(head: bytes) -> bool:
    """Whether the NUL bytes are those of mostly Latin text in UTF-16 without a mark: many, and all on one side."""
    counts = head[::2].count(0), head[1::2].count(0)
    return len(head) >= 8 and min(counts) == 0 and max(counts) * 3 >= len(head)


def why_not_written(path: str, data: bytes) -> str:
    """Why nobody wrote this content by hand, "" when somebody may have."""
    if _GENERATED.search(data, 0, _GENERATED_HEAD) is not None and not path.lower().endswith((".md", ".rst", ".txt")):
        return "its head says that it is generated"
    if path.lower().endswith(_MINIFIABLE) and len(data) > _MINIFIED_LINE:
        average = len(data) // (data.count(b"\n") + 1)
        if average > _MINIFIED_LINE:
            return f"its lines look minified ({average} bytes each)"
    return ""
