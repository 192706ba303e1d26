"""What the arguments of the code tools mean: a codebase and a folder in it, a query, filters."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from refdesk.errors import InvalidInput, NotFound
from refdesk.toolsets.content import Json

if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.model import Collection, Filters
    from refdesk.toolsets.contract import CallContext

NAMED = 20  # files or codebases in an answer
_SPECIAL = re.compile(r"[\\*?\[\]{}]")
_BRACKETS = re.compile(r"[\[\]]")


def codebase(desk: Desk, path: str, context: CallContext) -> tuple[Collection, str]:
    """The collection that contains the path or has it as its name, and the folder inside it."""
    tried: list[Path] = []
    try:
        tried.append(existing_folder(path))
        why = f"No index found for path: {tried[0]}. Run 'index_codebase' tool first."
    except NotFound as error:
        why = error.message
    roots = context.client_roots() if path == "." else ()
    tried += [root for root in roots if root.is_dir()]
    for folder in tried:
        if around := desk.around(folder, "code"):
            inside = folder.relative_to(around[0].root).as_posix()
            return around[0], "" if inside == "." else inside
    local = [one for one in desk.collections() if one.root and "://" not in one.root]
    every = sorted(local, key=lambda one: (-len(one.root), one.kind != "code"))
    if named := next((one for one in every if one.name == path), None):
        return named, ""
    if found := _elsewhere(desk, [Path(path), *roots]):
        return found
    if not every:
        raise NotFound(why)
    known = ", ".join(f"{one.name} ({one.root})" for one in every[:NAMED])
    raise NotFound(f"{why.rstrip('.')}.", f"Indexed: {known}. Give a path in one of them, or its name.")


def _elsewhere(desk: Desk, paths: Sequence[Path]) -> tuple[Collection, str] | None:
    """The same for folders that are not here, of what another machine indexed."""
    for path in paths:
        folder = Path(os.path.normpath(path))
        for collection in desk.around(folder, "code") if folder.is_absolute() else ():
            inside = folder.relative_to(collection.root).as_posix()
            if not desk.other_machine(collection):
                continue
            if inside == ".":
                return collection, ""
            if any(one.startswith(f"{inside}/") for one, _ in desk.file_states(collection.name, [inside])):
                return collection, inside
    return None


def existing_folder(path: str) -> Path:
    """The real folder a path names, or the contract's error."""
    try:
        folder = Path(path).expanduser().resolve()
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise NotFound(f"Path does not exist or is not a directory: {path}")


def asked_text(arguments: Json, most: int = 100) -> str:
    """The query, or the contract's error for an empty one; what else must lie within bounds does."""
    text: str = arguments["query"]
    if not text.strip():
        raise InvalidInput("Query cannot be empty")
    for name, least, highest in (("limit", 1, most), ("semantic_weight", 0, 1)):
        if not least <= arguments.get(name, least) <= highest:
            raise InvalidInput(f"{name} must be from {least} to {highest}.", f"It is {arguments[name]}.")
    return text


def filters_of(collection: Collection, inside: str, arguments: Json) -> Filters:
    """The filters for a codebase, the folder in it that `path` names, `path_filter` and `extensions`."""
    from refdesk.model import Filters

    return Filters(
        collections=(collection.name,),
        paths=_globs(inside, arguments.get("path_filter") or ""),
        extensions=tuple(one for one in arguments.get("extensions", "").split(",") if one.strip()),
    )


def _globs(inside: str, wanted: str) -> tuple[str, ...]:
    # The folder is a name, not a pattern; the leading slash excludes folders of that name further down.
    folder = "/" + _SPECIAL.sub(r"\\\g<0>", inside) if inside else ""
    if not wanted:
        return (folder,) if folder else ()
    by_name = _BRACKETS.sub(r"\\\g<0>", wanted)  # of a folder called [id]
    return tuple(dict.fromkeys(_below(folder, glob) for glob in (wanted, by_name)))


def _below(folder: str, glob: str) -> str:
    """The glob relative to the folder; one without a slash matches at any depth."""
    if not folder:
        return glob
    glob = glob.strip().removeprefix("./")
    deep = "" if "/" in glob.rstrip("/") else "**/"
    return f"{folder}/{deep}{glob.lstrip('/')}"
