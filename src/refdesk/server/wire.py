"""How do our values look on MCP's wire?  Plain dicts in the wire's spelling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refdesk.toolsets.contract import (
    Annotations,
    Audio,
    Block,
    EmbeddedResource,
    Icon,
    Image,
    Json,
    Prompt,
    Resource,
    ResourceContents,
    ResourceLink,
    ResourceTemplate,
    Text,
    Tool,
    ToolAnswer,
)

RELATED_TASK = "io.modelcontextprotocol/related-task"


def _given(**fields: Any) -> Json:
    """The fields that say something."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


def clean(value: Any) -> Any:
    """The value with text that has no UTF-8 (half a surrogate pair, from a strange file name) made writable."""
    match value:
        case str():
            if value.isascii():
                return value
            try:
                value.encode()
            except UnicodeEncodeError:
                return value.encode("utf-8", "replace").decode()
            return value
        case dict():
            return {clean(key): clean(each) for key, each in value.items()}
        case list() | tuple():
            return [clean(each) for each in value]
    return value


def annotations_on_wire(annotations: Annotations | None) -> Json | None:
    if annotations is None:
        return None
    return _given(
        audience=list(annotations.audience),
        priority=annotations.priority,
        lastModified=annotations.last_modified,
    )


def icons_on_wire(icons: Iterable[Icon]) -> list[Json]:
    return [_given(src=icon.src, mimeType=icon.mime_type, sizes=list(icon.sizes), theme=icon.theme) for icon in icons]


def contents_on_wire(contents: ResourceContents) -> Json:
    return _given(uri=contents.uri, mimeType=contents.mime_type, text=clean(contents.text), blob=contents.blob)


def block_on_wire(block: Block, version: str) -> Json:
    """The block as this version's clients know it; one from before a kind existed reads a line about it instead."""
    notes = annotations_on_wire(block.annotations)
    match block:
        case Text():
            return _given(type="text", text=block.text, annotations=notes)
        case Image():
            return _given(type="image", data=block.data, mimeType=block.mime_type, annotations=notes)
        case Audio():
            if version < "2025-03-26":
                return _given(type="text", text=f"[{block.mime_type} audio, which this protocol version can't carry]")
            return _given(type="audio", data=block.data, mimeType=block.mime_type, annotations=notes)
        case ResourceLink():
            if version < "2025-06-18":
                return _given(type="text", text=f"[{block.name}]({block.uri})", annotations=notes)
            return _given(
                type="resource_link",
                uri=block.uri,
                name=block.name,
                title=block.title,
                description=block.description,
                mimeType=block.mime_type,
                size=block.size,
                annotations=notes,
                icons=icons_on_wire(block.icons),
            )
        case EmbeddedResource():
            return _given(type="resource", resource=contents_on_wire(block.contents), annotations=notes)


def answer_on_wire(answer: ToolAnswer, version: str) -> Json:
    result: Json = {"content": [block_on_wire(block, version) for block in answer.content]}
    if answer.structured is not None and version >= "2025-06-18":
        result["structuredContent"] = answer.structured
    result["isError"] = answer.is_error
    if answer.meta:
        result["_meta"] = dict(answer.meta)
    cleaned: Json = clean(result)
    return cleaned


def tool_on_wire(tool: Tool, version: str) -> Json:
    listed = _given(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        inputSchema=tool.input_schema,
        outputSchema=tool.output_schema,
        annotations={
            "title": tool.title,
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
        icons=icons_on_wire(tool.icons),
    )
    if version == "2025-11-25":
        listed["execution"] = {"taskSupport": tool.task_support}
    return listed


def resource_on_wire(resource: Resource) -> Json:
    return _given(
        uri=resource.uri,
        name=resource.name,
        title=resource.title,
        description=resource.description,
        mimeType=resource.mime_type,
        size=resource.size,
        annotations=annotations_on_wire(resource.annotations),
        icons=icons_on_wire(resource.icons),
    )


def template_on_wire(template: ResourceTemplate) -> Json:
    return _given(
        uriTemplate=template.uri_template,
        name=template.name,
        title=template.title,
        description=template.description,
        mimeType=template.mime_type,
        annotations=annotations_on_wire(template.annotations),
        icons=icons_on_wire(template.icons),
    )


def prompt_on_wire(prompt: Prompt) -> Json:
    return _given(
        name=prompt.name,
        title=prompt.title,
        description=prompt.description,
        arguments=[
            _given(name=each.name, description=each.description, required=each.required) for each in prompt.arguments
        ],
    )
