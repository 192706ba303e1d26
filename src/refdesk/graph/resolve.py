"""Which symbol does a name mean here?  Scope, imports and receiver types decide; each answer has a confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from refdesk.graph import languages, modules, receivers
from refdesk.graph.files import File
from refdesk.model import Document, Reference, Symbol

CERTAIN, LIKELY, FAIR, GUESS = 0.95, 0.85, 0.7, 0.6

_GENERATIONS = 6

Candidate = tuple[Document, Symbol]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A symbol that a reference means, and how sure that is."""

    document: Document
    symbol: Symbol
    confidence: float


class Resolver:
    """Resolves references with what the codebase knows by name."""

    def __init__(
        self,
        named: Callable[[str], list[Candidate]],
        file: Callable[[Document], File],
        supertypes: Callable[[str], set[str]],
        used: Callable[[str], list[tuple[Document, Reference]]],
        root: str = "",
    ) -> None:
        self._root = root
        self._used = used
        self._named = named
        self._file = file
        self._supertypes = supertypes
        self._seen: dict[tuple[str, bool, str, bool], list[Candidate]] = {}
        self._asking: set[tuple[str, str]] = set()
        self._resolved: dict[tuple[str, Reference], list[Resolved]] = {}

    def resolve(self, document: Document, ref: Reference) -> list[Resolved]:
        """The symbols that the reference may mean, each with its confidence; none for what is not in the codebase."""
        known = self._resolved.get((document.id, ref))
        if known is None:
            self._resolved[document.id, ref] = []  # what is asked while it is being found: class A(self.A)
            known = self._resolved[document.id, ref] = self._resolve(self._file(document), ref)
        return known

    def _resolve(self, file: File, ref: Reference) -> list[Resolved]:
        in_test = languages.is_test(file.document.path)
        key = (file.document.content_type, in_test, self._imported_name(file, ref), ref.kind == "calls")
        candidates = self._seen.get(key)
        if candidates is None:
            candidates = self._seen[key] = self._candidates(*key)
        if not candidates:
            return []
        if not ref.receiver:
            return self._bare(file, ref, candidates)
        return self._qualified(file, ref, candidates)

    def _candidates(self, language: str, in_test: bool, name: str, is_call: bool) -> list[Candidate]:
        """What has the name in a language that can be named here; a type itself rather than its extensions."""
        kin = languages.family(language)
        found = [one for one in self._named(name) if one[0].content_type in kin]
        if not in_test:
            found = [one for one in found if not languages.is_test(one[0].path)]
        defined = {symbol.qualified for _, symbol in found if symbol.kind not in languages.EXTENSIONS}
        found = [one for one in found if one[1].kind not in languages.EXTENSIONS or one[1].qualified not in defined]
        if is_call:  # String(…) makes what is not of the codebase, however much an extension adds to it
            found = [one for one in found if one[1].kind not in languages.EXTENSIONS]
            called = {symbol.qualified for _, symbol in found if symbol.kind not in languages.VALUES}
            found = [one for one in found if one[1].kind not in languages.VALUES or one[1].qualified not in called]
        return found

    @staticmethod
    def _imported_name(file: File, ref: Reference) -> str:
        """The name behind an import's alias; a default import is called what it is called there, mostly."""
        if not ref.receiver:
            for _, name in file.imports.get(ref.target, ()):
                if name not in ("", "default", ref.target):
                    return name
        return ref.target

    # --- names that stand alone ------------------------------------------------------------------

    def _bare(self, file: File, ref: Reference, candidates: list[Candidate]) -> list[Resolved]:
        language = file.document.content_type
        in_scope = [one for one in candidates if self._in_scope(file, ref, one)]
        if in_scope:
            return _all(in_scope, CERTAIN)
        if bound := file.imports.get(ref.target):
            return self._from_imports(file, bound, candidates)
        top = [one for one in candidates if "." not in one[1].qualified]
        starred = [one for one in top if self._is_any(one, file.starred, file)]
        if starred:
            return _all(starred, LIKELY)
        is_base = ref.kind in ("inherits", "conforms")  # named outside of the type
        if (
            not is_base
            and language in languages.IMPLICIT_SELF
            and (mine := self._members(file, ref.source, candidates))
        ):
            return mine
        folder = file.document.path.rpartition("/")[0]
        if language in languages.FOLDER_WIDE:
            beside = [one for one in top if one[0].path.rpartition("/")[0] == folder]
            if beside:
                return _all(beside, LIKELY)
        if language in languages.CODEBASE_WIDE:
            target = _target(file.document.path)
            near = [one for one in top or candidates if _target(one[0].path) == target]
            return _shared(near or top or candidates, LIKELY)
        return []

    def _in_scope(self, file: File, ref: Reference, candidate: Candidate) -> bool:
        document, symbol = candidate
        if document.id != file.document.id or symbol.name != ref.target:
            return False
        container = symbol.qualified.rpartition(".")[0]
        if not container:
            return True
        is_around = ref.source == container or ref.source.startswith(container + ".")
        if not is_around:
            return False
        holder = file.by_qualified.get(container)
        is_member = holder is None or holder.kind in languages.TYPES
        return not is_member or file.document.content_type in languages.IMPLICIT_SELF or symbol.kind in languages.TYPES

    def imported(self, document: Document, ref: Reference) -> list[Resolved]:
        """The symbols of the codebase that an import names."""
        candidates = [one for one in self._named(ref.target) if "." not in one[1].qualified]
        return self._from_imports(self._file(document), [(ref.receiver or ref.target, ref.target)], candidates)

    def _from_imports(
        self, file: File, bound: list[tuple[str, str]], candidates: list[Candidate], hops: int = 3
    ) -> list[Resolved]:
        """Those of the module that is imported, else those a package hands on from its inner files."""
        importer = file.document.path
        names = [module for module, _ in bound]
        top = [one for one in candidates if "." not in one[1].qualified] or candidates
        meant = [
            one for one in top if any(modules.is_meant(one[0].path, module, importer, self._root) for module in names)
        ]
        if meant:
            return _all(meant, CERTAIN)
        if top and hops and (handed_on := self._handed_on(importer, names, top, hops)):
            return handed_on
        inside = [
            one for one in top if any(modules.is_inside(one[0].path, module, importer, self._root) for module in names)
        ]
        return _shared(inside, LIKELY)

    def _handed_on(self, importer: str, names: list[str], top: list[Candidate], hops: int) -> list[Resolved]:
        """What a module that is imported from has imported itself."""
        for document, ref in self._used(top[0][1].name):
            if ref.kind != "imports" or ref.alias or document.path == importer:
                continue
            if any(modules.is_meant(document.path, name, importer, self._root) for name in names):
                bound = [(ref.receiver, ref.target)]
                if found := self._from_imports(self._file(document), bound, top, hops - 1):
                    return found
        return []

    def _is_any(self, candidate: Candidate, named: Iterable[str], file: File) -> bool:
        return any(modules.is_meant(candidate[0].path, module, file.document.path, self._root) for module in named)

    # --- names behind a dot -------------------------------------------------------------------------

    def _qualified(self, file: File, ref: Reference, candidates: list[Candidate]) -> list[Resolved]:
        receiver = ref.receiver.removesuffix("()")
        last = receiver.replace("::", ".").replace("->", ".").rpartition(".")[2].rstrip("?!")
        if receiver in languages.SELF:
            return self._members(file, ref.source, candidates) or []
        if receiver == languages.SUPER.get(file.document.content_type) or receiver.startswith("super"):
            return self._inherited(file, ref.source, candidates)
        by_type = self._of_types(file, self._type_names(file, last), candidates)
        if by_type:
            return by_type
        top = [one for one in candidates if "." not in one[1].qualified]
        if bound := self._modules(file, receiver):
            return self._from_imports(file, bound, top)
        is_path = file.document.content_type == "rust" and receiver.islower() and "." not in receiver
        if is_path and (found := self._from_imports(file, [(receiver, "")], top)):  # crate::run(), walk::build()
            return found
        types = self._receiver_types(file, ref, receiver, last)
        if types:
            return self._of_types(file, types, candidates)
        return self._by_name_alone(last, candidates)

    def _type_names(self, file: File, last: str) -> set[str]:
        named = {name for _, name in file.imports.get(last, ()) if name}
        return named or {last}

    @staticmethod
    def _modules(file: File, receiver: str) -> list[tuple[str, str]]:
        """The modules that the receiver may stand for, if imports bind it."""
        for local in (receiver, receiver.partition(".")[0]):
            if bound := file.imports.get(local):
                inner = receiver[len(local) :]
                return [(_joined(module, name) + inner, "") for module, name in bound]
        return []

    def _members(self, file: File, source: str, candidates: list[Candidate]) -> list[Resolved]:
        own = file.enclosing_type(source)
        if not own:
            return []
        if file.document.content_type in languages.WHOLE and (found := self._along_bases(file, own, candidates)):
            return _all(found, CERTAIN)
        return self._of_types(file, {own.rpartition(".")[2]}, candidates, CERTAIN)

    def _along_bases(self, file: File, own: str, candidates: list[Candidate]) -> list[Candidate]:
        """Members of the very class, else of the classes that its bases mean where they are named."""
        level, seen = [(file, own)], {(file.document.id, own)}
        for _ in range(_GENERATIONS):
            places = {(one.document.id, name) for one, name in level}
            if found := [one for one in candidates if (one[0].id, _outer(one[1])) in places]:
                return found
            above = [
                (self._file(base.document), base.symbol.qualified)
                for one, name in level
                for ref in one.base_references.get(name, ())
                for base in self.resolve(one.document, ref)
                if base.confidence >= FAIR
            ]
            level = [(one, name) for one, name in above if (one.document.id, name) not in seen]
            seen |= {(one.document.id, name) for one, name in level}
        return []

    def _inherited(self, file: File, source: str, candidates: list[Candidate]) -> list[Resolved]:
        own = file.enclosing_type(source)
        if not own:
            return []
        others = [one for one in candidates if (one[0].id, _outer(one[1])) != (file.document.id, own)]
        if file.document.content_type in languages.WHOLE and (found := self._along_bases(file, own, others)):
            return _all(found, LIKELY)
        return self._of_types(file, self._supertypes(own.rpartition(".")[2]), others)

    def _of_types(
        self, file: File, types: set[str], candidates: list[Candidate], confidence: float = LIKELY
    ) -> list[Resolved]:
        """Members of the types, else of the types they inherit from, nearest first."""
        seen: set[str] = set()
        level = types
        for _ in range(_GENERATIONS):
            found = [one for one in candidates if _container(one[1]) in level]
            if found:
                near = [one for one in found if one[0].id == file.document.id]
                return _all(near, confidence) if near else _shared(found, confidence)
            seen |= level
            level = {above for name in level for above in self._supertypes(name)} - seen
            if not level:
                break
        return []

    def _receiver_types(self, file: File, ref: Reference, receiver: str, last: str) -> set[str]:
        """What the text around the call says of the variable's type."""
        source = file.by_qualified.get(ref.source)
        around = file.text(source.start_line, ref.line) if source else file.text(1, ref.line)
        owner = file.by_qualified.get(file.enclosing_type(ref.source))
        of_type = file.text(owner.start_line, owner.end_line) if owner else ""
        language = file.document.content_type

        if ref.receiver.endswith("()"):
            return self._given_by(file, ref, receiver)

        def types_of(name: str, text: str) -> set[str]:
            found = receivers.types_of(name, text, language)
            for function in receivers.made_by(name, text) if not found else ():
                found = found or self._given_by(file, ref, function)
            return found

        if "." not in receiver:
            found = types_of(last, around)
            for member in receivers.taken_from(last, around) if not found else ():
                found = found or types_of(member, of_type)
            if language in languages.IMPLICIT_SELF:
                found = found or types_of(last, of_type)
            return found or types_of(last, file.top_lines(last))
        found = types_of(last, of_type) or self._of_member(receiver, last)
        for variable in receivers.handed_from(last, of_type) if not found else ():
            found = found or types_of(variable, of_type)
        return found

    def _of_member(self, receiver: str, last: str) -> set[str]:
        """The type of a type's own member: of Log.shared, what Log says."""
        name = receiver.replace("::", ".").split(".")[-2]
        found: set[str] = set()
        for document, symbol in self._named(name) if name[:1].isupper() else ():
            if symbol.kind in languages.TYPES:
                text = self._file(document).text(symbol.start_line, symbol.end_line)
                found |= receivers.types_of(last, text, document.content_type)
        return found

    def _given_by(self, file: File, ref: Reference, function: str) -> set[str]:
        """The type of a call's result, by the signature of the function that it surely means."""
        receiver, _, name = function.replace("::", ".").rpartition(".")
        if (name, receiver) in self._asking:  # a result of a result of itself
            return set()
        self._asking.add((name, receiver))
        called = self.resolve(file.document, ref._replace(kind="calls", target=name, receiver=receiver))
        self._asking.discard((name, receiver))
        sure = [meant.symbol for meant in called if meant.confidence >= FAIR]
        given = {one for symbol in sure for one in receivers.returned(symbol.signature)}
        made = {symbol.name for symbol in sure if symbol.kind in languages.TYPES}
        return given or made

    def _by_name_alone(self, last: str, candidates: list[Candidate]) -> list[Resolved]:
        """A method that only one family of types has, or whose type is called like the variable."""
        members = [one for one in candidates if _container(one[1])]
        if last.strip("\"'`)") != last or not last:
            return []  # a literal or a call's result
        word = last.lower().strip("_").replace("_", "")
        alike = [one for one in members if len(word) > 2 and _container(one[1]).lower().endswith(word)]
        if alike:
            return _shared(alike, FAIR)
        telling = [one for one in members if one[1].name not in languages.COMMON]
        first = self._first_of_kin(telling)
        return _all(first, GUESS) if first else _shared(telling, GUESS)

    def _first_of_kin(self, members: list[Candidate]) -> list[Candidate]:
        """Of overrides of one method, the one they override; none when they are not kin."""
        lines = [self._line_of(_container(symbol)) for _, symbol in members]
        if len(lines) < 2:
            return []
        shared = set.intersection(*lines)
        return [one for one in members if _container(one[1]) in shared]

    def _line_of(self, name: str) -> set[str]:
        line, level = {name}, {name}
        for _ in range(_GENERATIONS):
            level = {above for one in level for above in self._supertypes(one)} - line
            line |= level
        return line - {"object", "Protocol", "ABC", "Generic", "Exception", "Object", "NSObject"}


def _outer(symbol: Symbol) -> str:
    return symbol.qualified.rpartition(".")[0]


def _target(path: str) -> tuple[str, ...]:
    """The outer folders, which are mostly what is built as one: Sources/App."""
    return tuple(path.split("/")[:-1][:2])


def _joined(module: str, name: str) -> str:
    """`.` and base are `.base`, a and b are a.b."""
    return f"{module}{'' if module.endswith('.') else '.'}{name}" if name else module


def _container(symbol: Symbol) -> str:
    return _container_of(symbol.qualified)


@lru_cache(maxsize=65_536)
def _container_of(qualified: str) -> str:
    return qualified.rpartition(".")[0].rpartition(".")[2]


def _all(found: list[Candidate], confidence: float) -> list[Resolved]:
    return [Resolved(document, symbol, confidence) for document, symbol in found]


def _shared(found: list[Candidate], confidence: float) -> list[Resolved]:
    """One is as sure as can be; several share it, unless they are overloads of one name or parts of one type."""
    places = {
        ("" if symbol.kind in languages.EXTENSIONS else document.id, symbol.qualified) for document, symbol in found
    }
    share = confidence / max(1, len(places)) ** 0.5
    return [Resolved(document, symbol, round(share, 3)) for document, symbol in found]
