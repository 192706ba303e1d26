"""Local files named by file: URIs, confined to the allowed roots, and data: URIs."""

from __future__ import annotations

import base64
import binascii
import codecs
import hashlib
import mimetypes
import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

from refdesk.errors import Forbidden, InvalidUri, LoadFailed, ParseFailed, TooLarge
from refdesk.model import Content, Found
from refdesk.sources.allowed import confine, why_private
from refdesk.system.files import opened, read_most
from refdesk.text import word_table

# ── binary and generated files ──

HEAD = 8192  # bytes in which a NUL makes a file binary; git looks at 8,000
_READABLE_BINARY = (b"%PDF-", b"PK\x03\x04")
_READABLE_BINARY_ENDS = (".pdf", ".docx", ".epub")
_UTF_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_GENERATED = re.compile(
    rb"^\W{0,6}(?:code generated .*do not edit|@generated\b|<auto-?generated\b|this (?:file|code) (?:is|was|has been) "
    rb"(?:auto(?:matically)?[- ]?)?generated\b.{0,80}(?:do not (?:edit|modify)|by ))",
    re.IGNORECASE | re.MULTILINE,
)
_MINIFIABLE = (".js", ".mjs", ".cjs", ".css")
_MINIFIED_LINE = 2_000  # average bytes per line from which a file is minified
_GENERATED_HEAD = 1_024  # bytes in which a file says that it is generated
_UUENCODED = re.compile(rb"^begin(?:-base64)? [0-7]{3,4} [^\n]+\n", re.MULTILINE)
_BASE64_LINE = re.compile(rb"[A-Za-z0-9+/]{60,76}={0,2}")
_FEW_LINES = 20  # of base64: fewer may be a key or a picture in a text
_OTHER_LINES = 4  # before and behind it


def why_binary(path: str, head: bytes) -> str:
    """Why these first bytes are not text; "" if they may be or if a parser reads their format."""
    if head.startswith(_READABLE_BINARY) and path.lower().endswith(_READABLE_BINARY_ENDS):
        return ""
    head = head[:HEAD]
    if b"\0" not in head or head.startswith(_UTF_MARKS):
        return ""
    return f"binary: a NUL byte at offset {head.index(0)}"


def why_not_written(path: str, data: bytes) -> str:
    """Why this content was not written by hand; "" if it may have been."""
    if _GENERATED.search(data, 0, _GENERATED_HEAD) is not None and not path.lower().endswith((".md", ".rst", ".txt")):
        return "its head says that it is generated"
    if is_encoded(data):
        return "its lines are encoded bytes"
    if path.lower().endswith(_MINIFIABLE) and len(data) > _MINIFIED_LINE:
        average = len(data) // (data.count(b"\n") + 1)
        if average > _MINIFIED_LINE:
            return f"its lines look minified ({average} bytes each)"
    return ""


