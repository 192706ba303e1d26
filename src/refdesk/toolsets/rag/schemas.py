"""The rag contract's schemas, word for word."""

from __future__ import annotations

from refdesk.toolsets.content import NOTICES, Json

CONTENT_TYPES = (
    "rust", "python", "typescript", "javascript", "go", "java", "cpp", "markdown", "html", "json", "yaml", "plain_text",
)  # fmt: skip
_NAME = "^[a-zA-Z0-9_-]+$"


def _object(properties: Json, required: tuple[str, ...] = ()) -> Json:
    schema: Json = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _number(description: str = "") -> Json:
    return {"type": "integer", "description": description} if description else {"type": "integer"}


_STRING: Json = {"type": "string"}
NOTHING = _object({})
SEARCH = _object(
    {
        "query": _text("The search query"),
        "collection": _text("Optional collection to search within. If omitted, searches all collections."),
        "top_k": {**_number("Number of results to return"), "default": 10, "minimum": 1, "maximum": 100},
        "hybrid": {
            "type": "boolean",
            "description": "Use hybrid search combining vector and keyword",
            "default": True,
        },
    },
    ("query",),
)
SEARCH_ANSWER = _object(
    {
        "query": _text("The original query"),
        "total_results": _number("Number of results returned"),
        "results": {
            "type": "array",
            "items": _object(
                {
                    "rank": _number("Result rank (1-indexed)"),
                    "score": {"type": "number", "description": "Relevance score (higher is better)"},
                    "source": _text("Document ID"),
                    "uri": _STRING,
                    "title": _STRING,
                    "collection": _text("Collection name"),
                    "origin": _STRING,
                    "flagged": _STRING,
                    "content": _text("Chunk content"),
                    "metadata": _object(
                        {
                            "lines": _text("Line range in source file"),
                            "page": _text("Page, of a file without lines"),
                            "tokens": _number("Token count"),
                            "chunk_index": _number("Position in document"),
                            "indexed_at": _STRING,
                            "stale": {"type": "boolean", "description": "The file changed since"},
                        }
                    ),
                }
            ),
        },
        "notices": NOTICES,
    }
)
INGEST = _object(
    {
        "uri": _text("URI of the document. Supports: file://, https://, data: (for raw content)"),
        "collection": _text("Target collection name"),
        "content_type": {
            "type": "string",
            "description": "Content type override. Auto-detected if omitted.",
            "enum": list(CONTENT_TYPES),
        },
        "metadata": {"type": "object", "description": "Optional metadata to attach to the document"},
    },
    ("uri", "collection"),
)
INGEST_ANSWER = _object(
    {
        "success": {"type": "boolean"},
        "doc_id": _text("Generated document ID"),
        "collection": _STRING,
        "source_uri": _STRING,
        "content_type": _STRING,
        "chunks_created": {"type": "integer"},
        "notices": NOTICES,
    }
)
DELETE = _object({"doc_id": _text("The document ID to delete (ULID format)")}, ("doc_id",))
DELETE_ANSWER = _object(
    {
        "success": {"type": "boolean"},
        "deleted_doc_id": _STRING,
        "source_uri": _STRING,
        "collection": _STRING,
    }
)
COLLECTIONS_ANSWER = _object(
    {
        "collections": {
            "type": "array",
            "items": _object(
                {
                    "name": _STRING,
                    "description": _STRING,
                    "created_at": _number("Unix timestamp (milliseconds)"),
                }
            ),
        },
        "total": {"type": "integer"},
        "notices": NOTICES,
    }
)
LIST = _object(
    {
        "collection": _text("Collection name"),
        "limit": {**_number("Maximum documents to return"), "default": 100, "maximum": 1000},
        "offset": {**_number("Pagination offset"), "default": 0},
    },
    ("collection",),
)
DOCUMENTS_ANSWER = _object(
    {
        "collection": _STRING,
        "documents": {
            "type": "array",
            "items": _object(
                {
                    "id": _STRING,
                    "source_uri": _STRING,
                    "content_type": _STRING,
                    "created_at": _number(),
                    "updated_at": _number(),
                }
            ),
        },
        "count": _number(),
        "offset": _number(),
        "limit": _number(),
        "total": _number(),
        "notices": NOTICES,
    }
)
CREATE = _object(
    {
        "name": {**_text("Collection name (alphanumeric, hyphens, underscores)"), "pattern": _NAME},
        "description": _text("Optional description"),
    },
    ("name",),
)
CREATE_ANSWER = _object({"success": {"type": "boolean"}, "name": _STRING, "description": _STRING})
STATS = _object({"collection": _text("Optional collection to filter stats")})
STATS_ANSWER = _object(
    {
        "collections": _number("Total number of collections"),
        "documents": _number("Total documents (or in specified collection)"),
        "chunks": _number("Total chunks"),
        "embeddings": _number("Total embeddings"),
        "storage_bytes": _number("Database size in bytes"),
        "filter": _text("Collection filter applied (if any)"),
    }
)
