"""The code contract's tools and their schemas, word for word."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from refdesk.toolsets.content import STRING, STRINGS, ArgumentProblem, Json, TextErrors, icon, object_schema
from refdesk.toolsets.contract import Announcer, CallContext, Tool, ToolHints, Toolset, once

if TYPE_CHECKING:
    from refdesk.desk.desk import Desk
    from refdesk.ports import Llm
    from refdesk.toolsets.code.toolset import Code

LlmFor = Callable[[CallContext], "Llm | None"]

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


def code_toolset(desk: Desk, llm_for: LlmFor = lambda context: None) -> Toolset:
    """The code tools over one library; `llm_for` returns a call's language model, if any."""

    def make() -> Code:
        from refdesk.toolsets.code.toolset import Code  # only now: the list of tools comes before it

        return Code(desk, llm_for)

    code = once(make)

    def attach(_: Announcer) -> None:
        code()  # loaded after the list of tools, so that the first search need not wait for it

    return Toolset(name="code", tools=_tools(code), resources=lambda: code().resources(), attach=attach)


def _tools(code: Callable[[], Code]) -> tuple[Tool, ...]:
    reading = ToolHints(read_only=True, idempotent=True)
    errors = TextErrors(words=_words)
    return (
        Tool(
            name="index_codebase",
            title="Index a codebase",
            description="Index a codebase for semantic search",
            input_schema=INDEX,
            output_schema=INDEX_ANSWER,
            handler=lambda arguments, context: code().index(arguments, context),
            hints=ToolHints(read_only=False, idempotent=True),
            error_style=errors,
            icons=icon("index"),
            task_support="optional",
        ),
        Tool(
            name="search_code",
            title="Search code",
            description="Semantic search in indexed codebase",
            input_schema=SEARCH_CODE,
            output_schema=SEARCH_ANSWER,
            handler=lambda arguments, context: code().search(arguments, context),
            hints=reading,
            error_style=errors,
            fill_defaults=False,  # a weight left out is the engine's to choose
            icons=icon("search"),
        ),
        Tool(
            name="search_docs",
            title="Search documentation",
            description="Search indexed documentation using full-text search",
            input_schema=SEARCH_DOCS,
            output_schema=SEARCH_ANSWER,
            handler=lambda arguments, context: code().search_docs(arguments, context),
            hints=reading,
            error_style=errors,
            icons=icon("search"),
        ),
        Tool(
            name="code_research",
            title="Research a codebase",
            description="Deep architectural analysis with multi-hop search",
            input_schema=RESEARCH,
            output_schema=RESEARCH_ANSWER,
            handler=lambda arguments, context: code().research(arguments, context),
            hints=reading,
            error_style=errors,
            icons=icon("graph"),
            task_support="optional",
        ),
    )


def _words(problem: ArgumentProblem) -> str | None:
    return f"Missing required argument: {problem.argument}" if problem.kind == "missing" else None
