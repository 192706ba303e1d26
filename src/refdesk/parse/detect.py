"""Detects the content type of a file by its declared type, its name or its text."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import PurePosixPath

from refdesk.parse.code.languages import EXTENSIONS, FILENAMES
from refdesk.parse.code.languages import language_of as language_by_name
from refdesk.text import word_set, word_table

# ── the language of a text without a name, by signs: parsing with a wrong grammar may take minutes ──

_ENOUGH = 3  # different signs that are enough
_SHARE = 0.08  # share of lines with signs that is needed with fewer different ones
_CODE_SHARE = 0.75  # and share of lines that look like code
_CODE = re.compile(r"^[ \t]|[{}()\[\];:,=+\\]$|^(?://|/\*|\*|#|--|[{}\[\]()])|^[\w.]+\s*=\s|^(?:package|import|from)\s")
_LINES = 2  # of YAML
_RICHER = {"typescript": "javascript", "cpp": "c"}  # the first is a superset of the second
_ENTRY = re.compile(r"^[ \t]*(?:- )*(?:\"[^\"\n]+\"|'[^'\n]+'|[a-z_$][\w.$/-]*):(?:\s|$)|^[ \t]*- \S")
_KEY = re.compile(r"^[ \t]*(?:- )*[a-z_$\"'][^\n:]*:(?:\s|$)", re.M)


_SIGNS: Mapping[str, tuple[str, ...]] = {
    "rust": (
        r"^[ \t]*(?:pub(?:\([\w:]+\))?\s+)?(?:const\s+|async\s+|unsafe\s+)*fn\s+\w+\s*[<(]",
        r"\blet\s+mut\s+\w+",
        r"^[ \t]*(?:pub\s+)?use\s+\w+(?:::\w+)*(?:::\{|::\*|;)",
        r"^[ \t]*impl(?:<[^>\n]*>)?\s+\w",
        r"\b\w+!\s*[(\[]",
        r"^[ \t]*#!?\[\w",
        r"->\s*(?:Result|Option|Self|&)",
        r"^[ \t]*(?:pub\s+)(?:struct|enum|trait)\s+\w",
    ),
    "go": (
        r"^package\s+\w+\s*$",
        r"^func\s+(?:\(\s*\w+\s+\*?[\w\[\]]+\s*\)\s*)?\w+\s*[(\[]",
        r"^[ \t]*[\w, ]+\s:=\s",
        r"^import\s+(?:\(|\")",
        r"^type\s+\w+\s+(?:struct|interface|func)\b",
    ),
    "java": (
        r"^[ \t]*(?:(?:public|private|protected|static|final|abstract)\s+)+(?:class|interface|enum|record)\s+\w",
        r"^package\s+\w+(?:\.\w+)*;",
        r"^import\s+(?:static\s+)?\w+(?:\.\w+)+(?:\.\*)?;",
        r"\bSystem\.(?:out|err)\.",
        r"^[ \t]*@Override\b",
        r"^[ \t]*(?:public|private|protected)\s+[\w<>\[\], ]+\s+\w+\s*\([^)\n]*\)",
    ),
    "cpp": (
        r"^[ \t]*#\s*include\s*<\w+>",
        r"\bstd::\w",
        r"^[ \t]*template\s*<",
        r"^[ \t]*(?:inline\s+)?namespace\s+[\w:]+\s*\{",
        r"^[ \t]*using\s+namespace\s",
        r"^[ \t]*(?:public|private|protected)\s*:\s*$",
        r"\b\w+::\w+\s*\(",
        r"^class\s+\w+(?:[^;\n]*\{)?\s*$",
    ),
    "c": (
        r"^[ \t]*#\s*include\s*[<\"][\w/.]+\.h[>\"]",
        r"^[ \t]*typedef\s+(?:struct|enum|union)\b",
        r"\bint\s+main\s*\(",
        r"^[ \t]*(?:static\s+)?(?:void|int|char|size_t|struct\s+\w+)\s+\*?\w+\s*\([^)\n]*\)\s*\{",
    ),
    "typescript": (
        r"^[ \t]*(?:export\s+)?(?:declare\s+)?interface\s+\w+",
        r"^[ \t]*(?:export\s+)?type\s+\w+(?:<[^>\n]*>)?\s*=",
        r"\b(?:const|let|var)\s+\w+\s*:\s*\w",
        r"[\w)]\??\s*:\s*(?:string|number|boolean|void|unknown|any|Promise<)",
        r"^[ \t]*import\s+type\b",
        r"^[ \t]*(?:public|private|readonly)\s+\w+\s*[:(]",
    ),
    "javascript": (
        r"^[ \t]*(?:export\s+)?(?:const|let|var)\s+[\w{\[][^=\n]*=",
        r"\bfunction\s*\*?\s*\w*\s*\([^)\n]*\)\s*\{",
        r"\)\s*=>\s*\S|\b\w+\s*=>\s*\S",
        r"\brequire\(\s*['\"]",
        r"^[ \t]*import\s+.*\sfrom\s+['\"]",
        r"^[ \t]*export\s+(?:default|const|function|class|\{)",
        r"\bconsole\.\w+\(",
        r"\bmodule\.exports\b",
    ),
    "python": (
        r"^[ \t]*(?:async\s+)?def\s+\w+\s*\([^\n]*",
        r"^[ \t]*class\s+\w+(?:\([^)\n]*\))?:\s*$",
        r"^from\s+\.*[\w.]+\s+import\s",
        r"^import\s+\w[\w., ]*$",
        r"^[ \t]*(?:if|for|while|with|elif|else|try|except)\b[^\n]*:\s*$",
        r"\bself\.\w",
        r"^[ \t]*print\(",
    ),
}


@cache
def _signs() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    """The signs, compiled when first asked for, which takes 3 ms."""
    return {language: tuple(re.compile(sign, re.M) for sign in signs) for language, signs in _SIGNS.items()}


def language_of(text: str) -> str:
    """The programming language of a text, or ""."""
    signs = {name: sum(1 for sign in own if sign.search(text)) for name, own in _signs().items()}
    for rich, plain in _RICHER.items():
        if signs[rich]:
            signs[rich] += signs[plain]
    best = max(signs, key=lambda name: signs[name])
    if signs[best] >= _ENOUGH:
        return best
    # A line or two of prose may look like code; real code does so throughout.
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not signs[best] or sum(1 for line in lines if _CODE.search(line)) < _CODE_SHARE * len(lines):
        return ""
    shown: dict[str, tuple[int, int]] = {}
    for name in filter(signs.__getitem__, signs):
        own = _signs()[name] + _signs().get(_RICHER.get(name, ""), ())
        shown[name] = signs[name], sum(1 for line in lines if any(sign.search(line) for sign in own))
    best = max(shown, key=lambda name: shown[name])
    return best if shown[best][1] >= _SHARE * len(lines) else ""


def is_yaml(text: str) -> bool:
    """Whether the text is YAML: lines of keys and entries, whose keys are no names of speakers."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) < _LINES or len(_KEY.findall(text)) < _LINES:
        return False
    if not all(_ENTRY.match(line) or line.startswith((" ", "---")) for line in lines):
        return False
    import yaml

    try:
        return isinstance(yaml.load(text, yaml.CBaseLoader), dict | list)  # noqa: S506 - creates strings only
    except (yaml.YAMLError, ValueError, RecursionError):
        return False


