"""The docs contract's schemas, word for word."""

from __future__ import annotations

from refdesk.toolsets.content import STRING, STRINGS, Json, object_schema

SEARCH = object_schema(
    {
        "query": {"type": "string", "description": "The search query (e.g., 'how to paginate', 'RateLimitError')."},
        "limit": {
            "type": "integer",
            "description": "Maximum number of results to return. Default is 10.",
            "minimum": 1,
            "maximum": 50,
            "default": 10,
        },
        "cursor": {
            "type": "string",
            "description": "Opaque pagination token returned from a previous search. Omit for the first page."
            " Returns an error if invalid or malformed.",
        },
    },
    "query",
    additionalProperties=False,
)
GET_DOC = object_schema(
    {
        "chunk_id": {
            "type": "string",
            "description": "The exact ID of the chunk to retrieve, as returned by search_docs (e.g.,"
            " 'guides/retries.md#backoff-strategy').",
        },
        "context": {
            "type": "integer",
            "description": "Number of adjacent chunks to include before and after the target chunk. Default is 0. Use"
            " this to read the surrounding file context.",
            "minimum": 0,
            "maximum": 5,
            "default": 0,
        },
    },
    "chunk_id",
    additionalProperties=False,
)
_TEXTS_OF_A_HIT = ("chunk_id", "heading", "breadcrumb", "snippet", "filepath")
_HIT: Json = {
    **dict.fromkeys(_TEXTS_OF_A_HIT, STRING),
    "score": {"type": "number"},
    "metadata": {"type": "object", "additionalProperties": STRING},
}
_HINT: Json = {"message": STRING, "suggested_filters": {"type": "object", "additionalProperties": STRINGS}}
_ANSWER: Json = {
    "hits": {"type": "array", "items": object_schema(_HIT, *_HIT)},
    "next_cursor": {"type": ["string", "null"]},
    "hint": {**object_schema(_HINT, *_HINT), "type": ["object", "null"]},
}
SEARCH_ANSWER = object_schema(_ANSWER, *_ANSWER)
