"""The graph of a codebase: a symbol among its callers, callees and types, and the packages as a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.responses import Response

from refdesk.console.site import View, Visit, address
from refdesk.desk.desk import Desk
from refdesk.graph.graph import Graph
from refdesk.graph.languages import TYPES
from refdesk.graph.nodes import Edge, Node

_LISTED = 50  # codebases of a page
_SHOWN = 12  # neighbours of a kind that are drawn
_WIDTH, _HEIGHT, _GAP, _COLUMN = 236, 40, 12, 372  # of a node, between nodes, from one column to the next
_LETTERS = 29  # of a name that fit into a node
_MAP = (1000.0, 560.0)
_TILES = 60
_TITLE, _EDGE, _ROOM = 30, 5, 60  # of a folder's tile in pixels: title, margin, and the smallest side that is divided
_SURE = (0.5, 0.6, 0.7, 0.85, 0.95)  # the confidence levels of the graph


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float


def choose(visit: Visit) -> Response:
    """The codebases that have a graph."""
    held = visit.console.contents()
    code = [one for one in visit.desk.collections() if one.kind == "code"]
    if len(code) == 1:
        return visit.redirect(address("/graph/{}", code[0].name))
    listed, pages = visit.page_of(code, _LISTED)
    return visit.render("graphs.html", **pages, code=[(one, held.get(one.name)) for one in listed])


def graph(visit: Visit) -> Response:
    """A codebase as a map, or one of its symbols with its neighbours."""
    collection = visit.desk.collection(visit.path("collection"))
    name = visit.query("symbol").strip()
    base: dict[str, Any] = {"collection": collection, "name": name}
    if not name:
        under = visit.query("under").strip("/")
        under, tiles = _tiles(visit.desk, collection.name, under)
        return visit.render("map.html", **base, under=under, tiles=tiles, size=_MAP)
    found = visit.desk.graph(collection.name)
    path, _, qualified = name.rpartition(":")  # an id is path:qualified, a name may have ::
    by_id = [node for node in found.find(qualified) if node.id == name][:1] if path and path[-1] != ":" else []
    nodes = by_id or found.find(name)
    if len(nodes) != 1:
        return visit.render("symbols.html", **base, nodes=nodes[:200], count=len(nodes))
    sure = float(visit.query("sure")) if visit.query("sure") in map(str, _SURE) else _SURE[0]
    return visit.render("graph.html", **base, node=nodes[0], sure=sure, levels=_SURE, **_around(found, nodes[0], sure))


# --- a symbol and its neighbours -----------------------------------------------------------------------


def _around(graph: Graph, node: Node, sure: float) -> dict[str, Any]:
    """The neighbours of a symbol, as a drawing and as lists."""
    most = 4 * _SHOWN
    kinds: Mapping[str, tuple[str, Sequence[Edge]]] = {
        "left": ("Makes it" if node.kind in TYPES else "Callers", graph.callers(node, most)),
        "right": ("Calls", graph.callees(node, most)),
        "above": ("Supertypes", graph.supertypes(node)),
        "below": ("Subtypes and implementers", graph.subtypes(node, most)),
    }
    groups: list[dict[str, Any]] = []
    for side, (title, edges) in kinds.items():
        ends = _ends(node, [edge for edge in edges if edge.confidence >= sure])
        groups.append({"side": side, "title": title, "ends": ends[:_SHOWN], "left_out": max(0, len(ends) - _SHOWN)})
    members = graph.members(node)[:100]
    users = _ends(node, [edge for edge in graph.users(node, most) if edge.confidence >= sure])
    container = graph.container(node)
    return {
        "groups": groups,
        "drawing": _drawing(node, {group["side"]: group["ends"] for group in groups}),
        "members": members,
        "users": users[:50],
        "container": container if container is not None and container.qualified else None,
    }


def _ends(node: Node, edges: Sequence[Edge]) -> list[tuple[Node, Edge]]:
    """The other end of each edge once, with the most certain edge to it."""
    found: dict[str, tuple[Node, Edge]] = {}
    for edge in edges:
        other = edge.target if edge.source.id == node.id else edge.source
        known = found.get(other.id)
        if known is None or edge.confidence > known[1].confidence:
            found[other.id] = (other, edge)
    return list(found.values())


def _drawing(node: Node, sides: Mapping[str, Sequence[tuple[Node, Edge]]]) -> dict[str, Any]:
    """The positions of boxes and lines: callers to the left, callees to the right, types above and below."""
    step = _HEIGHT + _GAP
    tall = max(len(sides["left"]), len(sides["right"]), 1) * step
    height = max(tall, 2 * max(len(sides["above"]), len(sides["below"])) * step + 3 * _HEIGHT) + 2 * _GAP
    centre = Box(_COLUMN, height / 2 - _HEIGHT / 2, _WIDTH, _HEIGHT)
    boxes: list[dict[str, Any]] = [_drawn(centre, node, None, "centre")]
    lines: list[dict[str, Any]] = []
    for side, ends in sides.items():
        block = len(ends) * step - _GAP
        x, top = {
            "left": (0.0, height / 2 - block / 2),
            "right": (2.0 * _COLUMN, height / 2 - block / 2),
            "above": (float(_COLUMN), centre.y - _HEIGHT - block),
            "below": (float(_COLUMN), centre.y + 2 * _HEIGHT),
        }[side]
        for at, (other, edge) in enumerate(ends):
            box = Box(x, top + at * step, _WIDTH, _HEIGHT)
            boxes.append(_drawn(box, other, edge, side))
            if side in ("above", "below"):
                # Beside the boxes, so that lines do not run through those between.
                y, to = box.y + box.height / 2, centre.y + (6 if side == "above" else centre.height - 6)
                right = box.x + box.width
                curve = f"M{right:g},{y:g} C{right + 46:g},{y:g} {right + 46:g},{to:g} {right:g},{to:g}"
            else:
                a, b = (box, centre) if side == "left" else (centre, box)
                start, y, end, to = a.x + a.width, a.y + a.height / 2, b.x, b.y + b.height / 2
                half = (start + end) / 2
                curve = f"M{start:g},{y:g} C{half:g},{y:g} {half:g},{to:g} {end:g},{to:g}"
            look = "sure" if edge.confidence >= 0.85 else "guess" if edge.confidence < 0.7 else ""
            lines.append({"d": curve, "edge": edge, "look": look})
    return {"boxes": boxes, "lines": lines, "width": 2 * _COLUMN + _WIDTH, "height": round(height)}


def _drawn(box: Box, node: Node, edge: Edge | None, side: str) -> dict[str, Any]:
    place = f"{node.path}:{edge.line if edge and side == 'left' else node.start_line}"
    name = _cut(node.qualified or node.name)
    return {"box": box, "node": node, "side": side, "name": name, "place": _cut(place, start=True)}


def _cut(text: str, *, start: bool = False) -> str:
    if len(text) <= _LETTERS:
        return text
    return f"…{text[-_LETTERS + 1 :]}" if start or "." in text else f"{text[: _LETTERS - 1]}…"


# --- the map ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _sizes(desk: Desk, collection: str, sequence: int) -> dict[str, int]:
    return {path: state.size for path, state in desk.file_states(collection)}


def _tiles(desk: Desk, collection: str, under: str) -> tuple[str, list[dict[str, Any]]]:
    """The folders and files in a folder with areas by size; a folder that contains only one folder is skipped."""
    sizes = _sizes(desk, collection, desk.sequence())
    while True:
        prefix = f"{under}/" if under else ""
        inside = {path: size for path, size in sizes.items() if path.startswith(prefix)}
        parts = {path[len(prefix) :].partition("/")[0] for path in inside}
        if len(parts) != 1 or f"{prefix}{next(iter(parts))}" in inside:
            break
        under = f"{prefix}{next(iter(parts))}"
    return under, _laid_out(inside, prefix, Box(0, 0, *_MAP), deep=True)


def _laid_out(sizes: Mapping[str, int], prefix: str, area: Box, *, deep: bool) -> list[dict[str, Any]]:
    """The tiles that fill an area; tiles of folders contain those of their entries."""
    inside: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        name, mark, _ = path[len(prefix) :].partition("/")
        inside.setdefault(name + mark, {})[path] = size
    ordered = sorted(inside.items(), key=lambda one: -sum(one[1].values()))[:_TILES]
    boxes = _squares([sum(files.values()) + 200.0 for _, files in ordered], area)
    tiles: list[dict[str, Any]] = []
    for (name, files), box in zip(ordered, boxes, strict=True):
        inner = Box(box.x + _EDGE, box.y + _TITLE, box.width - 2 * _EDGE, box.height - _TITLE - _EDGE)
        is_open = deep and name.endswith("/") and inner.width > _ROOM and inner.height > _ROOM
        tiles.append(
            {
                "box": box,
                "name": name,
                "is_folder": name.endswith("/"),
                "path": prefix + name.rstrip("/"),
                "files": len(files),
                "size": sum(files.values()),
                "inner": _laid_out(files, prefix + name, inner, deep=False) if is_open else [],
            }
        )
    return tiles


def _squares(areas: Sequence[float], area: Box) -> list[Box]:
    """Boxes of these sizes, largest first, that fill the area as nearly square as possible (a squarified treemap)."""
    scale = area.width * area.height / (sum(areas) or 1)
    left = [one * scale for one in areas]
    boxes: list[Box] = []
    while left:
        short = min(area.width, area.height)
        row = [left[0]]
        while len(row) < len(left) and _worst([*row, left[len(row)]], short) <= _worst(row, short):
            row.append(left[len(row)])
        thick = sum(row) / short if short else 0
        at = 0.0
        for size in row:
            long = size / thick if thick else 0
            if area.width >= area.height:
                boxes.append(Box(area.x, area.y + at, thick, long))
            else:
                boxes.append(Box(area.x + at, area.y, long, thick))
            at += long
        if area.width >= area.height:
            area = Box(area.x + thick, area.y, area.width - thick, area.height)
        else:
            area = Box(area.x, area.y + thick, area.width, area.height - thick)
        left = left[len(row) :]
    return boxes


def _worst(row: Sequence[float], short: float) -> float:
    total = sum(row)
    return max(short**2 * max(row) / total**2, total**2 / (short**2 * min(row)))


VIEWS: Mapping[str, View] = {"GET /graph": choose, "GET /graph/{collection}": graph}
