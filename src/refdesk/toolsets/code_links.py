"""Where are the files of the hits?  Links to them, for a client that asks with `refdesk/links` in its `_meta`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from refdesk.model import Document, Hit
from refdesk.toolsets.contract import Annotations, CallContext, ResourceLink

ASKED = "refdesk/links"
_MEDIA = {
    "markdown": "text/markdown",
    "html": "text/html",
    "json": "application/json",
    "yaml": "application/yaml",
    "toml": "application/toml",
    "xml": "application/xml",
    "css": "text/css",
    "javascript": "text/javascript",
    "plain_text": "text/plain",
}


def links(root: str, hits: Sequence[Hit], context: CallContext) -> tuple[ResourceLink, ...]:
    """One link for each file, best first, with the lines that were found; none when the client asks for none."""
    if context.meta.get(ASKED) is not True:
        return ()
    by_file: dict[str, list[Hit]] = {}
    for hit in hits:
        by_file.setdefault(hit.stored.document.path, []).append(hit)
    return tuple(_link(root, found) for found in by_file.values())


def _link(root: str, found: Sequence[Hit]) -> ResourceLink:
    document = found[0].stored.document
    return ResourceLink(
        uri=(Path(root) / document.path).as_uri(),
        name=document.path,
        title=document.title or None,
        description="; ".join(_said(hit) for hit in found[:5]),
        mime_type=_MEDIA.get(document.content_type, f"text/x-{document.content_type}"),
        size=document.size,
        annotations=Annotations(
            audience=("user", "assistant"),
            priority=round(max(0.0, min(1.0, found[0].score)), 2),
            last_modified=_modified(document),
        ),
    )


def _said(hit: Hit) -> str:
    chunk = hit.stored.chunk
    about = ", ".join(chunk.symbols[:3]) or chunk.title
    return ": ".join(part for part in (chunk.lines and f"lines {chunk.lines}", about) if part)


def _modified(document: Document) -> str | None:
    if not document.modified_ns:
        return None
    return datetime.fromtimestamp(document.modified_ns / 1e9, UTC).isoformat(timespec="seconds")
