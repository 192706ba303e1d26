"""What is inside a source file?  Chunks, symbols and references, read with its grammar."""

from __future__ import annotations

from pathlib import PurePosixPath

from tree_sitter import Tree

from refdesk.model import Chunking, Parsed, Symbol
from refdesk.parse.code.chunks import ChunkWriter
from refdesk.parse.code.cuts import Cuts
from refdesk.parse.code.definitions import Definition, definitions, finish, own_rows, rows_of
from refdesk.parse.code.languages import LANGUAGES, Language
from refdesk.parse.code.lines import Lines
from refdesk.parse.code.reading import Captures, read
from refdesk.parse.code.recovery import recover
from refdesk.parse.code.references import references
from refdesk.parse.code.segments import Segmenter


class CodeParser:
    """Reads source code; any text is chunked, whatever its syntax."""

    def parse(self, text: str, path: str, language: str, chunking: Chunking) -> Parsed:
        """The file's chunks, symbols and references."""
        row = LANGUAGES.get(language) or Language(language, language, (), "")
        lines = Lines(text)
        data = text.encode("utf-8", "replace")
        tree, found = read(data, row) if lines.count and text.strip() else (None, {})
        above = own_rows((*found.get("comment", ()), *found.get("lead", ())), lines)
        defined = definitions(found, data, lines, above)
        if found.get("error"):
            defined = recover(defined, found["error"], lines, data)
        finish(defined, data)
        imports = (*found.get("imports", ()), *found.get("import", ()))
        import_rows = {r for node in imports for r in range(*rows_of(node))}
        cuts = Cuts(tree.root_node if tree is not None else None, lines, above, chunking)
        segments = Segmenter(lines, cuts, import_rows, chunking).segment(defined)
        writer = ChunkWriter(path, row, lines, defined, import_rows, chunking)
        return Parsed(
            title=PurePosixPath(path).name or path,
            content_type=language,
            text=text,
            chunks=writer.write(segments),
            symbols=tuple(_symbol(d) for d in defined if d.kind != "test" and d.name),
            references=references(found, defined, data, row),
            notes=_notes(tree, found, text),
        )


def _symbol(d: Definition) -> Symbol:
    return Symbol(
        name=d.name,
        qualified=d.qualified,
        kind=d.kind,
        start_line=d.start + 1,
        end_line=d.end,
        signature=d.signature,
    )


def _notes(tree: Tree | None, found: Captures, text: str) -> tuple[str, ...]:
    if tree is None:
        return ("read without its syntax",) if text.strip() else ()
    if not tree.root_node.has_error:
        return ()
    count = max(len(found.get("error", ())), 1)
    return (f"{count} syntax error{'s' if count > 1 else ''}",)