def is_encoded(data: bytes) -> bool:
    """Whether the lines are bytes in uuencode or base64, by the start of the data: no words to search for."""
    head = data[:HEAD]
    begin = _UUENCODED.search(head, 0, _GENERATED_HEAD)
    lines = (head[begin.end() :] if begin else head).splitlines()
    if begin is not None and b"base64" not in begin[0]:
        lines = lines[:-1] if len(data) > HEAD else lines  # the last may be cut
        full = [line for line in lines if line not in (b"", b"`", b" ", b"end")]
        right = sum(-(-(line[0] - 32 & 63) // 3) * 4 == len(line) - 1 for line in full)  # as its first letter says
        return right > 0.9 * len(full)  # mailers and editors strip blanks
    if not begin and not all(map(_BASE64_LINE.fullmatch, lines[_OTHER_LINES : 2 * _OTHER_LINES])):
        return False  # as nearly all files, which need not be looked at further
    encoded = [line for line in lines if _BASE64_LINE.fullmatch(line)]
    same = {len(line) for line in encoded[:-1]}
    return len(same) == 1 and len(encoded) >= (1 if begin else max(_FEW_LINES, len(lines) - _OTHER_LINES))


# ── data: URIs ──

_LONGEST_URI = 1_000  # a longer URI is replaced by a hash of its content
MEDIA_TYPES = word_table(  # and their usual file extensions
    """
    .txt: text/plain;  .md: text/markdown text/x-markdown;  .html: text/html application/xhtml+xml;
    .json: application/json;  .yaml: application/yaml application/x-yaml text/yaml;  .toml: application/toml;
    .py: text/x-python application/x-python-code;  .rs: text/x-rust text/rust;  .go: text/x-go;  .java: text/x-java;
    .cpp: text/x-c++;  .c: text/x-c;  .js: text/javascript application/javascript application/x-javascript;
    .ts: text/typescript application/typescript;  .rst: text/x-rst;  .csv: text/csv;  .xml: application/xml text/xml;
    .pdf: application/pdf;  .jsonl: application/x-ndjson;  .sh: application/x-sh;  .sql: application/sql;
    .php: application/x-httpd-php;  .epub: application/epub+zip;  .eml: message/rfc822;  .mbox: application/mbox;
    .docx: application/vnd.openxmlformats-officedocument.wordprocessingml.document;
    """
)
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")
_DATA_EXAMPLE = "Write it as data:,text or data:text/markdown;base64,IyBUaXRsZQ==."


def read_data_uri(uri: str, max_bytes: int) -> Content:
    """The content of the URI; the same URI, or the same long content, always gets the same uri and path."""
    if uri[:5].lower() != "data:" or "," not in uri:
        raise InvalidUri(f"{_start(uri)} is not a data: URI with a comma before its content.", _DATA_EXAMPLE)
    head, _, body = uri[5:].partition(",")
    media_type, *parameters = (part.strip().lower() for part in head.split(";"))
    if media_type and not _MEDIA_TYPE.fullmatch(media_type):
        raise InvalidUri(f"{_start(uri)} has no media type {media_type!r}.", _DATA_EXAMPLE)
    named = dict(part.split("=", 1) for part in parameters if "=" in part)
    if len(body) > 4 * max_bytes + 1024:  # percent-encoded bytes and line breaks take no more
        raise TooLarge(f"The data: URI has {len(body)} characters, more than {max_bytes} bytes can take.", _RAISE)
    data = unquote_to_bytes(body)
    if parameters and parameters[-1] == "base64":
        packed = b"".join(data.split()).translate(bytes.maketrans(b"-_", b"+/")).rstrip(b"=")
        try:
            data = base64.b64decode(packed + b"=" * (-len(packed) % 4), validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidUri(f"The base64 content of the data: URI is broken: {error}.", _DATA_EXAMPLE) from error
    if len(data) > max_bytes:
        raise TooLarge(f"The data: URI carries {len(data)} bytes, more than the {max_bytes} allowed.", _RAISE)
    digest = hashlib.sha256(data).hexdigest()
    ending = MEDIA_TYPES.get(media_type) or mimetypes.guess_extension(media_type, strict=False) or ""
    return Content(
        uri=uri if len(uri) <= _LONGEST_URI else f"data:{media_type or 'text/plain'};sha256={digest}",
        path=f"data-{digest[:12]}{ending}",
        data=data,
        content_type="" if media_type in ("", "text/plain", "application/octet-stream") else media_type,
        charset=unquote_to_bytes(named.get("charset", "").strip("\"'")).decode("ascii", "replace"),
    )


def _start(uri: str) -> str:
    return repr(uri if len(uri) <= 60 else uri[:60] + "…")


_RAISE = "Raise max_fetch_bytes, or split it."


_DRIVE = re.compile(r"^/?[A-Za-z][:|](?=[\\/]|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def resolve_file_uri(uri: str, roots: Sequence[Path], allow_secrets: Sequence[str] = ()) -> Path:
    """The real path of the file or folder that the URI names, inside one of the roots."""
    return confine(_path_of(uri), roots, allow_secrets)


def read_file(path: Path, *, max_bytes: int, allow_secrets: Sequence[str] = ()) -> Content:
    """The content of one file that was named explicitly; raises TooLarge or ParseFailed (binary).

    The path has no links, as `confine` returns it; a link that appeared since is not followed.
    """
    try:
        with opened(str(path)) as descriptor:
            found = os.fstat(descriptor)
            data = read_most(descriptor, max_bytes + 1)
    except OSError as error:
        raise LoadFailed(
            f"{path} can't be read: {error.strerror}.", "Name a file, or a folder to take all of its files."
        ) from error
    if len(data) > max_bytes:
        raise _too_large(str(path), max(len(data), found.st_size), max_bytes)
    if reason := why_private(path.as_posix(), data, allow_secrets):
        raise Forbidden(f"{path} {reason}.")
    if reason := why_binary(path.name, data[:HEAD]):
        raise ParseFailed(f"{path} is not indexed: {reason}.")
    return Content(uri=path.absolute().as_uri(), path=path.name, data=data, modified_ns=found.st_mtime_ns)


def read_inside(root: str, found: Found, max_bytes: int) -> Content:
    """The bytes of a file that a walk of the root found; raises LoadFailed if it changed since."""
    if found.size > max_bytes:
        raise _too_large(found.path, found.size, max_bytes)
    file = f"{root.rstrip('/')}/{found.path}"
    try:
        with opened(file) as descriptor:
            before = os.fstat(descriptor)
            data = read_most(descriptor, found.size + 1)
            after = os.fstat(descriptor)
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{found.path} can't be read: {getattr(error, 'strerror', error)}.", _NEXT_RUN) from error
    states = {(state.st_size, state.st_mtime_ns) for state in (before, after)}
    if states != {(found.size, found.modified_ns)} or len(data) != found.size:
        raise LoadFailed(f"{found.path} changed while it was being read.", _NEXT_RUN)
    # The same as Path.as_uri, in a fifth of the time.
    uri = Path(file).as_uri() if os.name == "nt" else f"file://{quote_from_bytes(os.fsencode(file))}"
    return Content(uri=uri, path=found.path, data=data, modified_ns=found.modified_ns, stamp=found.stamp)


def _too_large(path: str, size: int, limit: int) -> TooLarge:
    return TooLarge(f"{path} has {size} bytes, more than the {limit} allowed.", "Raise max_file_bytes.")


def _path_of(uri: str) -> Path:
    if _CONTROL.search(uri):
        raise InvalidUri(f"{uri!r} has control characters.", "Percent-encode them.")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidUri(f"{uri!r} is not a URI: {error}.", _EXAMPLE) from error
    if parts.scheme != "file":
        raise InvalidUri(f"{uri!r} is not a file: URI.", _EXAMPLE)
    in_host = _DRIVE.match("/" + parts.netloc)  # file://C:/x, as many programs write it
    if parts.netloc.lower() not in ("", "localhost") and not in_host:
        raise InvalidUri(f"{uri!r} names the host {parts.netloc!r}; only local files can be read.", _EXAMPLE)
    # "?" and "#" start no query or fragment in a path that a person typed, but they do in a URI: be strict.
    if parts.query or parts.fragment:
        raise InvalidUri(f"{uri!r} has a query or a fragment.", "Write ? as %3F and # as %23.")
    written = f"/{parts.netloc}{parts.path}" if in_host else parts.path
    if _DRIVE.match(written):
        if os.name != "nt":
            raise InvalidUri(f"{uri!r} names a Windows drive; this machine has none.", _EXAMPLE)
        written = written.lstrip("/")
        written = f"{written[0]}:{written[2:] or '/'}"
    path = os.fsdecode(unquote_to_bytes(written))
    if "\0" in path:
        raise InvalidUri(f"{uri!r} has a NUL byte in its path.", "Remove it.")
    if not Path(path).is_absolute():
        raise InvalidUri(f"{uri!r} is not absolute.", _EXAMPLE)
    return Path(path)


_NEXT_RUN = "The next run takes it as it then is."
_EXAMPLE = "Write it as file:///folder/name.md."
