"""Is this answer what the schema asks for?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

from refdesk.llm.attempts import Failed

_FENCED = re.compile(r"```(?:json)?[^\S\n]*+\n(.*?)\n[^\S\n]*+```", re.S)


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """The text, or the object in it that satisfies the schema; Failed, to be tried again, when it does not."""
    if schema is None:
        return text.strip()
    try:
        value = json.loads(_json_in(text))
    except ValueError as error:
        raise Failed(f"the answer is not valid JSON ({error})", again=True) from None
    problem = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the answer"
        raise Failed(f"the answer does not fit its schema ({where}: {problem.message[:200]})", again=True)
    return value


def described(schema: Mapping[str, Any]) -> str:
    """The request for an object of that schema, for a model that takes no schema."""
    wanted = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must satisfy this JSON schema:\n{wanted}"


def _json_in(text: str) -> str:
    """The JSON of an answer that may stand in a fence or among words."""
    if fenced := _FENCED.search(text):
        return fenced[1]
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
