"""Resolves references to symbols by scope, imports and receiver types, each with a confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from refdesk.graph import languages
from refdesk.graph.members import Members
from refdesk.graph.nodes import CERTAIN, FAIR, LIKELY, Candidate, Candidates, File, Resolved, all_of, shared
from refdesk.graph.relations import without_actuals
from refdesk.model import Document, Reference

if TYPE_CHECKING:
    from refdesk.graph.graph import Graph


class Resolver:
    """Resolves references with what the codebase knows by name."""

    def __init__(self, graph: Graph, root: str = "") -> None:
        self._root = root
        self.packages = languages.GoPackages(graph.text_at)
        self._crates = languages.Crates(graph.text_at, root)
        self.graph = graph
        self._members = Members(self)
        self._seen: dict[tuple[str, bool, str, bool], Candidates] = {}
        self._found_by_import: dict[tuple[str, tuple[str, ...], Candidates, int], list[Resolved]] = {}
        self._resolved: dict[tuple[str, Reference], list[Resolved]] = {}

    def resolve(self, document: Document, ref: Reference) -> list[Resolved]:
        """The symbols that the reference may mean, each with its confidence; none for what is not in the codebase."""
        known = self._resolved.get((document.id, ref))
        if known is not None:
            return known
        self._resolved[document.id, ref] = []  # the answer to itself while it is being resolved: class A(self.A)
        file = self.graph.file(document)
        candidates = self._candidates(file, ref)
        if not candidates.every:
            return []
        found = self._members.behind(file, ref, candidates) if ref.receiver else self._bare(file, ref, candidates)
        self._resolved[document.id, ref] = found
        return found

    def _candidates(self, file: File, ref: Reference) -> Candidates:
        """What has the name in a language that can be named here; a type itself rather than its extensions."""
        name = ref.target
        if not ref.receiver:  # the name behind an import's alias; a default import is mostly called as it is there
            bound = (one for _, one in file.imports.get(name, ()) if one not in ("", "default", name))
            name = next(bound, name)
        in_test, is_call = languages.is_test(file.document.path), ref.kind == "calls"
        key = (file.language, in_test, name, is_call)
        if key in self._seen:
            return self._seen[key]
        kin = languages.family(file.language)
        found = without_actuals([one for one in self.graph.named(name) if one[0].content_type in kin], self.graph.file)
        if not in_test:
            found = [one for one in found if not languages.is_test(one[0].path)]
        defined = {symbol.qualified for _, symbol in found if symbol.kind not in languages.EXTENSIONS}
        found = [one for one in found if one[1].kind not in languages.EXTENSIONS or one[1].qualified not in defined]
        if is_call:  # String(…) makes what is not of the codebase, however much an extension adds to it
            found = [one for one in found if one[1].kind not in languages.EXTENSIONS]
            if file.language == "c":  # where a struct and a function may have one name
                found = [one for one in found if one[1].kind not in languages.TYPES]
            called = {symbol.qualified for _, symbol in found if symbol.kind not in languages.VALUES}
            found = [one for one in found if one[1].kind not in languages.VALUES or one[1].qualified not in called]
        self._seen[key] = Candidates(found)
        return self._seen[key]

    # --- names without a receiver ------------------------------------------------------------------

    def _bare(self, file: File, ref: Reference, candidates: Candidates) -> list[Resolved]:
        language = file.language
        in_scope = [one for one in candidates.every if self._in_scope(file, ref, one)]
        is_local = any(symbol.qualified.startswith(f"{ref.source}.") for _, symbol in in_scope) and bool(ref.source)
        if not is_local and (seen := self._members.in_lambda(file, ref, candidates)):
            return seen
        if len({symbol.qualified for _, symbol in in_scope}) > 1:
            # Of functions that blocks define under one name, the last one before the line.
            before = [one for one in in_scope if one[1].start_line <= ref.line]
            in_scope = [max(before, key=lambda one: one[1].start_line)] if before else in_scope
        if in_scope:
            return all_of(in_scope, CERTAIN)
        if bound := file.imports.get(ref.target):
            return self.from_imports(file, bound, candidates)
        top = candidates.top
        path = file.document.path
        starred = [one for one in top if any(self._is_meant(one[0], module, path) for module in file.starred)]
        if starred:
            return all_of(starred, LIKELY)
        is_base = ref.kind in ("inherits", "conforms")  # named outside of the type
        if language == "erlang" and is_base:  # -behaviour(name)
            return all_of([one for one in candidates.every if one[1].kind == "module"], CERTAIN)
        if (
            not is_base
            and language in languages.IMPLICIT_SELF
            and (mine := self._members.own(file, ref.source, candidates))
        ):
            return mine
        if language == "elixir":  # a function of another module is seen where that is imported, maybe by what is used
            modules = {module for imported in file.imports.values() for module, _ in imported}
            if found := [one for one in candidates.every if one[1].qualified.rpartition(".")[0] in modules]:
                return shared(found, LIKELY)
            if ref.target in languages.COMMON:
                return []
        if language in languages.PACKAGE_WIDE:
            beside = [one for one in top if self.graph.file(one[0]).package == file.package]
            if beside:
                return all_of(beside, LIKELY)
            if extending := self._members.extending(file, candidates):
                return shared(extending, FAIR)
        if language in languages.CODEBASE_WIDE:
            target = _target(file.document.path)
            near = [one for one in top or candidates.every if _target(one[0].path) == target]
            return shared(near or top or candidates.every, LIKELY)
        return []

    def _in_scope(self, file: File, ref: Reference, candidate: Candidate) -> bool:
        document, symbol = candidate
        if document.id != file.document.id or symbol.name != ref.target:
            return False
        container = symbol.qualified.rpartition(".")[0]
        if not container:
            return True
        holder = file.by_qualified.get(container)
        is_in_block = holder is None and file.language in languages.IMPORTING  # of describe(…, () => {
        is_around = ref.source == container or ref.source.startswith(container + ".")
        if not is_around and not is_in_block:
            return False
        is_member = not is_in_block and (holder is None or holder.kind in languages.TYPES)
        return not is_member or file.language in languages.IMPLICIT_SELF or symbol.kind in languages.TYPES

    def imported(self, document: Document, ref: Reference) -> list[Resolved]:
        """The symbols of the codebase that an import names."""
        candidates = Candidates([one for one in self.graph.named(ref.target) if "." not in one[1].qualified])
        return self.from_imports(self.graph.file(document), [(ref.receiver or ref.target, ref.target)], candidates)

    def from_imports(
        self, file: File, bound: list[tuple[str, str]], candidates: Candidates, hops: int = 3
    ) -> list[Resolved]:
        """Those of the module that is imported, else those a package hands on from its inner files."""
        importer = file.document.path
        names = tuple(module for module, _ in bound)
        folder, _, name = importer.rpartition("/")
        # Files beside each other import alike.
        place = importer if name.partition(".")[0] in languages.INDEX else folder
        key = (place, names, candidates, hops)
        if key not in self._found_by_import:
            self._found_by_import[key] = self._find_import(importer, names, candidates, hops)
        return self._found_by_import[key]

    def _find_import(self, importer: str, names: tuple[str, ...], candidates: Candidates, hops: int) -> list[Resolved]:
        top = candidates.top or candidates.every
        meant = [one for one in top if any(self._is_meant(one[0], module, importer) for module in names)]
        if meant or importer.endswith(".go"):  # whose packages hand nothing on
            return all_of(meant, CERTAIN)
        if top and hops and (handed_on := self._handed_on(importer, names, candidates, hops)):
            return handed_on
        inside = [one for one in top if any(self._is_inside(one[0].path, module, importer) for module in names)]
        return shared(inside, LIKELY)

    def _handed_on(self, importer: str, names: tuple[str, ...], candidates: Candidates, hops: int) -> list[Resolved]:
        """What a module that is imported from has imported itself, by name or all of another module."""
        parts = [languages.last_part(name, importer) for name in names]
        for document, ref in (*self.graph.imported(candidates.every[0][1].name), *self.graph.imported("*")):
            path = document.path
            if ref.alias not in ("", ref.target) or path == importer or not any(part in path for part in parts):
                continue
            if any(self._is_meant(document, name, importer) for name in names):
                bound = [(ref.receiver, ref.target)]
                if found := self.from_imports(self.graph.file(document), bound, candidates, hops - 1):
                    return found
        return []

    def _is_meant(self, document: Document, module: str, importer: str) -> bool:
        if document.content_type in languages.PACKAGED:
            package = self.graph.file(document).package
            return module == package or (module.startswith(f"{package}.") and module[len(package) + 1].isupper())
        if importer.endswith(".rs"):
            return self._crates.is_meant(document.path, module, importer)
        told = self.packages.holds(module, importer, document.path) if importer.endswith(".go") else None
        return languages.is_meant(document.path, module, importer, self._root) if told is None else told

    def _is_inside(self, path: str, module: str, importer: str) -> bool:
        if importer.endswith(".rs"):
            return self._crates.is_inside(path, module, importer)
        return languages.is_inside(path, module, importer, self._root)


def _target(path: str) -> tuple[str, ...]:
    """The outer folders, which are mostly what is built as one: Sources/App."""
    return tuple(path.split("/")[:-1][:2])
