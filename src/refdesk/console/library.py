"""The library: its collections, their documents and skipped files; adding, removing, and following runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from starlette.datastructures import UploadFile
from starlette.responses import Response

from refdesk.console.runs import Run
from refdesk.console.site import View, Visit, address
from refdesk.crawl import crawler
from refdesk.crawl.model import CrawlReport, crawl_options
from refdesk.desk.desk import Desk
from refdesk.desk.machine import taken_notes
from refdesk.errors import InvalidInput, InvalidUri
from refdesk.ingest.prepare import Progress, Report
from refdesk.library import checked_name
from refdesk.model import Collection, CollectionKind, Content, Contents, Skipped
from refdesk.sources.allowed import allowed_roots, confine

_LISTED = 100  # documents or collections of a page
_NAMED = 200  # files that are named for a reason or a change
_KINDS = ("code", "docs", "files")


def library(visit: Visit) -> Response:
    """All collections, with the forms that add to them."""
    runs = visit.console.runs.last()
    held = visit.console.contents()
    named = visit.query("named").strip()
    known = visit.desk.collections()
    chosen = [one for one in known if named.casefold() in f"{one.name} {one.description}".casefold()]
    listed, pages = visit.page_of(chosen, _LISTED)
    return visit.render(
        "library.html",
        **pages,
        rows=[
            (one, held.get(one.name, Contents()), _last(runs, one.name), _is_here(visit.desk, one)) for one in listed
        ],
        count=len(known),
        named=named,
        total=sum(one.chunks for one in held.values()),
        kinds=_KINDS,
        roots=_roots(visit.desk),
        hosts=visit.desk.settings.allow_hosts,
        runs=runs[:8],
        notes=visit.desk.unfinished(listed),
        ask=visit.query("add"),
    )


def collection(visit: Visit) -> Response:
    """One collection: its documents by path, and skipped files by reason."""
    desk = visit.desk
    found = desk.collection(visit.path("name"))
    held = visit.console.contents().get(found.name, Contents())
    numbers, pages = visit.page_of(range(held.documents), _LISTED)
    return visit.render(
        "collection.html",
        collection=found,
        held=held,
        **pages,
        documents=desk.documents(found.name, len(numbers), numbers[0]) if numbers else (),
        left_out=_by_reason(desk.skipped(found.name)),
        named=_NAMED,
        run=_last(visit.console.runs.last(), found.name),
        is_folder=_is_here(desk, found),
        notes=(*desk.unfinished([found]), *desk.machine_notes([found])),
    )


def freshness(visit: Visit) -> Response:
    """What changed in a collection's folder since it was indexed; loaded separately, since a walk may take long."""
    found = visit.desk.collection(visit.path("name"))
    same, changed = visit.desk.freshness(found) if _is_here(visit.desk, found) else (0, [])
    template = "fresh.html" if visit.is_part else "fresh_page.html"
    other = visit.desk.other_machine(found)
    return visit.render(
        template, collection=found, other=other, same=same, changed=changed[:_NAMED], count=len(changed)
    )


def _is_folder(collection: Collection) -> bool:
    return bool(collection.root) and "://" not in collection.root and Path(collection.root).is_dir()


def _is_here(desk: Desk, collection: Collection) -> bool:
    """Whether it was made of a folder of this machine that is there."""
    return _is_folder(collection) and not desk.other_machine(collection)


def _last(runs: Sequence[Run], name: str) -> Run | None:
    return next((run for run in runs if run.collection == name), None)


def _by_reason(skipped: Sequence[Skipped]) -> list[tuple[str, int, list[Skipped]]]:
    grouped: dict[str, list[Skipped]] = {}
    for one in skipped:
        grouped.setdefault(_reason(one.reason), []).append(one)
    ordered = sorted(grouped.items(), key=lambda group: (-len(group[1]), group[0]))
    return [(reason, len(files), files[:_NAMED]) for reason, files in ordered]


def _reason(text: str) -> str:
    return text.partition(":")[0].partition(" (")[0]


def _roots(desk: Desk) -> list[Path]:
    return allowed_roots([Path.cwd()], desk.settings.allow_roots)


# --- adding ------------------------------------------------------------------------------------------


def index(visit: Visit) -> Response:
    """Starts indexing a folder within the allowed roots."""
    desk, name, kind = visit.desk, visit.field("name"), visit.field("kind")
    if kind not in _KINDS:
        raise InvalidInput(f"There is no kind {kind}.", f"Take one of {', '.join(_KINDS)}.")
    folder = confine(Path(visit.field("path")).expanduser(), _roots(desk), desk.settings.allow_secrets)
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", "Drop a single file, or name its folder.")
    if name:
        checked_name(name)
    return _start_index(visit, folder, cast(CollectionKind, kind), name, visit.field("description"))


def again(visit: Visit) -> Response:
    """Starts indexing a collection's folder, or crawling its site, again."""
    found = visit.desk.collection(visit.path("name"))
    if found.kind == "web":
        return _start_crawl(visit, found.root, found.name, 20, 5_000)
    if other := visit.desk.other_machine(found):
        raise InvalidInput(f"{found.name} was indexed on {other}.", "Index it there, or add the folder by its path.")
    if not _is_folder(found):
        raise InvalidInput(f"{found.name} has no folder that could be indexed again.", "Add to it instead.")
    folder = confine(Path(found.root), [*_roots(visit.desk), Path(found.root)], visit.desk.settings.allow_secrets)
    return _start_index(visit, folder, found.kind, found.name, "")


