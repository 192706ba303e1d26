"""Commands on the library itself: list, count, configure, remove, check, back up, restore, re-embed."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from refdesk.commands.desk import (
    LibraryPath,
    bar_on_stderr,
    desk_from,
    interruptible,
    json_option,
    on_one_line,
    print_json,
    progress_on_stderr,
    settings_from,
)
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import indexed_at
from refdesk.desk.reading import place_of
from refdesk.errors import InvalidInput, LibraryDamaged, NotFound, StoreError
from refdesk.library import Library
from refdesk.model import Collection, Document, Found, Skipped
from refdesk.ports import Store
from refdesk.settings import Settings, library_argument
from refdesk.system import memory

_LISTED = 50  # paths that `status` names
_NOTHING = "Nothing was {}: run it again."


@click.command()
@json_option
@click.pass_context
def collections(context: click.Context, as_json: bool) -> None:
    """List the collections."""
    with desk_from(context) as desk:
        named = ("name", "kind", "description", "root", "created_at", "updated_at")
        rows = [
            {**{name: getattr(one, name) for name in named}, "documents": desk.count_documents(one.name)}
            for one in desk.collections()
        ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("The library is empty. `refdesk index PATH` fills it.")
    for row in rows:
        click.echo(
            f"{row['name']}  {row['kind']}  {row['documents']} documents  {row['root']}  {row['description']}".rstrip()
        )


@click.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0)
@json_option
@click.pass_context
def documents(context: click.Context, name: str, limit: int, offset: int, as_json: bool) -> None:
    """List the documents of collection NAME."""
    with desk_from(context) as desk:
        desk.collection(name)
        listed = desk.documents(name, limit, offset)
        total = desk.count_documents(name)
    if as_json:
        print_json({"documents": [asdict(one) for one in listed], "total": total, "offset": offset})
        return
    for one in listed:
        click.echo(f"{one.id}  {one.content_type:12} {on_one_line(one.path)}")
    if offset + len(listed) < total:
        click.echo(f"{total - offset - len(listed)} more: --offset {offset + len(listed)}", err=True)


@click.command()
@click.argument("name", default="")
@json_option
@click.pass_context
def stats(context: click.Context, name: str, as_json: bool) -> None:
    """Show the size of the library, or of collection NAME."""
    with desk_from(context) as desk:
        if name:
            desk.collection(name)
        counted = asdict(desk.stats(name))
        identity = desk.embedder_identity()
    model = f"{identity.name} {identity.version}, {identity.dimension} dimensions" if identity else "none yet"
    if as_json:
        print_json({**counted, "embedder": model, "memory": memory.usage()})
        return
    for key, value in counted.items():
        click.echo(f"{key.replace('_', ' '):14} {value:,}")
    click.echo(f"{'embedder':14} {model}")
    now = memory.usage()
    click.echo(f"{'memory':14} {now['used_bytes'] >> 20} of {now['limit_bytes'] >> 20} MB")


@click.command()
@click.argument("name")
@click.option("--description")
@click.option("--max-tokens", type=click.IntRange(16, 8192), help="The size of a passage at most.")
@click.option("--min-tokens", type=click.IntRange(0, 4096), help="Passages under this size are joined.")
@click.option("--overlap-tokens", type=click.IntRange(0, 1024), help="What parts of a cut passage share.")
@click.option("--top-k", type=click.IntRange(1, 100), help="Results when a caller does not say.")
@click.option("--hybrid/--keywords", default=None, help="Whether meaning counts when a caller does not say.")
@click.option("--alpha", type=click.FloatRange(0, 1), help="The share of meaning in the blend.")
@click.pass_context
def configure(context: click.Context, /, name: str, description: str | None, **options: Any) -> None:
    """Change how collection NAME is chunked and searched; new sizes apply from the next `index --force` on."""
    given = {key: value for key, value in options.items() if value is not None}
    with desk_from(context) as desk:
        changed = desk.configure(name, description=description, **given)
    values = {**asdict(changed.chunking), **asdict(changed.search)}
    click.echo(f"{changed.name}: " + ", ".join(f"{key}={value}" for key, value in values.items()))


@click.command()
@click.argument("name_or_id")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_context
def remove(context: click.Context, name_or_id: str, yes: bool) -> None:
    """Remove a collection by its name or a document by its id."""
    with desk_from(context) as desk:
        asked = ""  # an unknown name is left to the removal, which reports it
        if desk.find_collection(name_or_id) is not None:
            asked = f"collection {name_or_id} with {desk.count_documents(name_or_id)} documents"
        elif (document := desk.document(name_or_id)) is not None:
            asked = f"document {on_one_line(document.path)} of {document.collection}"
        if asked and not yes:
            if not sys.stdin.isatty():
                raise InvalidInput(
                    f"This would remove {asked}, and there is no terminal to ask.", "Say --yes to remove it."
                )
            if not click.confirm(f"Remove {asked}?", err=True):
                click.echo("Nothing was removed.", err=True)
                sys.exit(1)
        what, count = desk.remove(name_or_id)
    click.echo(f"Removed {what} {name_or_id}" + (f" with {count} documents." if what == "collection" else "."))


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@json_option
@click.pass_context
def status(context: click.Context, path: Path, as_json: bool) -> None:
    """Show whether PATH is indexed and up to date, and why not."""
    with desk_from(context) as desk:
        collection, document, walked = desk.why(path)
        if collection is None:
            raise NotFound(f"{path} is in no indexed folder.", "`refdesk index` its folder first.")
        if desk.other_machine(collection):
            answer = _status_elsewhere(desk, collection, document, path)
        elif path.is_dir() and not isinstance(walked, Skipped):
            answer = _folder_status(desk, collection, path)
        else:
            answer = {"path": str(path), "collection": collection.name, "indexed": document is not None}
            if document is not None:
                answer["chunks"] = len(desk.chunks_of(document.id))
                answer["indexed_at"] = indexed_at(document)
                answer["up_to_date"] = isinstance(walked, Found) and not walked.is_new(document)
            if isinstance(walked, Skipped):
                answer["reason"] = walked.reason
            elif document is None:
                skipped = {one.path: one.reason for one in desk.skipped(collection.name)}
                relative = path.absolute().relative_to(collection.root).as_posix()
                reason = skipped.get(relative, "not seen yet: index again")
                if relative in skipped and relative in desk.freshness(collection)[1]:
                    reason = f"changed since it was left out ({reason}): index again"
                answer["reason"] = reason
    if as_json:
        print_json(answer)
        return
    for key, value in answer.items():
        if isinstance(value, list):
            for one in value:
                click.echo(f"  {on_one_line(one)}")
            if len(value) == _LISTED:
                click.echo(f"  … at most {_LISTED} are named")
        else:
            click.echo(f"{key.removesuffix('_total').replace('_', ' ')}: {on_one_line(str(value))}")


def _status_elsewhere(desk: Desk, collection: Collection, document: Document | None, path: Path) -> dict[str, object]:
    """The status of a path of another machine's folder, of which the library alone is known."""
    (note,) = desk.machine_notes([collection])
    of_all = {"collection": collection.name, "kind": collection.kind, "root": collection.root}
    if document is not None:
        held: dict[str, object] = {"indexed": True, "chunks": len(desk.chunks_of(document.id))}
        return {"path": str(path), **of_all, **held, "indexed_at": indexed_at(document), "note": note}
    inside = place_of(path).relative_to(collection.root).as_posix()
    known = [one for one, _ in desk.file_states(collection.name, None if inside == "." else [inside])]
    return {"path": str(path), **of_all, "indexed": bool(known), "documents": len(known), "note": note}


