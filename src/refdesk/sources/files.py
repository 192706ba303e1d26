"""Which local file does a file:// URI name, and may it be read?  Confined to allowed roots."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlsplit

from refdesk.beneath import open_real, read_most
from refdesk.errors import Forbidden, InvalidUri, LoadFailed, ParseFailed, TooLarge
from refdesk.model import Content, Found
from refdesk.sources.allowed import confine, why_private
from refdesk.sources.sniff import HEAD, why_binary

_DRIVE = re.compile(r"^/?[A-Za-z][:|](?=[\\/]|$)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def resolve_file_uri(uri: str, roots: Sequence[Path], allow_secrets: Sequence[str] = ()) -> Path:
    """The real path, links resolved, of the file or folder that the URI names inside one of the roots."""
    return confine(_path_of(uri), roots, allow_secrets)


def read_file(path: Path, *, max_bytes: int, allow_secrets: Sequence[str] = ()) -> Content:
    """The content of one file that was named for itself; TooLarge over the limit, ParseFailed when it is binary.

    The path has no links, as confine gives it: one that came since is not followed.
    """
    try:
        descriptor = open_real(str(path))
        try:
            found = os.fstat(descriptor)
            if found.st_size > max_bytes:
                raise TooLarge(too_large(str(path), found.st_size, max_bytes), "Raise max_file_bytes.")
            data = read_most(descriptor, max_bytes + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LoadFailed(
            f"{path} can't be read: {error.strerror}.", "Name a file, or a folder to take all of its files."
        ) from error
    if len(data) > max_bytes:
        raise TooLarge(too_large(str(path), len(data), max_bytes), "Raise max_file_bytes.")
    if reason := why_private(path.as_posix(), data, allow_secrets):
        raise Forbidden(f"{path} {reason}.")
    if reason := why_binary(path.name, data[:HEAD]):
        raise ParseFailed(f"{path} is not indexed: {reason}.")
    return Content(uri=path.absolute().as_uri(), path=path.name, data=data, modified_ns=found.st_mtime_ns)


def read_inside(root: str, found: Found, max_bytes: int) -> Content:
    """The bytes of a file that a walk of the root found; LoadFailed when it is not there as it was found."""
    if found.size > max_bytes:
        raise TooLarge(too_large(found.path, found.size, max_bytes), "Raise max_file_bytes.")
    file = f"{root.rstrip('/')}/{found.path}"
    try:
        descriptor = open_real(file)
        try:
            before = os.fstat(descriptor)
            data = read_most(descriptor, found.size + 1)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise LoadFailed(f"{found.path} can't be read: {getattr(error, 'strerror', error)}.", _NEXT_RUN) from error
    states = {(state.st_size, state.st_mtime_ns) for state in (before, after)}
    if states != {(found.size, found.modified_ns)} or len(data) != found.size:
        raise LoadFailed(f"{found.path} changed while it was being read.", _NEXT_RUN)
    return Content(uri=_uri_of(file), path=found.path, data=data, modified_ns=found.modified_ns, stamp=found.stamp)


def _uri_of(file: str) -> str:
    """As Path.as_uri gives it, which takes five times as long."""
    return Path(file).as_uri() if os.name == "nt" else f"file://{quote_from_bytes(os.fsencode(file))}"


def too_large(path: str, size: int, limit: int) -> str:
    """The sentence about a file over the limit."""
    return f"{path} has {size} bytes, more than the {limit} allowed."


def _path_of(uri: str) -> Path:
    if _CONTROL.search(uri):
        raise InvalidUri(f"{uri!r} has control characters.", "Percent-encode them.")
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidUri(f"{uri!r} is not a URI: {error}.", _EXAMPLE) from error
    if parts.scheme != "file":
        raise InvalidUri(f"{uri!r} is not a file: URI.", _EXAMPLE)
    if _DRIVE.match("/" + parts.netloc):  # file://C:/x, as many programs write it
        return _windows_path(f"/{parts.netloc}{parts.path}", uri)
    if parts.netloc.lower() not in ("", "localhost"):
        raise InvalidUri(f"{uri!r} names the host {parts.netloc!r}; only local files can be read.", _EXAMPLE)
    # "?" and "#" start no query or fragment in a path that a person typed, but they do in a URI: be strict.
    if parts.query or parts.fragment:
        raise InvalidUri(f"{uri!r} has a query or a fragment.", "Write ? as %3F and # as %23.")
    if _DRIVE.match(parts.path):
        return _windows_path(parts.path, uri)
    return _checked(os.fsdecode(unquote_to_bytes(parts.path)), uri)


def _windows_path(path: str, uri: str) -> Path:
    if os.name != "nt":
        raise InvalidUri(f"{uri!r} names a Windows drive; this machine has none.", _EXAMPLE)
    text = unquote_to_bytes(path.lstrip("/")).decode("utf-8", "surrogateescape")
    return _checked(text[0] + ":" + (text[2:] or "\\"), uri)


def _checked(path: str, uri: str) -> Path:
    if "\0" in path:
        raise InvalidUri(f"{uri!r} has a NUL byte in its path.", "Remove it.")
    if not path or not Path(path).is_absolute():
        raise InvalidUri(f"{uri!r} is not absolute.", _EXAMPLE)
    return Path(path)


_NEXT_RUN = "The next run takes it as it then is."
_EXAMPLE = "Write it as file:///folder/name.md."
