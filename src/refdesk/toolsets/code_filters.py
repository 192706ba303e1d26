"""Which files does a call of the code tools mean?"""

from __future__ import annotations

import re

from refdesk.model import Collection, Filters
from refdesk.toolsets.contract import Json

_SPECIAL = re.compile(r"[\\*?\[\]{}]")
_BRACKETS = re.compile(r"[\[\]]")


def filters_of(collection: Collection, inside: str, arguments: Json) -> Filters:
    """The codebase, of it the folder that `path` names, of that what `path_filter` and `extensions` keep."""
    return Filters(
        collections=(collection.name,),
        paths=_globs(inside, arguments.get("path_filter") or ""),
        extensions=tuple(
            one.strip().lstrip("*").lstrip(".").lower()
            for one in arguments.get("extensions", "").split(",")
            if one.strip()
        ),
    )


def _globs(inside: str, wanted: str) -> tuple[str, ...]:
    # The folder is a name, not a pattern, and the slash before it keeps out those of that name further down.
    folder = "/" + _SPECIAL.sub(r"\\\g<0>", inside) if inside else ""
    if not wanted:
        return (folder,) if folder else ()
    by_name = _BRACKETS.sub(r"\\\g<0>", wanted)  # of a folder called [id]
    return tuple(dict.fromkeys(_below(folder, glob) for glob in (wanted, by_name)))


def _below(folder: str, glob: str) -> str:
    """The glob as it is meant in the folder: one without a slash at any depth."""
    if not folder:
        return glob
    glob = glob.strip().removeprefix("./")
    deep = "" if "/" in glob.rstrip("/") else "**/"
    return f"{folder}/{deep}{glob.lstrip('/')}"
