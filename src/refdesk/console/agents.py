"""What agents asked: the journal, evaluation cases made from it, and their scores over time."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from starlette.responses import Response

from refdesk.console.journal import Call
from refdesk.console.site import View, Visit, address
from refdesk.errors import InvalidInput, NotFound
from refdesk.ingest.prepare import Progress
from refdesk.model import Filters, Hit, Page, Query
from refdesk.search.evaluate import hit_name, read_suite, run
from refdesk.system.files import replace_file

_LISTED = 50
_UNANSWERED = 12
_OFFERED = 10  # hits among which the expected ones are picked
_SUITE = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PLOT = (760, 240)
_MARGIN = (34, 12, 40, 24)  # left, top, right, bottom
_DATES = 6  # that are written below a plot
_MEASURES = {"ndcg": "NDCG@5", "mrr": "MRR@5", "hit_rate": "hit rate"}


def agents(visit: Visit) -> Response:
    calls = visit.console.journal.calls()
    tool = visit.query("tool")
    chosen, pages = visit.page_of([one for one in calls if not tool or one.tool == tool], _LISTED)
    searches = [one for one in calls if one.hits is not None]
    return visit.render(
        "agents.html",
        **pages,
        calls=chosen,
        unanswered=_unanswered(calls),
        tools=sorted({one.tool for one in calls}),
        tool=tool,
        count=len(calls),
        empty=sum(one.hits == 0 for one in searches) / len(searches) if searches else 0.0,
        tokens=sum(one.tokens for one in calls),
        typical=round(median(one.ms for one in calls)) if calls else 0,
        most=visit.desk.settings.journal,
        suites=_suites(visit),
    )


def _unanswered(calls: Sequence[Call]) -> list[tuple[Call, list[str], int]]:
    """The questions without hits, most frequent first, with the tools that were called and the number of calls."""
    found: dict[str, list[Call]] = {}
    for one in calls:
        if one.hits == 0 and one.query:
            found.setdefault(one.query.casefold(), []).append(one)
    ordered = sorted(found.values(), key=lambda same: (-len(same), -same[0].at))
    return [(same[0], sorted({one.tool for one in same}), len(same)) for same in ordered[:_UNANSWERED]]


def clear(visit: Visit) -> Response:
    visit.console.journal.clear()
    return visit.redirect("/agents")


# --- evaluation ----------------------------------------------------------------------------------------


def ask_case(visit: Visit) -> Response:
    """The form that makes a question an evaluation case, with its best hits to choose from."""
    query = visit.query("query").strip()
    name = visit.query("collection")
    named = (name,) if name and visit.desk.find_collection(name) is not None else ()
    asked = Query(text=query, filters=Filters(collections=named), limit=_OFFERED)
    page = visit.desk.search(asked) if query else Page(hits=(), more=False, state=0)
    offered = [(hit_name(hit), hit) for hit in page.hits]
    suites = [one["name"] for one in _suites(visit)]
    return visit.render("case.html", query=query, offered=offered, suites=suites, collection=name)


def add_case(visit: Visit) -> Response:
    """Adds a case to a suite, which is created if necessary."""
    name, query = visit.field("suite"), visit.field("query")
    expect = [str(one).strip() for one in visit.form.getlist("expect") if str(one).strip()]
    if not query or not expect:
        raise InvalidInput("A case needs a query and what it should find.", "Choose a hit, or name a file.")
    file = _file(visit, name)
    suite: dict[str, Any] = _load(file) if file.exists() else {"name": name, "cases": []}
    suite["cases"] = [one for one in suite["cases"] if one.get("query") != query] + [{"query": query, "expect": expect}]
    _save(file, suite)
    return visit.redirect(address("/agents/suites/{}", name))


def suite(visit: Visit) -> Response:
    name = visit.path("name")
    file = _file(visit, name)
    if not file.exists():
        raise NotFound(f"There is no suite {name}.", "Make one from a question that an agent asked.")
    scores = _scores(file)
    return visit.render(
        "suite.html",
        name=name,
        file=str(file),
        cases=_load(file)["cases"],
        scores=scores[-20:][::-1],
        plot=_plot(scores[-100:]),
        measures=_MEASURES,
    )


def remove_case(visit: Visit) -> Response:
    """Removes a case from its suite; an empty suite is deleted."""
    file = _file(visit, visit.path("name"))
    found = _load(file)
    found["cases"] = [one for one in found["cases"] if one.get("query") != visit.field("query")]
    if not found["cases"]:
        file.unlink()
        return visit.redirect("/agents")
    _save(file, found)
    return visit.redirect(address("/agents/suites/{}", visit.path("name")))


def run_suite(visit: Visit) -> Response:
    """Starts an evaluation and appends its scores to earlier ones."""
    name, desk = visit.path("name"), visit.desk
    file = _file(visit, name)
    wanted = read_suite(_load(file))
    total = len(wanted.cases) * len(wanted.settings)

    def work(progress: Progress) -> dict[str, Any]:
        done = 0

        def search(query: Query) -> Sequence[Hit]:
            nonlocal done
            progress.step(done, total, query.text)
            done += 1
            return desk.search(query).hits

        scores = run(wanted, search)
        missed = [[one.case.query for one in score.outcomes if not one.reciprocal_rank] for score in scores]
        at = int(time.time() * 1000)
        with file.with_suffix(".scores").open("a", encoding="utf-8") as kept:
            for score, queries in zip(scores, missed, strict=True):
                numbers = {name: round(getattr(score, name), 4) for name in (*_MEASURES, "p50_ms", "p95_ms")}
                line = {"at": at, "setting": score.setting, **numbers, "missed": queries[:50]}
                kept.write(json.dumps(line, ensure_ascii=False) + "\n")
        counts = {shown: round(getattr(scores[0], field), 3) for field, shown in _MEASURES.items()}
        notes = tuple(f"Missed: {query}" for query in missed[0][:20])
        return {"counts": {"cases": len(wanted.cases), **counts}, "notes": notes}

    return visit.start("evaluate", name, work)


def _suites(visit: Visit) -> list[dict[str, Any]]:
    found = []
    for file in sorted(visit.desk.library.evaluations.glob("*.yaml")):
        if _SUITE.fullmatch(file.stem):
            scores = _scores(file)
            found.append(
                {"name": file.stem, "cases": len(_load(file)["cases"]), "last": scores[-1] if scores else None}
            )
    return found


def _file(visit: Visit, name: str) -> Path:
    if not _SUITE.fullmatch(name):
        raise InvalidInput(f"A suite can't be named {name!r}.", "Use letters, digits, hyphens and underscores.")
    return visit.desk.library.evaluations / f"{name}.yaml"


def _load(file: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
        read_suite(found)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InvalidInput(f"{file} can't be read: {error}.", "Correct it, or move it away.") from error
    return dict(found)


def _save(file: Path, suite: Mapping[str, Any]) -> None:
    import yaml

    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(file, yaml.safe_dump(dict(suite), sort_keys=False, allow_unicode=True))


def _scores(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.with_suffix(".scores").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError):
        return []


def _plot(scores: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The lines of the plot: all measures of a single setting, or the NDCG of each of several."""
    if not scores:
        return None
    settings = list(dict.fromkeys(str(one["setting"]) for one in scores))
    lines: dict[str, list[tuple[int, float]]]
    if len(settings) == 1:
        lines = {shown: [(one["at"], one[name]) for one in scores] for name, shown in _MEASURES.items()}
    else:
        lines = {
            f"NDCG@5 {setting}": [(one["at"], one["ndcg"]) for one in scores if one["setting"] == setting]
            for setting in settings[:4]
        }
    left, top, right, bottom = _MARGIN
    width, height = _PLOT[0] - left - right, _PLOT[1] - top - bottom
    longest = max(map(len, lines.values()))

    def place(at: int, value: float) -> tuple[float, float]:
        step = width / (longest - 1) if longest > 1 else 0.0
        x = left + step * at if longest > 1 else left + width / 2
        return round(x, 1), round(top + height * (1 - value), 1)

    drawn = [
        {
            "name": name,
            "points": [(*place(number, value), moment, value) for number, (moment, value) in enumerate(points)],
        }
        for name, points in lines.items()
    ]
    ticks = [(round(top + height * (1 - value), 1), f"{value:g}") for value in (0, 0.25, 0.5, 0.75, 1)]
    moments = max(lines.values(), key=len)
    step = max(1, -(-longest // _DATES))
    dates = [(place(number, 0)[0], moments[number][0]) for number in range(0, longest, step)]
    return {"lines": drawn, "ticks": ticks, "dates": dates, "size": _PLOT, "left": left, "right": _PLOT[0] - right}


VIEWS: Mapping[str, View] = {
    "GET /agents": agents,
    "POST /agents/clear": clear,
    "GET /agents/case": ask_case,
    "POST /agents/case": add_case,
    "GET /agents/suites/{name}": suite,
    "POST /agents/suites/{name}/run": run_suite,
    "POST /agents/suites/{name}/remove": remove_case,
}
