"""Jupyter notebooks: their cells as one markdown text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from refdesk.errors import ParseFailed
from refdesk.model import Chunking, Parsed
from refdesk.parse.manifest import NO_RULES, Governing

_MAX_OUTPUT_LINES = 20
_MAX_OUTPUT_CHARS = 2_000


class NotebookParser:
    """Reads a notebook through its markdown, whose lines are not those of the file."""

    def __init__(self, rules: Governing = NO_RULES) -> None:
        self._rules = rules

    def parse(self, text: str, path: str, chunking: Chunking) -> Parsed:
        """Prose, code and the beginnings of textual output, in the order of the cells."""
        from refdesk.parse.markdown import MarkdownParser

        parsed = MarkdownParser(self._rules).parse(to_markdown(text), path, chunking)
        chunks = tuple(replace(chunk, start_line=0, end_line=0) for chunk in parsed.chunks)
        return replace(parsed, content_type="notebook", chunks=chunks)


def to_markdown(text: str) -> str:
    """The cells as markdown; ParseFailed where the text is no notebook."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseFailed(f"not a notebook: {error}") from error
    cells = _cells(given)
    language = _language(given.get("metadata") if isinstance(given, dict) else None)
    blocks = [block for cell in cells if isinstance(cell, dict) for block in _blocks(cell, language)]
    if not blocks:
        raise ParseFailed("nothing to read: the notebook has no filled cells")
    return "\n\n".join(blocks) + "\n"


def _cells(given: Any) -> list[Any]:
    if isinstance(given, dict):
        if isinstance(given.get("cells"), list):
            return list(given["cells"])
        sheets = given.get("worksheets")  # notebooks before format 4
        if isinstance(sheets, list):
            return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or []]
    raise ParseFailed("not a notebook: it has no cells")


def _language(metadata: Any) -> str:
    if isinstance(metadata, dict):
        for part, key in (("language_info", "name"), ("kernelspec", "language")):
            found = metadata.get(part)
            if isinstance(found, dict) and isinstance(found.get(key), str):
                return str(found[key]).lower()
    return "python"


def _blocks(cell: Mapping[str, Any], language: str) -> list[str]:
    source = _text(cell.get("source", cell.get("input"))).strip("\n")
    if not source.strip():
        return []
    if cell.get("cell_type") != "code":
        return [f"{'#' * min(6, int(cell['level']))} {source}" if _is_heading(cell) else source]
    outputs = [text for output in cell.get("outputs") or [] if isinstance(output, dict) for text in _output(output)]
    return [_fence(source, language), *(_fence(text, "text") for text in outputs)]


def _is_heading(cell: Mapping[str, Any]) -> bool:
    return cell.get("cell_type") == "heading" and isinstance(cell.get("level"), int) and cell["level"] > 0


def _output(output: Mapping[str, Any]) -> list[str]:
    """What an output says in words; pictures and markup are left out."""
    data = output.get("data")
    given = output.get("text") or (data.get("text/plain") if isinstance(data, dict) else None)
    if output.get("output_type") in ("error", "pyerr"):
        given = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    text = _text(given).strip("\n")[:_MAX_OUTPUT_CHARS]
    lines = text.split("\n")
    if len(lines) > _MAX_OUTPUT_LINES:
        lines = [*lines[:_MAX_OUTPUT_LINES], "…"]
    return ["\n".join(lines)] if text.strip() else []


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str)).replace("\r\n", "\n")
    return value.replace("\r\n", "\n") if isinstance(value, str) else ""


def _fence(code: str, language: str) -> str:
    ticks = "```"
    while ticks in code:
        ticks += "`"
    return f"{ticks}{language}\n{code}\n{ticks}"
