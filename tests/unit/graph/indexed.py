"""The graph of a few files that a test spells out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from refdesk.app import open_desk
from refdesk.graph import Graph
from refdesk.settings import Settings


@contextmanager
def graph_of(root: Path, files: Mapping[str, str]) -> Iterator[Graph]:
    """Their graph, by keywords alone: the model has no part in it."""
    for name, text in files.items():
        (root / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "code" / name).write_text(text)
    with open_desk(Settings(library=root / "library", embedder="none", workers=1)) as desk:
        desk.index(root / "code", "code", name="code")
        yield desk.graph("code")


def callers(graph: Graph, name: str) -> set[str]:
    """Who calls what is so named."""
    return {edge.source.qualified for node in graph.find(name) for edge in graph.callers(node)}