def _folder_status(desk: Desk, collection: Collection, path: Path) -> dict[str, object]:
    """The status of a collection's folder or of a subfolder."""
    inside = path.resolve().relative_to(Path(collection.root).resolve()).as_posix()
    below = "" if inside == "." else f"{inside}/"
    known = [one for one, _ in desk.file_states(collection.name, None if inside == "." else [inside])]
    skipped = [one for one in desk.skipped(collection.name) if one.path.startswith(below)]
    changed = [one for one in desk.freshness(collection)[1] if one.startswith(below)]
    return {
        "collection": collection.name,
        "kind": collection.kind,
        "root": collection.root,
        **({"path": str(path)} if below else {}),
        "documents": len(known),
        "up_to_date": not changed,
        "unchanged": len(set(known).difference(changed)),
        "changed_total": len(changed),
        "changed": changed[:_LISTED],
        "skipped_total": len(skipped),
        "skipped": [f"{one.path}: {one.reason}" for one in skipped[:_LISTED]],
    }


@click.command()
@click.option("--check", is_flag=True, help="Only report; repair nothing.")
@json_option
@click.pass_context
def doctor(context: click.Context, check: bool, as_json: bool) -> None:
    """Check documents, playbooks, crawls and indexes, and repair what can be rebuilt."""
    again = "Not everything was checked: run it again."
    if not check:
        again = "What was repaired stays so: run it again for the rest."
    with interruptible(again), desk_from(context) as desk:
        findings = desk.check(repair=not check)
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        for one in findings:
            mark = "repaired" if one.repaired else "ok" if one.ok else "broken"
            click.echo(f"{one.part}: {mark}: {on_one_line(one.message)}")
    if any(not one.ok and not one.repaired for one in findings):
        sys.exit(7)


