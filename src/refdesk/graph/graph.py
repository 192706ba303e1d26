"""The graph of one codebase; symbols and references are loaded when they are needed."""

from __future__ import annotations

import re
from dataclasses import replace

from refdesk.errors import NotFound
from refdesk.graph.languages import CALLABLES, EXTENSIONS, IMPORTING, TYPES, GoPackages, family, is_test
from refdesk.graph.nodes import FAIR, SURE, Edge, File, Node, Resolved, file_node, symbol_node
from refdesk.graph.relations import by_method_set, expected_by, without_actuals
from refdesk.graph.resolve import Resolver
from refdesk.model import Document, Reference, RelationKind, Symbol
from refdesk.ports import Store

ALL = 1_000_000
_TRIED = 5  # uses of a name that are looked at for each one that is wanted
_ENTRIES = frozenset(["main", "index", "lib", "__main__", "__init__", "app", "cli", "mod", "server"])
_MOST_FILES = 20_000  # that are listed to find folders and entry files
_GENERATIONS = 6  # of supertypes
_NO_KIN = frozenset(["object", "Protocol", "ABC", "Generic", "Exception", "Object", "NSObject"])
_SUBTYPING: tuple[RelationKind, ...] = ("inherits", "conforms")


class Graph:
    """Definitions, calls, references, imports, inheritance and containment of one collection."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection
        self._files: dict[str, File] = {}
        self._symbols: dict[str, list[tuple[Document, Symbol]]] = {}
        self._references: dict[tuple[str, tuple[RelationKind, ...]], list[tuple[Document, Reference]]] = {}
        self._supers: dict[str, set[str]] = {}
        self._lines: dict[str, set[str]] = {}
        known = store.collection(collection)
        root = known.root.rstrip("/").rpartition("/")[2] if known else ""
        self._resolver = Resolver(self, root)

    # --- looking up --------------------------------------------------------------------------------

    def find(self, name: str) -> list[Node]:
        """The definitions a name means: `run`, `Foo.run`, `Foo::run` or `App\\Foo`; types, then members, then the rest.

        Of a name with its modules, `app.foo.run`, those in files that are called so.
        """
        wanted = parted(name)
        last = wanted.rpartition(".")[2]
        every = [symbol_node(*one) for one in without_actuals(self.named(last), self.file)]
        found = [one for one in every if wanted == last or f".{one.qualified}".endswith(f".{wanted}")]
        found = found or _in_modules(every, wanted.split("."), self._resolver.packages)
        whole = {node.qualified for node in found if node.kind not in EXTENSIONS}
        found = [node for node in found if node.kind not in EXTENSIONS or node.qualified not in whole]
        rank = dict.fromkeys(TYPES, 0) | dict.fromkeys(CALLABLES, 1) | {"extension": 2, "impl": 2}
        return sorted(found, key=lambda node: (is_test(node.path), rank.get(node.kind, 3), node.path, node.start_line))

    def outside(self, name: str) -> Node | None:
        """What a name means that the codebase uses and does not define: something of a library, of the language."""
        node = Node("", parted(name), "external", 0, 0)
        return node if self._into(node, ("calls", "references", *_SUBTYPING), 1) else None

    def documents(self) -> list[Document]:
        return self._store.documents(self._collection, _MOST_FILES, 0)

    def entry_files(self) -> list[Node]:
        """Entry files, such as main and index files, outermost first."""
        named = [one for one in self.documents() if one.path.rpartition("/")[2].partition(".")[0] in _ENTRIES]
        code = [one for one in named if not is_test(one.path) and self.file(one).references]
        return [file_node(one) for one in sorted(code, key=lambda one: (one.path.count("/"), one.path))]

    def file(self, document: Document) -> File:
        if document.id not in self._files:
            self._files[document.id] = File(self._store, document)
        return self._files[document.id]

    def named(self, name: str) -> list[tuple[Document, Symbol]]:
        if name not in self._symbols:
            self._symbols[name] = self._store.symbols_named(name, self._collection)
        return self._symbols[name]

    def text_at(self, path: str) -> str | None:
        found = self._store.document_by_path(self._collection, path)
        return self._store.raw(found.id) if found else None

    def _used(self, name: str, kinds: tuple[RelationKind, ...]) -> list[tuple[Document, Reference]]:
        if (name, kinds) not in self._references:
            self._references[name, kinds] = self._store.references_to(name, self._collection, kinds)
        return self._references[name, kinds]

    def imported(self, name: str) -> list[tuple[Document, Reference]]:
        return self._used(name, ("imports",))

    # --- edges into a symbol -------------------------------------------------------------------------
    # `most` limits how many are wanted: of a frequent name, no more uses are resolved than are shown.

    def callers(self, node: Node, most: int = ALL) -> list[Edge]:
        """The callers of the symbol; of a type, those that create one."""
        if node.kind in TYPES and node.language == "c":  # a function beside it may have its name
            return []
        found = self._into(node, ("calls",), most)
        if node.kind in TYPES and node.language in ("rust", "ruby"):  # X::new() calls a member
            made = [one for one in self.members(node) if one.name == "new"]
            found += [replace(edge, target=node) for one in made for edge in self._into(one, ("calls",), most)]
        return found

    def users(self, node: Node, most: int = ALL) -> list[Edge]:
        """The places that mention the symbol without calling it."""
        return self._into(node, ("references",), most)

    def subtypes(self, node: Node, most: int = ALL) -> list[Edge]:
        """Types that inherit from, conform to or embed the type, by declaration, extension or method set."""
        if node.kind not in TYPES and node.path:
            return []
        found = [*self._into(node, _SUBTYPING, most), *by_method_set(self, node)]
        return sorted(found, key=lambda edge: is_test(edge.source.path))

    def importers(self, node: Node) -> list[Edge]:
        """Files that import the symbol, or the file by name."""
        return self._into(node, ("imports",), ALL)

    def _into(self, node: Node, kinds: tuple[RelationKind, ...], most: int) -> list[Edge]:
        """The edges into a symbol, by file, those from tests last."""
        found: dict[tuple[str, str, int], Edge] = {}
        sources: set[str] = set()
        called = expected_by(self, node)
        before = node.qualified.rpartition(".")[0].rpartition(".")[2]
        for document, ref in self._seen_from(node, kinds, most):
            # A use of an outside name counts if it is written as it was asked: os.path.join, join behind a path.
            if not node.path and (not before or before in re.findall(r"\w+", ref.receiver)[-1:]):
                edge = Edge(self.owner(document, ref), node, _kind(document, ref), ref.line, FAIR)
                found.setdefault((edge.source.id, ref.kind, ref.line), edge)
                sources.add(edge.source.id)
            for one in self.meant(document, ref) if node.path else ():
                name = one.symbol.qualified
                # Where a type is called, its initialiser is meant.
                is_made = one.symbol.kind in TYPES and f"{name}.{called.name}" == called.qualified
                is_same = one.document.id == called.document_id and (name == called.qualified or is_made)
                if one.confidence >= SURE and is_same:
                    edge = Edge(self.owner(document, ref), node, _kind(document, ref), ref.line, one.confidence)
                    if edge.source.id != node.id or ref.kind == "calls":
                        found.setdefault((edge.source.id, ref.kind, ref.line), edge)
                        sources.add(edge.source.id)
            if len(sources) > most:
                break
        return sorted(found.values(), key=lambda edge: (is_test(edge.source.path), edge.source.path, edge.line))

    def _seen_from(self, node: Node, kinds: tuple[RelationKind, ...], most: int) -> list[tuple[Document, Reference]]:
        """The uses of the symbol's name or aliases that can mean it; those in its own folder first, in tests last."""
        names = [node.name, *sorted({ref.alias for _, ref in self.imported(node.name)} - {"", node.name})]
        if node.kind in ("constructor", "initializer") or node.name in ("__init__", "init", "constructor"):
            names.append(node.qualified.rpartition(".")[0].rpartition(".")[2])
        kin = family(node.language)
        every = [use for name in names for use in self._used(name, kinds)]
        uses = [use for use in every if use[0].content_type in kin or not node.path]
        if node.language in IMPORTING and "." not in node.qualified and kinds != ("imports",):
            bound = {document.id for document, _ in (*self.imported(node.name), *self.imported("*"))}
            bound |= {document.id for document, ref in self.imported("default") if ref.alias == node.name}
            bound.add(node.document_id)
            uses = [use for use in uses if use[1].receiver or use[0].id in bound]
        if most < ALL and node.path:
            folder = node.path.rpartition("/")[0]
            uses.sort(key=lambda use: (is_test(use[0].path), not use[0].path.startswith(folder)))
            uses = uses[: most * _TRIED]
        return uses

    def meant(self, document: Document, ref: Reference) -> list[Resolved]:
        """The symbols that a reference may mean, each with its confidence."""
        if ref.kind == "imports":
            return self._resolver.imported(document, ref)
        return self._resolver.resolve(document, ref)

    # --- edges out of a symbol -----------------------------------------------------------------------

    def callees(self, node: Node, most: int = ALL) -> list[Edge]:
        return self._out_of(node, ("calls",), most)

    def supertypes(self, node: Node) -> list[Edge]:
        """What the type inherits from, conforms to or embeds."""
        return self._out_of(node, _SUBTYPING)

    def imports(self, node: Node) -> list[Edge]:
        """What the symbol's file imports from the codebase."""
        return self._out_of(self.file_node(node), ("imports",))

    def members(self, node: Node) -> list[Node]:
        """What is defined directly inside it: in its file, and in extensions elsewhere."""
        inside = self.file_of(node)
        if not node.qualified:
            return [symbol_node(inside.document, one) for one in inside.symbols if "." not in one.qualified]
        prefix = f"{node.qualified}."
        found = [
            symbol_node(inside.document, one)
            for one in inside.symbols
            if one.qualified.startswith(prefix) and "." not in one.qualified[len(prefix) :]
        ]
        for document, symbol in self.named(node.name) if node.kind in TYPES else []:
            if symbol.kind in EXTENSIONS and document.id != node.document_id:
                found += [
                    symbol_node(document, one)
                    for one in self.file(document).symbols
                    if one.qualified.startswith(f"{symbol.qualified}.") and one.start_line >= symbol.start_line
                ]
        return found

    def container(self, node: Node) -> Node | None:
        """What the symbol is defined in: a type, else its file."""
        if not node.qualified:
            return None
        inside = self.file_of(node)
        around = inside.by_qualified.get(node.qualified.rpartition(".")[0])
        return symbol_node(inside.document, around) if around else self.file_node(node)

    def owner(self, document: Document, ref: Reference) -> Node:
        """The symbol that contains a reference, or the file; of overloads and clauses, the one around its line."""
        inside = self.file(document)
        symbol = inside.by_qualified.get(ref.source) if ref.source else None
        if symbol is not None and not symbol.start_line <= ref.line <= symbol.end_line:
            alike = (one for one in inside.symbols if one.qualified == ref.source)
            symbol = next((one for one in alike if one.start_line <= ref.line <= one.end_line), symbol)
        return symbol_node(document, symbol) if symbol else file_node(document)

    def _out_of(self, node: Node, kinds: tuple[RelationKind, ...], most: int = ALL) -> list[Edge]:
        inside = self.file_of(node)
        found: dict[tuple[str, str], Edge] = {}
        for ref in inside.references:
            is_inside = ref.source == node.qualified or ref.source.startswith(f"{node.qualified}.")
            if not node.qualified:
                is_inside = ref.source == "" or ref.kind == "imports"
            if ref.kind not in kinds or not is_inside:
                continue
            if len(found) > most:
                break
            for one in self.meant(inside.document, ref):
                if one.confidence >= SURE:
                    target = symbol_node(one.document, one.symbol)
                    kind = _kind(inside.document, ref)
                    found.setdefault((target.id, ref.kind), Edge(node, target, kind, ref.line, one.confidence))
        return list(found.values())

    def file_of(self, node: Node) -> File:
        if node.document_id not in self._files:
            document = self._store.document(node.document_id)
            if document is None:
                raise NotFound(f"{node.path} was removed while it was looked at.", "Ask again.")
            self._files[node.document_id] = File(self._store, document)
        return self._files[node.document_id]

    def file_node(self, node: Node) -> Node:
        return file_node(self.file_of(node).document)

    def supertype_names(self, name: str) -> set[str]:
        """The names of the declared supertypes of all types of that name."""
        if name not in self._supers:
            self._supers[name] = set()
            for document, symbol in self.named(name):
                if symbol.kind in TYPES:
                    bases = self.file(document).base_references.get(symbol.qualified, ())
                    self._supers[name] |= {ref.target for ref in bases}
        return self._supers[name]

    def line_of(self, name: str) -> set[str]:
        """The names of a type and all of its supertypes."""
        if name not in self._lines:
            line, level = {name}, {name}
            for _ in range(_GENERATIONS):
                level = {above for one in level for above in self.supertype_names(one)} - line
                line |= level
            self._lines[name] = line - _NO_KIN
        return self._lines[name]


def parted(name: str) -> str:
    """The name with a dot between its parts."""
    return re.sub(r"::?|#|->|\\+", ".", name).removesuffix("()").strip(".")


def _in_modules(found: list[Node], parts: list[str], packages: GoPackages) -> list[Node]:
    """Of definitions of a name, those whose path has most of the names before it; none if no path has the last."""
    shared = {}
    for node in found:
        before = [part.lower() for part in parts[: -1 - node.qualified.count(".")]]
        place = node.path.rpartition(".")[0].lower().split("/")
        place += [packages.imported_as(node.path).lower()] * (node.language == "go")
        is_meant = f".{'.'.join(parts)}".endswith(f".{node.qualified}") and bool(before) and before[-1] in place
        shared[node.id] = sum(part in place for part in before) if is_meant else 0
    most = max(shared.values(), default=0)
    return [node for node in found if shared[node.id] == most and most]


def _kind(document: Document, ref: Reference) -> str:
    """The kind of a relation; a Go type that names another among its fields or methods embeds it."""
    return "embeds" if ref.kind == "inherits" and document.content_type == "go" else ref.kind
