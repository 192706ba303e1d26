"""What does one file know?  Its symbols, imports and text, read once."""

from __future__ import annotations

import re
from functools import cached_property

from refdesk.graph import golang
from refdesk.graph.languages import CALLABLES, PACKAGED, TYPES
from refdesk.model import Document, Reference, Symbol
from refdesk.ports import Store

_HEAD = 200  # lines in which a package is declared
_PACKAGE = re.compile(r"\s*package\s+([\w.`]+)")


class File:
    """One source file as name resolution sees it."""

    def __init__(self, store: Store, document: Document) -> None:
        self._store = store
        self.document = document

    @cached_property
    def symbols(self) -> list[Symbol]:
        return self._store.symbols_of(self.document.id)

    @cached_property
    def references(self) -> list[Reference]:
        return self._store.references_of(self.document.id)

    @cached_property
    def declared(self) -> list[Reference]:
        """What the file imports and what its types are declared to be: a small part of its references."""
        return self._store.references_of(self.document.id, ("imports", "inherits", "conforms"))

    @cached_property
    def by_qualified(self) -> dict[str, Symbol]:
        found: dict[str, Symbol] = {}
        for symbol in self.symbols:
            found.setdefault(symbol.qualified, symbol)
        return found

    @cached_property
    def imports(self) -> dict[str, list[tuple[str, str]]]:
        """Local name → the modules and names it may mean; "" as a name is the module itself."""
        found: dict[str, list[tuple[str, str]]] = {}
        for ref in self.declared:
            if ref.kind != "imports":
                continue
            if not self._is_whole_module(ref):
                found.setdefault(ref.alias or ref.target, []).append((ref.receiver, ref.target))
            elif self.document.content_type == "go":
                module = ref.receiver or ref.target
                found.setdefault(ref.alias or golang.bound_name(module), []).append((module, ""))
            elif ref.alias or self.document.content_type != "python":
                found.setdefault(ref.alias or ref.target, []).append((ref.receiver or ref.target, ""))
            else:  # `import a.b` binds a, and is used as a.b
                found.setdefault(ref.receiver.partition(".")[0], []).append((ref.receiver.partition(".")[0], ""))
        return found

    def _is_whole_module(self, ref: Reference) -> bool:
        if self.document.content_type == "go":
            return True
        if ref.receiver in ("", ref.target) or ref.receiver.endswith(f".{ref.target}"):
            return self.document.content_type != "python" or self.lines[ref.line - 1].lstrip().startswith("import")
        return False

    @cached_property
    def base_references(self) -> dict[str, list[Reference]]:
        """What each type of the file is declared to be, as it is named there."""
        found: dict[str, list[Reference]] = {}
        for ref in self.declared:
            if ref.kind != "imports":
                found.setdefault(ref.source, []).append(ref)
        return found

    @cached_property
    def package(self) -> str:
        """What sees each other without an import: the package that is declared, in any folder; else the folder."""
        if self.document.content_type in PACKAGED:
            for line in self.lines[:_HEAD]:
                if declared := _PACKAGE.match(line):
                    return declared[1]
        return self.document.path.rpartition("/")[0]

    @cached_property
    def starred(self) -> list[str]:
        return [ref.receiver or ref.target for ref in self.declared if ref.kind == "imports" and ref.target == "*"]

    @cached_property
    def lines(self) -> list[str]:
        return self._store.raw(self.document.id).split("\n")

    def text(self, start: int, end: int) -> str:
        return "\n".join(self.lines[start - 1 : end])

    def top_lines(self, name: str) -> str:
        """The lines that name something outside of any block: variables of the module."""
        return "\n".join(line for line in self.lines if line[:1].strip() and name in line)

    def functions_around(self, qualified: str) -> list[Symbol]:
        """The functions that a symbol is defined in, innermost first: their variables are seen in it."""
        parts = qualified.split(".")[:-1]
        around = [self.by_qualified.get(".".join(parts[:size])) for size in range(len(parts), 0, -1)]
        return [one for one in around if one is not None and one.kind in CALLABLES]

    def enclosing_type(self, qualified: str) -> str:
        """The qualified name of the innermost type around a symbol, or of the symbol if it is one; "" for none."""
        parts = qualified.split(".")
        for size in range(len(parts), 0, -1):
            name = ".".join(parts[:size])
            symbol = self.by_qualified.get(name)
            if symbol is not None and symbol.kind in TYPES:
                return name
            if symbol is None and size < len(parts):
                return name  # members of a type that is defined elsewhere: an extension, an impl
        return ""
