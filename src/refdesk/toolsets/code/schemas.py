"""The schemas of the code contract, word for word."""

from __future__ import annotations

from refdesk.toolsets.content import STRING, STRINGS, Json, object_schema

FORMATS = ("toon", "json", "human")


_PATH: Json = {"type": "string", "default": ".", "description": "Path to indexed codebase"}
_PATH_FILTER: Json = {"type": "string", "description": "Filter by path pattern (glob syntax)"}
_FORMAT: Json = {"type": "string", "enum": list(FORMATS), "description": "Output format"}
_INTEGER: Json = {"type": "integer"}

INDEX = object_schema(
    {
        "path": {"type": "string", "description": "Absolute path to the directory to index"},
        "force": {
            "type": "boolean",
            "default": False,
            "description": "Force re-indexing even if files haven't changed",
        },
    },
    "path",
)
INDEX_ANSWER = object_schema(
    {
        "collection": STRING,
        "files": _INTEGER,
        "chunks": _INTEGER,
        "written": _INTEGER,
        "unchanged": _INTEGER,
        "removed": _INTEGER,
        "skipped": _INTEGER,
        "errors": {"type": "array", "items": object_schema({"path": STRING, "reason": STRING})},
        "notices": STRINGS,
    },
    "files",
    "chunks",
    "errors",
)
SEARCH_CODE = object_schema(
    {
        "query": {"type": "string", "description": "Natural language search query or code pattern"},
        "path": _PATH,
        "limit": {"type": "integer", "default": 20},
        "semantic_weight": {
            "type": "number",
            "default": 0.7,
            "description": "Weight for semantic search (0.0-1.0)",
        },
        "extensions": {"type": "string", "description": "Filter by file extensions (comma-separated)"},
        "path_filter": _PATH_FILTER,
        "format": _FORMAT,
        "expand_query": {"type": "boolean", "default": False, "description": "Use LLM to expand query"},
        "synthesize": {"type": "boolean", "default": False, "description": "Generate LLM summary"},
    },
    "query",
)
SEARCH_DOCS = object_schema(
    {
        "query": {"type": "string", "description": "Natural language search query"},
        "path": _PATH,
        "limit": {"type": "integer", "default": 10},
        "path_filter": _PATH_FILTER,
        "format": _FORMAT,
    },
    "query",
)
RESEARCH = object_schema(
    {
        "query": {"type": "string", "description": "Research question about codebase"},
        "path": _PATH,
        "depth": {"type": "integer", "default": 2, "minimum": 1, "maximum": 5},
        "focus": {
            "type": "string",
            "enum": ["architecture", "dependencies", "patterns", "flow"],
            "description": "Optional focus area",
        },
    },
    "query",
)
RESEARCH_ANSWER = object_schema(
    {
        "query": STRING,
        "intent": STRING,
        "focus": STRING,
        "depth": _INTEGER,
        "summary": STRING,
        "answered_by": STRING,
        "findings": {"type": "array", "items": {"type": "object"}},
        "sections": {"type": "object"},
        "graph": {"type": "object"},
        "notices": STRINGS,
    },
    "query",
    "summary",
    "findings",
)
SEARCH_ANSWER = object_schema(
    {
        "format": {"type": "string", "enum": list(FORMATS)},
        "output": STRING,
        "query": STRING,
        "path": STRING,
        "total": _INTEGER,
        "results": {
            "type": "array",
            "items": object_schema(
                {
                    "path": STRING,
                    "start_line": _INTEGER,
                    "end_line": _INTEGER,
                    "relevance_percent": {"type": "integer", "minimum": 0, "maximum": 100},
                    "kind": STRING,
                    "symbols": STRINGS,
                    "content": STRING,
                },
                "path",
                "relevance_percent",
                "kind",
                "symbols",
                "content",
            ),
        },
        "notices": STRINGS,
        "hint": STRING,
        "expanded_with": STRINGS,
        "summary": STRING,
        "follow_ups": STRINGS,
        "answered_by": STRING,
    },
    "format",
)