@click.command()
@click.argument("target", type=LibraryPath(path_type=Path))
@click.pass_context
def backup(context: click.Context, target: str | Path) -> None:
    """Copy the whole library to TARGET, which must not exist: a folder, or one file if it ends in .tar.zst.

    Works while the library is written to; `refdesk restore` brings it back.
    """
    from refdesk.app import PARTS
    from refdesk.store import copying
    from refdesk.store.record.access import RecordAccess

    if isinstance(target, str):
        raise InvalidInput(
            "A backup goes to a folder or a file, not to an address.",
            "Name one, such as library.tar.zst; `refdesk copy` copies a library to servers.",
        )
    settings = settings_from(context)
    with interruptible("No backup was made: run it again.") as tell, closing(PARTS.store(settings)) as store:
        assert isinstance(store, RecordAccess)
        counts = copying.back_up(store, Library(settings.library), target)
        tell("The backup is made.")
    click.echo(f"Backed up to {target}: {_listed(counts)}.")
    if settings.skills == "neo4j":
        click.echo("Playbooks are in Neo4j: back it up too, or run `refdesk skills copy embedded` before.", err=True)


@click.command()
@click.argument("source", type=LibraryPath(path_type=Path))
@click.option(
    "--library",
    type=LibraryPath(file_okay=False, path_type=Path),
    help="The folder to restore to, or the address of a shared library, which must be empty.",
)
@click.option("--replace", is_flag=True, help="Also where a library is already: it is moved aside, not deleted.")
@click.pass_context
def restore(context: click.Context, source: str | Path, library: str | Path | None, replace: bool) -> None:
    """Restore a library from the backup SOURCE, a folder or a .tar.zst file; verifies it and builds the indexes."""
    from refdesk.app import PARTS
    from refdesk.store import copying, local
    from refdesk.store.record.access import RecordAccess

    settings = settings_from(context, **({"library": library} if library else {}))
    if isinstance(source, str):
        raise InvalidInput(
            "A backup is a folder or a file, not an address.", "`refdesk copy` copies a library from servers."
        )
    if not settings.database:
        with interruptible(_NOTHING.format("restored")):
            counts, aside = local.restore(settings, source, replace=replace)
        click.echo(f"Restored to {settings.library}: {_listed(counts)}.")
        if aside is not None:
            click.echo(f"What was there before is in {aside}; restart servers that have it open.", err=True)
        return
    if replace:
        raise InvalidInput(
            "--replace moves a folder aside, and a shared library is in none.",
            "Restore without it to an empty library: another schema in the address is a new one.",
        )
    with (
        interruptible(_NOTHING.format("restored")) as tell,
        closing(PARTS.store(settings)) as theirs,
        tempfile.TemporaryDirectory(prefix="refdesk-") as folder,
    ):
        assert isinstance(theirs, RecordAccess)
        copying.refuse_filled(theirs)  # before the backup is unpacked, which may take long
        unpacked = settings_from(context, library=Path(folder) / "library")
        counts, _ = local.restore(unpacked, source, replace=False)
        with closing(PARTS.store(unpacked)) as ours:
            _copy_all(ours, theirs, unpacked, settings, tell)
    click.echo(f"Restored to the shared library: {_listed(counts)}.")


