"""Is an entry of a folder worth reading?  Rules first, then names, then what the file system says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence

from refdesk.sources import names
from refdesk.sources.allowed import why_secret
from refdesk.sources.ignore import Layer

IGNORED = "ignored by "
_NEVER = {".git": "git's own", ".refdesk": "a RefDesk library"}
# Reasons that hold as long as the rules do; any other is looked into again on every walk.
LASTING = (IGNORED, names.HIDDEN, names.VENDORED, names.GENERATED, names.MINIFIED, names.LOCK, names.NOT_TEXT)


def why_not_folder(folder: str, name: str, layer: Layer, siblings: Iterable[str]) -> str:
    """Why a subfolder of an absolute folder is not entered, "" when it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (own := layer.own_verdict(folder, name, True)) is not None:
        return IGNORED + own.rule if own.ignored else ""
    if (git := layer.git_verdict(folder, name, True)) is not None and git.ignored:
        return IGNORED + git.rule
    return names.why_not_folder(name) or names.why_not_contents(f"{folder}/{name}", name, siblings)


def why_not_file(folder: str, name: str, layer: Layer, allow_secrets: Sequence[str] = ()) -> str:
    """Why a file of an absolute folder is not read, as far as rules and its name tell; "" when it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (secret := why_secret(f"{folder}/{name}", allow_secrets)) is not None:
        return secret  # whatever the rules say: a secret goes in by its name alone
    if (own := layer.own_verdict(folder, name, False)) is not None:
        return IGNORED + own.rule if own.ignored else ""
    if (git := layer.git_verdict(folder, name, False)) is not None and git.ignored:
        return IGNORED + git.rule
    return names.why_not_file(name)


def why_not_stat(root: str, file: str, found: os.stat_result, max_bytes: int) -> str:
    """Why a file is not read for what it is on the disk, "" when it is."""
    if stat.S_ISLNK(found.st_mode):
        return _why_not_link(root, file)
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    return too_large(found.st_size, max_bytes) if found.st_size > max_bytes else ""


def too_large(size: int, limit: int) -> str:
    """The reason about a file over the limit."""
    return f"too large: {size} bytes, more than the {limit} that max_file_bytes allows"


def _why_not_link(root: str, link: str) -> str:
    """Links are never followed: their targets are inside the root and met there, or outside and not wanted."""
    try:
        target = os.path.realpath(link, strict=True)
    except OSError as error:
        return f"a symbolic link that leads nowhere: {error.strerror}"
    if target == root or target.startswith(root.rstrip(os.sep) + os.sep):
        return f"a symbolic link to {os.path.relpath(target, root)}, which is looked at there"
    return "a symbolic link that leaves the root"


def _why_not_name(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""