# Types with a parser in this package; parse.code knows those of source code.
_BY_EXTENSION = word_table(
    """
    markdown: md markdown mdown mkd mkdn mdx qmd rmd mdc;  html: html htm xhtml;
    json: json jsonc json5 webmanifest geojson;  jsonl: jsonl ndjson;  yaml: yaml yml;  toml: toml;
    ini: ini cfg conf properties editorconfig env;  csv: csv tsv;  xml: xml xsd xsl xslt rss atom plist svg;
    rst: rst rest;  plain_text: txt text log po pot api org adoc asciidoc tex;  notebook: ipynb;  pdf: pdf;
    docx: docx;  epub: epub;  mail: eml mbox;
    """
)
_BY_NAME = word_table(
    """
    markdown: readme changelog changes contributing llms.txt llms-full.txt;
    plain_text: license licence copying authors notice codeowners;  toml: pipfile cargo.lock poetry.lock uv.lock;
    ini: .editorconfig .gitconfig .env .npmrc .pylintrc .flake8 .coveragerc;
    json: .babelrc .eslintrc .prettierrc .swcrc;
    """
)
_BY_MEDIA_TYPE = word_table(
    """
    markdown: text/markdown text/x-markdown;  html: text/html application/xhtml+xml;
    json: application/json application/ld+json;  jsonl: application/x-ndjson;
    yaml: application/yaml application/x-yaml text/yaml text/x-yaml;  toml: application/toml;
    csv: text/csv text/tab-separated-values;  xml: application/xml text/xml application/rss+xml application/atom+xml;
    rst: text/x-rst;  pdf: application/pdf;  notebook: application/x-ipynb+json;
    docx: application/vnd.openxmlformats-officedocument.wordprocessingml.document;
    epub: application/epub+zip;  mail: message/rfc822 application/mbox;
    javascript: text/javascript application/javascript;  python: text/x-python;  rust: text/x-rust;  go: text/x-go;
    java: text/x-java;  c: text/x-c;  cpp: text/x-c++;  typescript: application/typescript;  css: text/css;
    """
)
# Endings behind the one that tells the type: values.yaml.j2, config.h.in, settings.yml.example.
_TEMPLATES = word_set("default dist ejs erb example gotmpl hbs in j2 jinja jinja2 mustache sample template tmpl tpl")
_DISPLAY = {
    "cpp": "C++", "csharp": "C#", "c": "C", "objc": "Objective-C", "objectivec": "Objective-C", "php": "PHP",
    "sql": "SQL", "html": "HTML", "css": "CSS", "json": "JSON", "jsonl": "JSON Lines", "yaml": "YAML", "toml": "TOML",
    "xml": "XML", "csv": "CSV", "ini": "INI", "rst": "reStructuredText", "pdf": "PDF", "docx": "Word", "epub": "EPUB",
    "typescript": "TypeScript", "tsx": "TSX", "javascript": "JavaScript", "jsx": "JSX", "plain_text": "Plain Text",
    "notebook": "Jupyter Notebook", "ocaml": "OCaml", "fsharp": "F#", "powershell": "PowerShell", "scss": "SCSS",
    "graphql": "GraphQL", "hcl": "HCL", "dockerfile": "Dockerfile", "makefile": "Makefile", "cmake": "CMake",
    "vue": "Vue", "proto": "Protocol Buffers", "matlab": "MATLAB", "r": "R",
}  # fmt: skip
_SYNONYMS = word_table(
    """
    plain_text: text plain plaintext txt;  markdown: md;  cpp: c++;  csharp: c#;  typescript: ts;  javascript: js;
    python: py;  rust: rs;  yaml: yml;  rst: restructuredtext;  notebook: ipynb;  bash: shell sh;  objc: objective-c;
    """
)
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*(?:<!doctype\s+html|<html[\s>]|<head[\s>]|<body[\s>])", re.I | re.S)
_XML = re.compile(r"\s*<\?xml\s")
# The headers of a message in a mail folder, whose files have no endings.
_MAIL = re.compile(r"(?:From [^\n]*\n)?(?:[!-9;-~]{1,60}:[^\n]*\n(?:[ \t][^\n]*\n)*){3,}")
_MAIL_HEADERS = re.compile(r"^(?:from|to|date|subject|message-id|received|return-path|mime-version):", re.I | re.M)
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
_LANGUAGES = frozenset(EXTENSIONS.values()) | frozenset(FILENAMES.values())
_LOOK = 8_000  # characters searched for signs, which takes about a millisecond
_LOOK_AT_HEADER = 60_000  # characters: licence, includes and macros may come first
_SURE = 2  # signs that are enough
_MAIL_SIGNS = 4  # of mail: a page's front matter may have a date and a subject


