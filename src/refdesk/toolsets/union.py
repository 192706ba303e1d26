"""One search_docs for two contracts: an argument that only one of them has decides which one answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from refdesk.errors import InvalidInput, NotFound
from refdesk.toolsets.content import ArgumentProblem, Json, TextErrors, ToolAnswer
from refdesk.toolsets.contract import CallContext, Tool, Toolset

_NAME = "search_docs"
_CODE_ONLY = ("path", "path_filter", "format")


def united(docs: Toolset, code: Toolset, has_corpus: Callable[[], bool]) -> tuple[Toolset, Toolset]:
    """The docs toolset with the union of both search_docs tools, and the code toolset without its own.

    Without a docs corpus the codebase of the working directory is searched, if it is indexed.
    """
    of_code = next(tool for tool in code.tools if tool.name == _NAME)
    changed_docs = docs.poll or (lambda: ())

    def poll() -> Sequence[Tool]:
        return [_unite(tool, of_code, has_corpus) if tool.name == _NAME else tool for tool in changed_docs()]

    tools = tuple(_unite(tool, of_code, has_corpus) if tool.name == _NAME else tool for tool in docs.tools)
    rest = tuple(tool for tool in code.tools if tool.name != _NAME)
    return replace(docs, tools=tools, poll=poll), replace(code, tools=rest)


def _unite(docs: Tool, code: Tool, has_corpus: Callable[[], bool]) -> Tool:
    def handler(arguments: Json, context: CallContext) -> ToolAnswer:
        named = [name for name in _CODE_ONLY if name in arguments]
        if not named and (has_corpus() or any(key not in of_code for key in arguments)):
            return docs.handler(arguments, context)
        if not named:
            try:
                return code.handler(arguments, context)
            except NotFound:  # of an index of this folder
                return docs.handler(arguments, context)
        if foreign := [key for key in arguments if key not in of_code]:
            raise InvalidInput(
                f"Argument '{foreign[0]}' does not go with '{named[0]}'.",
                f"With {named[0]} the documentation in a codebase is searched, by {', '.join(of_code)}.",
            )
        return code.handler(arguments, context)

    def words(problem: ArgumentProblem) -> str | None:
        chosen = code if any(name in problem.arguments for name in _CODE_ONLY) else docs
        own = chosen.error_style.words if isinstance(chosen.error_style, TextErrors) else None
        return own(problem) if own else None

    of_docs, of_code = docs.input_schema["properties"], code.input_schema["properties"]
    only_code = {key: _plain(of_code[key]) for key in _CODE_ONLY}
    return replace(
        docs,
        description=f"{docs.description} With path or format: docs in a codebase.",
        input_schema={**docs.input_schema, "properties": {**of_docs, **only_code}},
        output_schema=_either(docs.output_schema or {}, code.output_schema or {}),
        handler=handler,
        error_style=TextErrors(words=words),
        fill_defaults=False,
    )


def _plain(schema: Json) -> Json:
    """The schema without its default (a default path would send every call to code) and without its description,
    which search_code has too.
    """
    return {key: value for key, value in schema.items() if key not in ("default", "description")}


def _either(one: Json, other: Json) -> Json:
    """An object schema with the properties of both, none required; a shared property may have either type."""
    shared = {
        key: {**other["properties"][key], **schema, "type": [*_types(schema), *_types(other["properties"][key])]}
        for key, schema in one["properties"].items()
        if key in other["properties"] and schema != other["properties"][key]
    }
    results = {"results": {"type": "array"}}  # search_code's schema says what is in them
    return {"type": "object", "properties": {**one["properties"], **other["properties"], **shared, **results}}


def _types(schema: Json) -> list[str]:
    kind = schema["type"]
    return list(kind) if isinstance(kind, list) else [kind]
