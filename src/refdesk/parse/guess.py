"""Which language is a text without a name written in?  By signs of each, and by its grammar."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ENOUGH = 3  # signs that outweigh errors: the text may be cut off or newer than its grammar
_LINES = 2  # of YAML
_SIGNS: Mapping[str, tuple[re.Pattern[str], ...]] = {
    language: tuple(re.compile(sign, re.M) for sign in signs)
    for language, signs in {
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
            r"^class\s+\w+[^;\n]*\{?\s*$",
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
    }.items()
}
_RICHER = {"typescript": "javascript", "cpp": "c"}  # the first has all of the second and signs of its own
_ENTRY = re.compile(r"^[ \t]*(?:- )*(?:\"[^\"\n]+\"|'[^'\n]+'|[a-z_$][\w.$/-]*):(?:\s|$)|^[ \t]*- \S")
_KEY = re.compile(r"^[ \t]*(?:- )*[a-z_$\"'][^\n:]*:(?:\s|$)", re.M)


def language_of(text: str) -> str:
    """The programming language that the text shows signs of and can be read as, "" for none."""
    signs = {name: sum(1 for sign in own if sign.search(text)) for name, own in _SIGNS.items()}
    for rich, plain in _RICHER.items():
        if signs[rich]:
            signs[rich] += signs[plain]
    for name in sorted((name for name in signs if signs[name]), key=lambda name: (-signs[name], name)):
        if signs[name] >= _ENOUGH or _is_read(text, name):
            return name
    return ""


def is_yaml(text: str) -> bool:
    """Whether the text is lines of keys and entries: names that programs use, not those of people who speak."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    entries = sum(1 for line in lines if _ENTRY.match(line) or line.startswith((" ", "---")))
    return len(lines) >= _LINES and entries == len(lines) and len(_KEY.findall(text)) >= _LINES and _loads(text)


def _is_read(text: str, language: str) -> bool:
    from refdesk.parse.code.syntax import parse

    tree = parse(text.encode("utf-8", "replace"), language)
    return tree is not None and not tree.root_node.has_error


def _loads(text: str) -> bool:
    import yaml

    try:
        return isinstance(yaml.load(text, yaml.CBaseLoader), dict | list)  # noqa: S506 - makes nothing but strings
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
