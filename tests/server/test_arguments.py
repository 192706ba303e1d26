"""What does an agent read when its arguments don't fit?"""

from __future__ import annotations

from typing import Any

import pytest

from refdesk.server.validate import Arguments
from refdesk.toolsets.content import ArgumentProblem, TextErrors, ToolAnswer
from refdesk.toolsets.contract import Tool, ToolHints


def tool(schema: dict[str, Any], **more: Any) -> Tool:
    return Tool(
        name="t",
        title="T",
        description="",
        input_schema=schema,
        handler=lambda arguments, ctx: ToolAnswer.of_text(""),
        hints=ToolHints(read_only=True),
        error_style=TextErrors(),
        **more,
    )


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": 20},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10},
        "alpha": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "language": {"type": "string", "enum": ["go", "java"]},
        "hybrid": {"type": "boolean"},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "filters": {
            "type": "object",
            "properties": {"type": {"type": "string"}, "kind": {"const": "x"}},
            "required": ["type"],
            "additionalProperties": False,
        },
        "either": {"type": ["string", "null"]},
        "one": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
    },
    "required": ["query"],
}


def problem(**given: Any) -> ArgumentProblem | None:
    arguments = Arguments(tool(SCHEMA))
    return arguments.problem(arguments.prepare(given))


@pytest.mark.parametrize(
    ("given", "kind", "argument", "message"),
    [
        ({}, "missing", "query", "Missing required argument: query"),
        (
            {"qery": "x"},
            "unknown",
            "qery",
            "Unknown argument 'qery'. Did you mean 'query'? Allowed arguments: query, limit, alpha, language, hybrid, "
            "name, tags, filters, either, one.",
        ),
        ({"query": 7}, "type", "query", "Argument 'query' must be a string; got 7."),
        ({"query": None}, "type", "query", "Argument 'query' must be a string; got null."),
        ({"query": ""}, "length", "query", "Argument 'query' must have at least 1 characters; got \"\"."),
        (
            {"query": "y" * 90},
            "length",
            "query",
            f"Argument 'query' must have at most 20 characters; got \"{'y' * 58}….",
        ),
        ({"limit": 0}, "range", "limit", "Argument 'limit' must be at least 1 and at most 50; got 0."),
        ({"limit": 51}, "range", "limit", "Argument 'limit' must be at least 1 and at most 50; got 51."),
        ({"limit": "ten"}, "type", "limit", "Argument 'limit' must be an integer; got \"ten\"."),
        ({"limit": 1.5}, "type", "limit", "Argument 'limit' must be an integer; got 1.5."),
        ({"limit": True}, "type", "limit", "Argument 'limit' must be an integer; got true."),
        ({"alpha": 0}, "range", "alpha", "Argument 'alpha' must be more than 0; got 0."),
        ({"alpha": 1}, "range", "alpha", "Argument 'alpha' must be less than 1; got 1."),
        ({"language": "rust"}, "enum", "language", "Argument 'language' must be one of: go, java; got \"rust\"."),
        ({"hybrid": "yes"}, "type", "hybrid", "Argument 'hybrid' must be true or false; got \"yes\"."),
        ({"name": "A b"}, "pattern", "name", "Argument 'name' must match the pattern ^[a-z]+$; got \"A b\"."),
        ({"tags": ["a", 1]}, "type", "tags[1]", "Argument 'tags[1]' must be a string; got 1."),
        ({"tags": []}, "length", "tags", "Argument 'tags' must have at least 1 items; got []."),
        (
            {"tags": ["a", "b", "c"]},
            "length",
            "tags",
            'Argument \'tags\' must have at most 2 items; got ["a", "b", "c"].',
        ),
        ({"filters": {}}, "missing", "filters.type", "Missing required argument: filters.type"),
        (
            {"filters": {"type": "a", "tipe": "b"}},
            "unknown",
            "filters.tipe",
            "Unknown argument 'tipe'. Did you mean 'type'? Allowed arguments: type, kind.",
        ),
        (
            {"filters": {"type": "a", "kind": "y"}},
            "enum",
            "filters.kind",
            'Argument \'filters.kind\' must be "x"; got "y".',
        ),
        ({"either": 3}, "type", "either", "Argument 'either' must be a string or null; got 3."),
    ],
)
def test_the_problem_is_named_and_how_to_mend_it(given: dict[str, Any], kind: str, argument: str, message: str) -> None:
    found = problem(**({"query": "q"} if kind != "missing" or "filters" in given else {}) | given)
    assert found is not None
    assert (found.kind, found.argument, found.message) == (kind, argument, message)
    assert found.tool == "t"


def test_what_no_words_are_made_for_is_still_said() -> None:
    found = problem(query="q", one=1.5)
    assert found is not None
    assert found.kind == "other"
    assert "Argument 'one' does not fit its schema" in found.message


def test_good_arguments_have_no_problem_and_get_defaults() -> None:
    arguments = Arguments(tool(SCHEMA))
    prepared = arguments.prepare({"query": "q", "limit": 5.0, "either": None, "language": None})
    assert arguments.problem(prepared) is None
    assert prepared == {"query": "q", "limit": 5, "either": None}
    assert arguments.prepare({"query": "q"}) == {"query": "q", "limit": 10}


def test_a_tool_that_wants_to_know_what_was_given_gets_no_defaults() -> None:
    assert Arguments(tool(SCHEMA, fill_defaults=False)).prepare({"query": "q"}) == {"query": "q"}


def test_unknown_arguments_are_refused_even_where_the_schema_is_silent() -> None:
    silent = Arguments(tool({"type": "object", "properties": {}}))
    found = silent.problem(silent.prepare({"x": 1}))
    assert found is not None
    assert found.message == "Unknown argument 'x'. It takes no arguments."
    open_schema = Arguments(tool({"type": "object", "additionalProperties": True}))
    assert open_schema.problem(open_schema.prepare({"x": 1})) is None


def test_outputs_are_checked_where_tests_ask_for_it() -> None:
    strict = Arguments(tool(SCHEMA, output_schema={"type": "object", "required": ["a"]}))
    assert strict.checked(ToolAnswer.of_json({"a": 1})).structured == {"a": 1}
    with pytest.raises(Exception, match="required property"):
        strict.checked(ToolAnswer.of_json({"b": 1}))
