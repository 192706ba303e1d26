"""What kind of content is this?"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath

# What is read by a parser of this folder; source code is known to parse.code.
_BY_EXTENSION = {
    "md": "markdown", "markdown": "markdown", "mdown": "markdown", "mkd": "markdown", "mkdn": "markdown",
    "mdx": "markdown", "qmd": "markdown", "rmd": "markdown", "mdc": "markdown",
    "html": "html", "htm": "html", "xhtml": "html",
    "json": "json", "jsonc": "json", "json5": "json", "webmanifest": "json", "geojson": "json",
    "jsonl": "jsonl", "ndjson": "jsonl",
    "yaml": "yaml", "yml": "yaml", "toml": "toml",
    "ini": "ini", "cfg": "ini", "conf": "ini", "properties": "ini", "editorconfig": "ini", "env": "ini",
    "csv": "csv", "tsv": "csv",
    "xml": "xml", "xsd": "xml", "xsl": "xml", "xslt": "xml", "rss": "xml", "atom": "xml", "plist": "xml", "svg": "xml",
    "rst": "rst", "rest": "rst",
    "txt": "plain_text", "text": "plain_text", "log": "plain_text", "po": "plain_text", "pot": "plain_text",
    "org": "plain_text", "adoc": "plain_text", "asciidoc": "plain_text", "tex": "plain_text",
    "ipynb": "notebook", "pdf": "pdf", "docx": "docx",
}  # fmt: skip
_BY_NAME = {
    "readme": "markdown", "changelog": "markdown", "changes": "markdown", "contributing": "markdown",
    "license": "plain_text", "licence": "plain_text", "copying": "plain_text", "authors": "plain_text",
    "notice": "plain_text", "codeowners": "plain_text", "pipfile": "toml", "cargo.lock": "toml", "poetry.lock": "toml",
    "uv.lock": "toml", ".editorconfig": "ini", ".gitconfig": "ini", ".env": "ini", ".npmrc": "ini", ".pylintrc": "ini",
    ".flake8": "ini", ".coveragerc": "ini", ".babelrc": "json", ".eslintrc": "json", ".prettierrc": "json",
    ".swcrc": "json", "llms.txt": "markdown", "llms-full.txt": "markdown",
}  # fmt: skip
_BY_MEDIA_TYPE = {
    "text/markdown": "markdown", "text/x-markdown": "markdown", "text/html": "html", "application/xhtml+xml": "html",
    "application/json": "json", "application/ld+json": "json", "application/x-ndjson": "jsonl",
    "application/yaml": "yaml", "application/x-yaml": "yaml", "text/yaml": "yaml", "text/x-yaml": "yaml",
    "application/toml": "toml", "text/csv": "csv", "text/tab-separated-values": "csv", "application/xml": "xml",
    "text/xml": "xml", "application/rss+xml": "xml", "application/atom+xml": "xml", "text/x-rst": "rst",
    "application/pdf": "pdf", "application/x-ipynb+json": "notebook",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "text/javascript": "javascript", "application/javascript": "javascript", "text/x-python": "python",
    "text/x-rust": "rust", "text/x-go": "go", "text/x-java": "java", "text/x-c": "c", "text/x-c++": "cpp",
    "application/typescript": "typescript", "text/css": "css",
}  # fmt: skip
_DISPLAY = {
    "cpp": "C++", "csharp": "C#", "c": "C", "objc": "Objective-C", "objectivec": "Objective-C", "php": "PHP",
    "sql": "SQL", "html": "HTML", "css": "CSS", "json": "JSON", "jsonl": "JSON Lines", "yaml": "YAML", "toml": "TOML",
    "xml": "XML", "csv": "CSV", "ini": "INI", "rst": "reStructuredText", "pdf": "PDF", "docx": "Word",
    "typescript": "TypeScript", "tsx": "TSX", "javascript": "JavaScript", "jsx": "JSX", "plain_text": "Plain Text",
    "notebook": "Jupyter Notebook", "ocaml": "OCaml", "fsharp": "F#", "powershell": "PowerShell", "scss": "SCSS",
    "graphql": "GraphQL", "hcl": "HCL", "dockerfile": "Dockerfile", "makefile": "Makefile", "cmake": "CMake",
    "vue": "Vue", "proto": "Protocol Buffers", "matlab": "MATLAB", "r": "R",
}  # fmt: skip
_SYNONYMS = {
    "text": "plain_text", "plain": "plain_text", "plaintext": "plain_text", "txt": "plain_text", "md": "markdown",
    "c++": "cpp", "c#": "csharp", "ts": "typescript", "js": "javascript", "py": "python", "rs": "rust", "yml": "yaml",
    "restructuredtext": "rst", "ipynb": "notebook", "shell": "bash", "sh": "bash", "objective-c": "objc",
}  # fmt: skip
_SHEBANG = re.compile(r"#!\s*(?:/\S*/)?(?:env\s+(?:-S\s+)?)?([A-Za-z]+)")
_INTERPRETERS = {
    "python": "python", "pypy": "python", "node": "javascript", "deno": "typescript", "bun": "typescript",
    "bash": "bash", "sh": "bash", "zsh": "bash", "dash": "bash", "ksh": "bash", "ruby": "ruby", "php": "php",
    "lua": "lua", "elixir": "elixir", "perl": "perl", "swift": "swift",
}  # fmt: skip
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*(?:<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>])", re.I | re.S)
_XML = re.compile(r"\s*<\?xml\s")
_MARKDOWN_SIGNS = (
    re.compile(r"^#{1,6}\s+\S", re.M),
    re.compile(r"^```", re.M),
    re.compile(r"\[[^\]\n]+\]\([^)\s]+\)"),
    re.compile(r"^[^\n]+\n(?:={3,}|-{3,})\s*$", re.M),
    re.compile(r"^\|[^\n]+\|\s*\n\|[ :|-]+\|\s*$", re.M),
)
_RST_SIGNS = (
    re.compile(r"^\.\. [\w-]+::", re.M),
    re.compile(r"^(\S[^\n]*)\n([=~^\"'*+#`-])\2{2,}\s*$\n\s*\n", re.M),
    re.compile(r":[a-z:]+:`[^`\n]+`"),
    re.compile(r"``[^`\n]+``"),
    re.compile(r"`[^`\n<]+<[^>\n]+>`__?"),
)
_LOOK = 8_000
_LOOK_AT_HEADER = 60_000  # licence, includes and macros may come first
_SURE = 2  # signs that leave little doubt


def detect(path: str, text: str, declared: str = "") -> str:
    """The content type: as declared, else by name, else by what the text begins with."""
    given = _declared(declared)
    if given:
        return given
    named = by_name(path)
    if named == "plain_text" and path.lower().endswith((".txt", ".text")) and _rst_signs(text) >= _SURE:
        return "rst"  # documentation from before .rst was usual
    extension = PurePosixPath(path).suffix
    if extension.lower() == ".h":
        return _of_header(path, text)
    return named or by_content(text, signs_asked=_SURE if extension else 1)


def by_name(path: str) -> str:
    """The content type a path's name tells, "" for none; looks at no content."""
    name = PurePosixPath(path).name
    lower = name.lower()
    if lower in _BY_NAME:
        return _BY_NAME[lower]
    if lower.endswith((".rst.txt", ".md.txt")):  # as Sphinx lays sources beside its pages
        lower = lower.removesuffix(".txt")
    stem, _, extension = lower.rpartition(".")
    if stem and extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    extensions, names = _code_names()
    if name in names or lower in names:
        return names.get(name) or names[lower]
    return extensions.get(extension, "") if stem else ""


