"""Validates a tool's arguments against its schema, with messages that tell an agent what to change."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

from jsonschema import Draft202012Validator

from refdesk.text import word_table
from refdesk.toolsets.content import ArgumentProblem, Json, ToolAnswer
from refdesk.toolsets.content import ProblemKind as Kind
from refdesk.toolsets.contract import Tool

_KINDS = word_table(
    "missing: required dependentRequired;  unknown: additionalProperties;  type: type;  enum: enum const;"
    "  range: minimum maximum exclusiveMinimum exclusiveMaximum;  length: minLength maxLength minItems maxItems;"
    "  pattern: pattern"
)
_ORDER: tuple[Kind, ...] = ("unknown", "missing", "type", "enum", "range", "length", "pattern", "other")
_ARTICLES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}


class Arguments:
    """One tool's schema, compiled."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._schema = tool.input_schema
        self._properties: dict[str, Json] = self._schema.get("properties", {})
        self._validator = Draft202012Validator(self._schema)

    def prepare(self, arguments: Mapping[str, Any]) -> Json:
        """The arguments with defaults filled in; call `problem` on the result.

        A null for an optional argument counts as missing, since many clients send every property.
        """
        required = self._schema.get("required", ())
        prepared: Json = {}
        for name, value in arguments.items():
            schema = self._properties.get(name, {})
            if value is None and schema and name not in required and "null" not in schema.get("type", "null"):
                continue
            # JSON Schema says that an integral float is an integer.
            integral = schema.get("type") == "integer" and isinstance(value, float) and value.is_integer()
            prepared[name] = int(value) if integral else value
        if self._tool.fill_defaults:
            for name, schema in self._properties.items():
                if "default" in schema and name not in prepared:
                    prepared[name] = schema["default"]
        return prepared

    def problem(self, arguments: Json) -> ArgumentProblem | None:
        """The most important problem with the arguments, or None."""
        found = [*self._unknown(arguments), *map(self._describe, self._validator.iter_errors(arguments))]
        if not found:
            return None
        kind, argument, message = min(found, key=lambda each: _ORDER.index(each[0]))
        return ArgumentProblem(tool=self._tool.name, kind=kind, argument=argument, message=message, arguments=arguments)

    def checked(self, answer: ToolAnswer) -> ToolAnswer:
        """Returns the answer if it matches the tool's output schema, raises otherwise; only tests turn this on."""
        if self._tool.output_schema is not None and not answer.is_error:
            Draft202012Validator(self._tool.output_schema).validate(answer.structured)
        return answer

    def _unknown(self, arguments: Json) -> list[tuple[Kind, str, str]]:
        # Refused even if the schema allows it by default: ignoring a misspelt filter would mislead the agent.
        if self._schema.get("additionalProperties") not in (None, False) or "patternProperties" in self._schema:
            return []
        return [
            ("unknown", name, _unknown_words(name, self._properties))
            for name in arguments
            if name not in self._properties
        ]

    def _describe(self, error: Any) -> tuple[Kind, str, str]:
        parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in error.absolute_path)
        path = "".join(parts).removeprefix(".")
        kind = cast(Kind, _KINDS.get(str(error.validator), "other"))
        if kind == "missing":
            lacking = [name for name in error.validator_value if name not in error.instance]
            name = ".".join(filter(None, [path, str(lacking[0] if lacking else "")]))
            return kind, name, f"Missing required argument: {name}"
        if kind == "unknown":
            known = error.schema.get("properties", {})
            strange = next((name for name in error.instance if name not in known), "")
            return kind, ".".join(filter(None, [path, strange])), _unknown_words(strange, known)
        given = json.dumps(error.instance, ensure_ascii=False, default=str)
        return kind, path, f"Argument '{path}' {_must(error)}; got {given if len(given) <= 60 else given[:59] + '…'}."


def _unknown_words(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    allowed = f" Allowed arguments: {', '.join(known)}." if known else " It takes no arguments."
    return f"Unknown argument '{name}'.{hint}{allowed}"


def _must(error: Any) -> str:
    """What the value must be, in words."""
    schema, wanted = error.schema, error.validator_value
    match error.validator:
        case "type":
            types = [wanted] if isinstance(wanted, str) else list(wanted)
            return "must be " + " or ".join(_ARTICLES.get(each, each) for each in types)
        case "enum":
            return "must be one of: " + ", ".join(
                each if isinstance(each, str) else json.dumps(each) for each in wanted
            )
        case "const":
            return f"must be {json.dumps(wanted)}"
        case "minimum" | "maximum":
            bounds = [
                f"{words} {schema[key]}"
                for key, words in (("minimum", "at least"), ("maximum", "at most"))
                if key in schema
            ]
            return "must be " + " and ".join(bounds)
        case "exclusiveMinimum":
            return f"must be more than {wanted}"
        case "exclusiveMaximum":
            return f"must be less than {wanted}"
        case "minLength" | "minItems":
            return f"must have at least {wanted} {'items' if error.validator == 'minItems' else 'characters'}"
        case "maxLength" | "maxItems":
            return f"must have at most {wanted} {'items' if error.validator == 'maxItems' else 'characters'}"
        case "pattern":
            return f"must match the pattern {wanted}"
    return f"does not fit its schema ({error.message})"
