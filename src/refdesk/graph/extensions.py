"""Which functions are called on types that they are not defined in?  Kotlin's, C#'s and Swift's extensions."""

from __future__ import annotations

import re

from refdesk.graph import languages
from refdesk.graph.candidates import Candidate, Candidates, container
from refdesk.graph.files import File
from refdesk.graph.typed import Names


class Extensions:
    """Finds extensions of types that the codebase does not define, or that it can't tell."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visible(self, file: File, candidates: Candidates) -> list[Candidate]:
        """Those that the file can call on whatever fits."""
        find = _FINDERS.get(file.document.content_type)
        telling = [one for one in candidates.members if one[1].name not in languages.COMMON]
        return [one for one in telling if find(self, file, one)] if find else []

    def _kotlin(self, file: File, candidate: Candidate) -> bool:
        document, symbol = candidate
        if not re.search(rf"\bfun\b[^(]*\.\s*`?{re.escape(symbol.name)}`?\s*\(", symbol.signature):
            return False
        there = self._names.file(document)
        if symbol.signature.startswith("private ") or symbol.qualified.count(".") > 1:  # of the file, or in a class
            return document.id == file.document.id
        return there.package == file.package or symbol.name in file.imports or there.package in file.starred

    def _csharp(self, file: File, candidate: Candidate) -> bool:
        return "(this " in candidate[1].signature

    def _swift(self, file: File, candidate: Candidate) -> bool:
        holders = [symbol for _, symbol in self._names.named(container(candidate[1]))]
        return bool(holders) and all(one.kind in languages.EXTENSIONS for one in holders)


_FINDERS = {"kotlin": Extensions._kotlin, "csharp": Extensions._csharp, "swift": Extensions._swift}