def by_content(text: str, signs_asked: int = 1) -> str:
    """The content type of a text whose name says nothing; markdown has to show so many signs."""
    head = text[:_LOOK]
    shebang = _SHEBANG.match(head)
    if shebang:
        return _INTERPRETERS.get(shebang[1].lower(), "plain_text")
    if _HTML.match(head):
        return "html"
    if _XML.match(head):
        return "xml"
    if head.lstrip()[:1] in ("{", "[") and _is_json(text):
        return "json"
    signs = sum(1 for sign in _MARKDOWN_SIGNS if sign.search(head))
    restructured = _rst_signs(text)
    if restructured >= _SURE and restructured > signs - 1:
        return "rst"
    if re.match(r"---\n(?:[\w-]+:.*\n)+---\n", head):
        return "markdown"
    if signs < _SURE:
        from refdesk.parse.guess import is_yaml, language_of

        if is_yaml(text if len(text) <= _LOOK else head[: head.rfind("\n") + 1]):
            return "yaml"
        if language := language_of(head):
            return language
    return "markdown" if signs >= signs_asked else "plain_text"


def _of_header(path: str, text: str) -> str:
    """C, C++ or Objective-C, which share an extension."""
    from refdesk.parse.code import language_of

    return language_of(path, text[:_LOOK_AT_HEADER])


def _rst_signs(text: str) -> int:
    head = text[:_LOOK]
    return sum(1 for sign in _RST_SIGNS if sign.search(head))


def display_name(content_type: str) -> str:
    """The name people read: "Rust", "C++", "Plain Text"."""
    return _DISPLAY.get(content_type) or content_type.replace("_", " ").title()


def is_code(content_type: str) -> bool:
    """Whether the syntax parsers know the type."""
    return content_type in _languages()


def _declared(declared: str) -> str:
    """The type meant by a word of ours or a media type; "" for one that says too little to be believed."""
    word = declared.split(";")[0].strip().lower()
    if not word or word in ("application/octet-stream", "text/plain", "binary/octet-stream"):
        return ""
    if "/" in word:
        return _BY_MEDIA_TYPE.get(word, "json" if word.endswith("+json") else "xml" if word.endswith("+xml") else "")
    return _SYNONYMS.get(word, word)


def _is_json(text: str) -> bool:
    import json

    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


@cache
def _code_names() -> tuple[dict[str, str], dict[str, str]]:
    """Extensions without the dot, and file names, of the languages that are parsed by syntax."""
    from refdesk.parse.code import EXTENSIONS, FILENAMES

    return {key.lstrip(".").lower(): name for key, name in EXTENSIONS.items()}, dict(FILENAMES)


@cache
def _languages() -> frozenset[str]:
    extensions, names = _code_names()
    return frozenset(extensions.values()) | frozenset(names.values())