def _start_index(visit: Visit, folder: Path, kind: CollectionKind, name: str, description: str) -> Response:
    desk = visit.desk

    def work(progress: Progress) -> dict[str, Any]:
        return _report(desk.index(folder, kind, name=name, description=description, progress=progress))

    return visit.start("index", str(folder), work, name)


def ingest(visit: Visit) -> Response:
    """Starts adding the content of a URI, or uploaded files."""
    desk, name = visit.desk, checked_name(visit.field("collection") or "files")
    files = [one for one in visit.form.getlist("files") if isinstance(one, UploadFile) and one.filename]
    uri = visit.field("uri")
    if files:
        most = desk.settings.max_file_bytes
        contents = [_uploaded(one, most) for one in files]
        desk.ensure_collection(name, "files")
        target = ", ".join(one.path for one in contents)

        def add(progress: Progress) -> dict[str, Any]:
            return _report(desk.add(desk.collection(name), contents, progress=progress))

        return visit.start("ingest", target[:200], add, name)
    if not uri.lower().startswith(("http://", "https://", "file://")):
        raise InvalidUri(f"{uri[:80]!r} is not an address.", "Write https://…, or drop a file.")

    def load(progress: Progress) -> dict[str, Any]:
        with desk.filling(name):
            return _report(desk.ingest(uri, name, roots=[Path.cwd()], progress=progress))

    return visit.start("ingest", uri, load, name)


def _uploaded(file: UploadFile, most: int) -> Content:
    name = (file.filename or "").replace("\\", "/").rpartition("/")[2].strip(".") or "file"
    data = file.file.read(most + 1)
    if len(data) > most:
        raise InvalidInput(f"{name} has more than {most} bytes.", "Raise max_file_bytes, or cut it.")
    return Content(uri=f"data:,{quote(name)}", path=name, data=data)


def crawl(visit: Visit) -> Response:
    depth, most = (visit.field(name) or default for name, default in (("depth", "20"), ("max_pages", "5000")))
    if not depth.isdecimal() or not most.isdecimal() or len(depth) > 4 or len(most) > 6 or most == "0":
        raise InvalidInput("Depth and pages are whole numbers.", "Correct them.")
    name = visit.field("name")
    return _start_crawl(visit, visit.field("url"), checked_name(name) if name else "", int(depth), int(most))


def _start_crawl(visit: Visit, url: str, name: str, depth: int, most: int) -> Response:
    desk = visit.desk
    options = crawl_options(url, depth=depth, max_pages=most)

    def work(progress: Progress) -> dict[str, Any]:
        report = crawler.crawl(desk, options, name=name, progress=progress)
        counted = ("pages", "written", "unchanged", "removed")
        left_out = (*report.failed, *report.scripts, *report.skipped)
        return _result(report, counted, left_out, report.notes, **{"not fetched yet": report.left})

    return visit.start("crawl", options.start, work, name)


def _report(report: Report) -> dict[str, Any]:
    counted = ("files", "written", "unchanged", "moved", "removed", "symbols")
    notes = [*taken_notes(report), *(f"{one.path}: {one.reason}" for one in report.errors[:20])]
    return _result(report, counted, [*report.skipped, *report.errors], notes)


def _result(
    report: Report | CrawlReport, counted: Sequence[str], left_out: Sequence[Skipped], notes: Sequence[str], **more: int
) -> dict[str, Any]:
    """The final state of a run."""
    return {
        "collection": report.collection,
        "counts": {**{name: getattr(report, name) for name in counted}, "passages": report.chunks, **more},
        "skipped": dict(Counter(_reason(one.reason) for one in left_out).most_common(20)),
        "notes": tuple(notes),
    }


# --- removing ----------------------------------------------------------------------------------------


def ask_remove(visit: Visit) -> Response:
    """The confirmation page for removing a collection."""
    found = visit.desk.collection(visit.path("name"))
    return visit.render("remove.html", collection=found, documents=visit.desk.count_documents(found.name))


def remove(visit: Visit) -> Response:
    """Removes a collection, if its name was typed."""
    found = visit.desk.collection(visit.path("name"))
    if visit.field("name") != found.name:
        raise InvalidInput(f"Nothing was removed: {visit.field('name')!r} is not {found.name!r}.", "Type its name.")
    visit.desk.remove_collection(found.name)
    return visit.redirect("/library")


# --- runs --------------------------------------------------------------------------------------------


def run(visit: Visit) -> Response:
    found = visit.console.runs.run(visit.path("id"))
    return visit.render("run_state.html" if visit.is_part else "run.html", run=found)


def stop(visit: Visit) -> Response:
    visit.console.runs.stop(visit.path("id"))
    return visit.redirect(address("/runs/{}", visit.path("id")))


def running(visit: Visit) -> Response:
    """The active runs, for the head of every page."""
    return visit.render("running.html")


VIEWS: Mapping[str, View] = {
    "GET /library": library,
    "POST /library/index": index,
    "POST /library/ingest": ingest,
    "POST /library/crawl": crawl,
    "GET /library/{name}": collection,
    "GET /library/{name}/fresh": freshness,
    "POST /library/{name}/again": again,
    "GET /library/{name}/remove": ask_remove,
    "POST /library/{name}/remove": remove,
    "GET /runs/{id}": run,
    "POST /runs/{id}/stop": stop,
    "GET /running": running,
}
