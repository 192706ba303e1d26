"""Source code: whole functions, methods and types, by tree-sitter.  Grammars load on first use."""

from refdesk.parse.code.languages import EXTENSIONS, FILENAMES, LANGUAGES, language_of
from refdesk.parse.code.parser import CodeParser

__all__ = ["EXTENSIONS", "FILENAMES", "LANGUAGES", "CodeParser", "language_of"]
