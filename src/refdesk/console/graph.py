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
_TITLE, _EDGE, _ROOM = 30, 5, 60  # of a folder's tile: above and beside what is in it, and the least that is divided
_SURE = (0.5, 0.6, 0.7, 0.85, 0.95)  # the confidences that the graph gives


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
        return visit.go(address("/graph/{}", code[0].name))
    listed, pages = visit.paged(code, _LISTED)
    return visit.show("graphs.html", **pages, code=[(one, held.get(one.name)) for one in listed])


def graph(visit: Visit) -> Response:
    """A codebase as a map, or one of its symbols with what is around it."""
    collection = visit.desk.collection(visit.part("collection"))
    name = visit.asked("symbol").strip()
    base: dict[str, Any] = {"collection": collection, "name": name}
    if not name:
        under = visit.asked("under").strip("/")
        under, tiles = _tiles(visit.desk, collection.name, under)
        return visit.show("map.html", **base, under=under, tiles=tiles, size=_MAP)
    found = visit.desk.graph(collection.name)
    nodes = _meant(found, name)
    if len(nodes) != 1:
        return visit.show("symbols.html", **base, nodes=nodes[:200], count=len(nodes))
    sure = float(visit.asked("sure")) if visit.asked("sure") in map(str, _SURE) else _SURE[0]
    return visit.show("graph.html", **base, node=nodes[0], sure=sure, levels=_SURE, **_around(found, nodes[0], sure))


def _meant(graph: Graph, name: str) -> list[Node]:
    """The symbols that a name or an id (path:qualified) means."""
    path, _, qualified = name.rpartition(":")
    if path and not path.endswith(":"):
        return [node for node in graph.find(qualified) if node.id == name][:1] or graph.find(name)
    return graph.find(name)


# --- a symbol and its neighbours -----------------------------------------------------------------------


def _around(graph: Graph, node: Node, sure: float) -> dict[str, Any]:
    """The drawing, and the same as lists."""
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
    """The other end of each edge, once, with the surest edge to it."""
    found: dict[str, tuple[Node, Edge]] = {}
    for edge in edges:
        other = edge.target if edge.source.id == node.id else edge.source
        known = found.get(other.id)
        if known is None or edge.confidence > known[1].confidence:
            found[other.id] = (other, edge)
    return list(found.values())


def _drawing(node: Node, sides: Mapping[str, Sequence[tuple[Node, Edge]]]) -> dict[str, Any]:
    """Where the boxes and lines of a drawing are: callers to the left, callees to the right, types above and below."""
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
            lines.append({"d": _curve(box, centre, side), "edge": edge, "look": _look(edge)})
    return {"boxes": boxes, "lines": lines, "width": 2 * _COLUMN + _WIDTH, "height": round(height)}


def _drawn(box: Box, node: Node, edge: Edge | None, side: str) -> dict[str, Any]:
    place = f"{node.path}:{edge.line if edge and side == 'left' else node.start_line}"
    name = _cut(node.qualified or node.name)
    return {"box": box, "node": node, "side": side, "name": name, "place": _cut(place, start=True)}


def _cut(text: str, *, start: bool = False) -> str:
    if len(text) <= _LETTERS:
        return text
    return f"…{text[-_LETTERS + 1 :]}" if start or "." in text else f"{text[: _LETTERS - 1]}…"


def _curve(box: Box, centre: Box, side: str) -> str:
    if side in ("above", "below"):
        # Beside the boxes, so that lines do not run through those between.
        y, to = box.y + box.height / 2, centre.y + (6 if side == "above" else centre.height - 6)
        x = box.x + box.width
        return f"M{x:g},{y:g} C{x + 46:g},{y:g} {x + 46:g},{to:g} {x:g},{to:g}"
    left, right = (box, centre) if side == "left" else (centre, box)
    x, y, to_x, to_y = left.x + left.width, left.y + left.height / 2, right.x, right.y + right.height / 2
    bend = (to_x - x) / 2
    return f"M{x:g},{y:g} C{x + bend:g},{y:g} {to_x - bend:g},{to_y:g} {to_x:g},{to_y:g}"


def _look(edge: Edge) -> str:
    return "sure" if edge.confidence >= 0.85 else "guess" if edge.confidence < 0.7 else ""


# --- the map ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _sizes(desk: Desk, collection: str, sequence: int) -> dict[str, int]:
    return {path: state.size for path, state in desk.file_states(collection)}


def _tiles(desk: Desk, collection: str, under: str) -> tuple[str, list[dict[str, Any]]]:
    """The folders and files in a folder, their area by size; folders that hold one folder only are skipped."""
    sizes = _sizes(desk, collection, desk.sequence())
    while True:
        prefix = f"{under}/" if under else ""
        inside = {path: size for path, size in sizes.items() if path.startswith(prefix)}
        parts = {path[len(prefix) :].partition("/")[0] for path in inside}
        if len(parts) != 1 or f"{prefix}{next(iter(parts))}" in inside:
            break
        under = f"{prefix}{next(iter(parts))}"
    return under, _laid_out(inside, prefix, Box(0, 0, *_MAP), deep=True)


def _laid_out(sizes: Mapping[str, int], prefix: str, room: Box, *, deep: bool) -> list[dict[str, Any]]:
    """The tiles that fill a room; in those of folders, what is in them."""
    inside: dict[str, dict[str, int]] = {}
    for path, size in sizes.items():
        name, mark, _ = path[len(prefix) :].partition("/")
        inside.setdefault(name + mark, {})[path] = size
    ordered = sorted(inside.items(), key=lambda one: -sum(one[1].values()))[:_TILES]
    boxes = _squares([sum(files.values()) + 200.0 for _, files in ordered], room)
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


def _squares(areas: Sequence[float], room: Box) -> list[Box]:
    """Boxes of these areas, largest first, that fill the room in rows near to squares (a squarified treemap)."""
    scale = room.width * room.height / (sum(areas) or 1)
    left = [area * scale for area in areas]
    boxes: list[Box] = []
    while left:
        short = min(room.width, room.height)
        row = [left[0]]
        while len(row) < len(left) and _worst([*row, left[len(row)]], short) <= _worst(row, short):
            row.append(left[len(row)])
        thick = sum(row) / short if short else 0
        at = 0.0
        for area in row:
            long = area / thick if thick else 0
            if room.width >= room.height:
                boxes.append(Box(room.x, room.y + at, thick, long))
            else:
                boxes.append(Box(room.x + at, room.y, long, thick))
            at += long
        if room.width >= room.height:
            room = Box(room.x + thick, room.y, room.width - thick, room.height)
        else:
            room = Box(room.x, room.y + thick, room.width, room.height - thick)
        left = left[len(row) :]
    return boxes


def _worst(row: Sequence[float], short: float) -> float:
    total = sum(row)
    return max(short**2 * max(row) / total**2, total**2 / (short**2 * min(row)))


VIEWS: Mapping[str, View] = {"GET /graph": choose, "GET /graph/{collection}": graph}
