"""Set-up: MCP clients on this machine and what `install` adds to them, the library's health, the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from starlette.responses import Response

from refdesk.console.site import View, Visit
from refdesk.ingest.prepare import Progress
from refdesk.settings import Settings, library_argument, opening_variables
from refdesk.system import memory


def setup(visit: Visit) -> Response:
    settings = visit.desk.settings
    checks = [run for run in visit.console.runs.last() if run.what == "check"]
    library = library_argument(settings)
    values = {field.name: (getattr(settings, field.name), not field.repr) for field in fields(Settings)}
    values["library"] = (library, False)
    rows = [
        (name, _shown(*shown), settings.origins.get(name, "default"))
        for name, shown in values.items()
        if name not in ("origins", "database")  # which is given as the library
    ]
    identity = visit.desk.embedder_identity()
    return visit.render(
        "setup.html",
        clients=visit.console.clients(),
        check=checks[0] if checks else None,
        settings=rows,
        embedder=f"{identity.name} {identity.version}, {identity.dimension} dimensions" if identity else "none yet",
        memory=memory.usage(),
        library=library,
        variables=opening_variables(settings),
        place=f"{visit.request.url.scheme}://{visit.request.headers.get('host', '')}/mcp",
    )


def _shown(value: Any, is_secret: bool) -> str:
    if is_secret:
        return "set" if value else "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "–"


def check(visit: Visit) -> Response:
    """Starts a check as `doctor` does, without repairs."""

    def work(progress: Progress) -> dict[str, Any]:
        findings = visit.desk.check(repair=False)
        broken = [one for one in findings if not one.ok]
        notes = ("`refdesk doctor` repairs what can be repaired.",) if broken else ()
        return {"findings": tuple(asdict(one) for one in findings), "notes": notes}

    return visit.start("check", library_argument(visit.desk.settings), work)


VIEWS: Mapping[str, View] = {"GET /setup": setup, "POST /setup/check": check}