def _listed(counts: Mapping[str, int]) -> str:
    named = {**counts, "versions of them": counts.get("versions", 0), "pages of crawls": counts.get("pages", 0)}
    shown = ("collections", "documents", "chunks", "skills", "versions of them", "pages of crawls")
    listed = ", ".join(f"{named[name]:,} {name}" for name in shown if named.get(name))
    return listed or "nothing, since the library is empty"


@click.command()
@click.argument("source", type=LibraryPath(file_okay=False, path_type=Path))
@click.argument("target", type=LibraryPath(file_okay=False, path_type=Path))
@click.pass_context
def copy(context: click.Context, source: str | Path, target: str | Path) -> None:
    """Copy the library SOURCE to TARGET, which must be empty: folders, or addresses of shared libraries."""
    from refdesk.app import PARTS

    old, new = settings_from(context, library=source), settings_from(context, library=target)
    if not old.database and not Library(old.library).record.exists():
        raise NotFound(f"There is no library in {old.library}.", "Name the folder of one.")
    with (
        interruptible(_NOTHING.format("copied")) as tell,
        closing(PARTS.store(old)) as ours,
        closing(PARTS.store(new)) as theirs,
    ):
        counts = _copy_all(ours, theirs, old, new, tell)
    click.echo(f"Copied {_listed(counts)}.")


def _copy_all(
    ours: Store, theirs: Store, old: Settings, new: Settings, tell_if_interrupted: Callable[[str], None]
) -> Mapping[str, int]:
    """Copies one library to another, and checks that one; returns counts."""
    from refdesk.store import copying
    from refdesk.store.record.access import RecordAccess

    assert isinstance(ours, RecordAccess) and isinstance(theirs, RecordAccess)
    try:
        with bar_on_stderr("copying") as tell:
            with theirs.stretch():  # at its end all of it is indexed
                counts = copying.copy(ours, theirs, tell, (Library(old.library), Library(new.library)))
                click.echo("Everything is copied; its index is being made.", err=True)
            wrong = [one.message for one in theirs.verify(repair=True) if not one.ok]
        tell_if_interrupted("Everything is copied.")
    except KeyboardInterrupt:
        doctor = shlex.join(["refdesk", "--library", library_argument(new), "doctor"])
        try:  # a commit may be done when it is interrupted
            copying.refuse_filled(theirs)
        except InvalidInput:
            tell_if_interrupted(f"Everything is copied, but its index is not whole: `{doctor}` makes it.")
        except StoreError:
            tell_if_interrupted(f"Whether anything was copied could not be seen: look with `{doctor}`.")
        raise
    if wrong:
        raise LibraryDamaged(f"The copy is not sound: {wrong[0]}", "Check both servers, then `refdesk doctor` it.")
    return counts


@click.command()
@click.pass_context
def reembed(context: click.Context) -> None:
    """Replace all vectors with those of the configured embedder."""
    with desk_from(context) as desk, progress_on_stderr("embedding") as progress:
        count = desk.reembed(progress)
    click.echo(f"{count} texts embedded.")
