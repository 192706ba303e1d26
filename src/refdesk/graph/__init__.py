"""Who calls whom, who conforms to what?  Names resolved to symbols when they are asked about."""

from refdesk.graph.graph import Edge, Graph, Node

__all__ = ["Edge", "Graph", "Node"]
