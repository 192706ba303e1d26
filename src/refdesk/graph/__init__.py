"""Who calls whom, who conforms to what?  Names resolved to symbols when they are asked about."""

from refdesk.graph.graph import Graph
from refdesk.graph.nodes import Edge, Node

__all__ = ["Edge", "Graph", "Node"]
