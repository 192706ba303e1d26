"""The rag contract's schemas, word for word."""

from __future__ import annotations

from refdesk.toolsets.content import STRING, STRINGS, Json, object_schema

CONTENT_TYPES = (
    "rust", "python", "typescript", "javascript", "go", "java", "cpp", "markdown", "html", "json", "yaml", "plain_text",
)  # fmt: skip
_NAME = "^[a-zA-Z0-9_-]+$"


def _text(description: str) -> Json:
    return {"type": "string", "description": description}


def _number(description: str) -> Json:
    return {"type": "integer", "description": description}


_BOOLEAN: Json = {"type": "boolean"}
_INTEGER: Json = {"type": "integer"}
SEARCH = object_schema(
    {
        "query": _text("The search query"),
        "collection": _text("Optional collection to search within. If omitted, searches all collections."),
        "top_k": {**_number("Number of results to return"), "default": 10, "minimum": 1, "maximum": 100},
        "hybrid": {"type": "boolean", "description": "Use hybrid search combining vector and keyword", "default": True},
    },
    "query",
)
SEARCH_ANSWER = object_schema(
    {
        "query": _text("The original query"),
        "total_results": _number("Number of results returned"),
        "results": {
            "type": "array",
            "items": object_schema(
                {
                    "rank": _number("Result rank (1-indexed)"),
                    "score": {"type": "number", "description": "Relevance score (higher is better)"},
                    "source": _text("Document ID"),
                    "uri": STRING,
                    "title": STRING,
                    "collection": _text("Collection name"),
                    "origin": STRING,
                    "flagged": STRING,
                    "content": _text("Chunk content"),
                    "metadata": object_schema(
                        {
                            "lines": _text("Line range in source file"),
                            "page": _text("Page, of a file without lines"),
                            "tokens": _number("Token count"),
                            "chunk_index": _number("Position in document"),
                            "indexed_at": STRING,
                            "stale": {"type": "boolean", "description": "The file changed since"},
                        }
                    ),
                }
            ),
        },
        "notices": STRINGS,
    }
)
INGEST = object_schema(
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
    "uri",
    "collection",
)
INGEST_ANSWER = object_schema(
    {
        "success": _BOOLEAN,
        "doc_id": _text("Generated document ID"),
        "collection": STRING,
        "source_uri": STRING,
        "content_type": STRING,
        "chunks_created": _INTEGER,
        "notices": STRINGS,
    }
)
DELETE = object_schema({"doc_id": _text("The document ID to delete (ULID format)")}, "doc_id")
DELETE_ANSWER = object_schema(
    {
        "success": _BOOLEAN,
        "deleted_doc_id": STRING,
        "source_uri": STRING,
        "collection": STRING,
    }
)
COLLECTIONS_ANSWER = object_schema(
    {
        "collections": {
            "type": "array",
            "items": object_schema(
                {
                    "name": STRING,
                    "description": STRING,
                    "created_at": _number("Unix timestamp (milliseconds)"),
                }
            ),
        },
        "total": _INTEGER,
        "notices": STRINGS,
    }
)
LIST = object_schema(
    {
        "collection": _text("Collection name"),
        "limit": {**_number("Maximum documents to return"), "default": 100, "maximum": 1000},
        "offset": {**_number("Pagination offset"), "default": 0},
    },
    "collection",
)
DOCUMENTS_ANSWER = object_schema(
    {
        "collection": STRING,
        "documents": {
            "type": "array",
            "items": object_schema(
                {
                    "id": STRING,
                    "source_uri": STRING,
                    "content_type": STRING,
                    "created_at": _INTEGER,
                    "updated_at": _INTEGER,
                }
            ),
        },
        "count": _INTEGER,
        "offset": _INTEGER,
        "limit": _INTEGER,
        "total": _INTEGER,
        "notices": STRINGS,
    }
)
CREATE = object_schema(
    {
        "name": {**_text("Collection name (alphanumeric, hyphens, underscores)"), "pattern": _NAME},
        "description": _text("Optional description"),
    },
    "name",
)
CREATE_ANSWER = object_schema({"success": _BOOLEAN, "name": STRING, "description": STRING})
STATS = object_schema({"collection": _text("Optional collection to filter stats")})
STATS_ANSWER = object_schema(
    {
        "collections": _number("Total number of collections"),
        "documents": _number("Total documents (or in specified collection)"),
        "chunks": _number("Total chunks"),
        "embeddings": _number("Total embeddings"),
        "storage_bytes": _number("Database size in bytes"),
        "filter": _text("Collection filter applied (if any)"),
    }
)
BY_TOOL = {  # the input and the answer
    "rag_search": (SEARCH, SEARCH_ANSWER),
    "rag_ingest": (INGEST, INGEST_ANSWER),
    "rag_delete": (DELETE, DELETE_ANSWER),
    "rag_list_collections": (object_schema({}), COLLECTIONS_ANSWER),
    "rag_list_documents": (LIST, DOCUMENTS_ANSWER),
    "rag_create_collection": (CREATE, CREATE_ANSWER),
    "rag_stats": (STATS, STATS_ANSWER),
}
