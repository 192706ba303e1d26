"""Is it what is kept already?  Contents compared with documents."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace

from refdesk.model import Content, Document, FileState, Found


def content_hash(content: Content) -> str:
    """The identity of the bytes."""
    return hashlib.blake2b(content.data, digest_size=16).hexdigest()


def stamp_of(state: os.stat_result) -> int:
    """A number that changes when a file is written to, replaced, linked or given rights, whatever its time says."""
    return (state.st_ctime_ns ^ state.st_ino << 32) & 0x7FFF_FFFF_FFFF_FFFF  # as SQLite keeps it


def is_new(found: Found, state: FileState | Document | None) -> bool:
    """Whether a file is not there as it was indexed, by size, time and stamp; then its content tells."""
    if state is None or (found.size, found.modified_ns) != (state.size, state.modified_ns):
        return True
    return found.stamp != state.stamp and state.stamp != 0  # an earlier RefDesk noted none


def same_facts(content: Content, known: Document) -> bool:
    """Whether type and metadata, where the caller gives them, are what they were."""
    is_override = content.content_type and "/" not in content.content_type  # a media type is only declared
    same_type = not is_override or content.content_type == known.content_type
    return same_type and all(known.metadata.get(key) == value for key, value in content.metadata.items())


def is_same_file(document: Document, content: Content) -> bool:
    """Whether only the file's time changed; a moved one is read again, for its place decides how it is cut."""
    return document.path == content.path and document.content_hash == content_hash(content)


def touched(document: Document, content: Content) -> Document:
    """The document with the place, size and time of the same content."""
    return replace(
        document,
        uri=content.uri,
        path=content.path,
        size=len(content.data),
        modified_ns=content.modified_ns,
        stamp=content.stamp,
    )