def detect(path: str, text: str, declared: str = "") -> str:
    """The content type: as declared, else by name, else by the start of the text."""
    word = declared.split(";")[0].strip().lower()
    if "/" in word:
        by_suffix = "json" if word.endswith("+json") else "xml" if word.endswith("+xml") else ""
        word = _BY_MEDIA_TYPE.get(word, by_suffix)  # "" for a generic one such as text/plain
    if word:
        return _SYNONYMS.get(word, word)
    named = by_name(path)
    if named == "plain_text" and path.lower().endswith((".txt", ".text")) and _rst_signs(text) >= _SURE:
        return "rst"  # older documentation uses .txt
    extension = PurePosixPath(path).suffix
    if extension.lower() == ".h":
        return language_by_name(path, text[:_LOOK_AT_HEADER])
    return named or by_content(text, signs_asked=_SURE if extension else 1)


def by_name(path: str) -> str:
    """The content type by the path's name alone, or ""."""
    name = path.rstrip("/").rpartition("/")[2]
    lower = name.lower()
    if known := _BY_NAME.get(lower) or FILENAMES.get(name) or FILENAMES.get(lower):
        return known
    if lower.endswith((".rst.txt", ".md.txt")):  # Sphinx copies sources under such names
        lower = lower.removesuffix(".txt")
    stem, _, extension = lower.rpartition(".")
    if stem and extension in _TEMPLATES:
        inner = by_name(name[: len(stem)])
        # Converted, a page would lose what makes it a template.
        return "" if inner in ("html", "pdf", "docx", "epub") else inner
    if stem and extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    return EXTENSIONS.get(extension, "") if stem else ""


def by_content(text: str, signs_asked: int = 1) -> str:
    """The content type by the text alone; Markdown needs `signs_asked` signs."""
    head = text[:_LOOK]
    if head.startswith("#!"):
        return language_by_name("", head) or "plain_text"
    if _HTML.match(head):
        return "html"
    if (found := _MAIL.match(head)) and len({one.lower() for one in _MAIL_HEADERS.findall(found[0])}) >= _MAIL_SIGNS:
        return "mail"
    if _XML.match(head):
        return "xml"
    if head.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError, RecursionError):
            json.loads(text)
            return "json"
    signs = sum(1 for sign in _MARKDOWN_SIGNS if sign.search(head))
    restructured = _rst_signs(text)
    if restructured >= _SURE and restructured > signs - 1:
        return "rst"
    if re.match(r"---\n(?:[\w-]+:.*\n)+---\n", head):
        return "markdown"
    if signs < _SURE:
        if is_yaml(text if len(text) <= _LOOK else head[: head.rfind("\n") + 1]):
            return "yaml"
        if language := language_of(head):
            return language
    return "markdown" if signs >= signs_asked else "plain_text"


def _rst_signs(text: str) -> int:
    head = text[:_LOOK]
    return sum(1 for sign in _RST_SIGNS if sign.search(head))


def display_name(content_type: str) -> str:
    """The display name of a content type: "Rust", "C++", "Plain Text"."""
    return _DISPLAY.get(content_type) or content_type.replace("_", " ").title()


def is_code(content_type: str) -> bool:
    """Whether parse.code has a grammar for the type."""
    return content_type in _LANGUAGES
