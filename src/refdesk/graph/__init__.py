"""The call and type graph; names are resolved to symbols when they are queried."""

from refdesk.graph.graph import Graph
from refdesk.graph.nodes import Edge, Node

__all__ = ["Edge", "Graph", "Node"]
