"""What does a data: URI carry?  Plain or base64, as content with a stable name."""

from __future__ import annotations

import base64
import binascii
import hashlib
import mimetypes
import re
from urllib.parse import unquote_to_bytes

from refdesk.errors import InvalidUri, TooLarge
from refdesk.model import Content

_LONGEST_URI = 1_000  # a longer one is known by the hash of its content
_ENDINGS = {
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/x-markdown": ".md",
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "application/json": ".json",
    "application/yaml": ".yaml",
    "application/x-yaml": ".yaml",
    "text/yaml": ".yaml",
    "application/toml": ".toml",
    "text/x-python": ".py",
    "text/x-rust": ".rs",
    "text/rust": ".rs",
    "text/x-go": ".go",
    "text/x-java": ".java",
    "text/x-c++": ".cpp",
    "text/x-c": ".c",
    "text/javascript": ".js",
    "application/javascript": ".js",
    "text/typescript": ".ts",
    "application/typescript": ".ts",
    "text/x-rst": ".rst",
    "text/csv": ".csv",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "application/pdf": ".pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
}
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")
_EXAMPLE = "Write it as data:,text or data:text/markdown;base64,IyBUaXRsZQ==."


def read_data_uri(uri: str, max_bytes: int) -> Content:
    """What the URI carries; the same URI, or the same long content, always has the same identity."""
    if uri[:5].lower() != "data:" or "," not in uri:
        raise InvalidUri(f"{_start(uri)} is not a data: URI with a comma before its content.", _EXAMPLE)
    head, _, body = uri[5:].partition(",")
    media_type, charset, is_base64 = _head(head, uri)
    if len(body) > 4 * max_bytes + 1024:  # even "%41" for every byte and line breaks take no more
        raise TooLarge(f"The data: URI has {len(body)} characters, more than {max_bytes} bytes can take.", _RAISE)
    data = _from_base64(body) if is_base64 else unquote_to_bytes(body)
    if len(data) > max_bytes:
        raise TooLarge(f"The data: URI carries {len(data)} bytes, more than the {max_bytes} allowed.", _RAISE)
    digest = hashlib.sha256(data).hexdigest()
    return Content(
        uri=uri if len(uri) <= _LONGEST_URI else f"data:{media_type or 'text/plain'};sha256={digest}",
        path=f"data-{digest[:12]}{ending_of(media_type) if media_type else ''}",
        data=data,
        content_type="" if media_type in ("", "text/plain", "application/octet-stream") else media_type,
        charset=charset,
    )


def ending_of(media_type: str) -> str:
    """The usual file ending, with its dot, of a media type; "" when there is none."""
    return _ENDINGS.get(media_type) or mimetypes.guess_extension(media_type, strict=False) or ""


def _head(head: str, uri: str) -> tuple[str, str, bool]:
    """Media type, charset and whether the content is base64."""
    first, *parameters = (part.strip() for part in head.split(";"))
    is_base64 = bool(parameters) and parameters[-1].lower() == "base64"
    if first and not _MEDIA_TYPE.fullmatch(first):
        raise InvalidUri(f"{_start(uri)} has no media type {first!r}.", _EXAMPLE)
    named = dict(part.lower().split("=", 1) for part in parameters if "=" in part)
    return first.lower(), unquote_to_bytes(named.get("charset", "").strip("\"'")).decode("ascii", "replace"), is_base64


def _from_base64(body: str) -> bytes:
    packed = b"".join(unquote_to_bytes(body).split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
    try:
        return base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidUri(f"The base64 content of the data: URI is broken: {error}.", _EXAMPLE) from error


def _start(uri: str) -> str:
    return repr(uri if len(uri) <= 60 else uri[:60] + "…")


_RAISE = "Raise max_fetch_bytes, or split it."
