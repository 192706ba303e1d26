"""Which language is a text without a name written in?  By signs of each: a grammar may take minutes over another's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_ENOUGH = 3  # different signs that leave little doubt
_SHARE = 0.08  # of the lines that show signs, where there are fewer
_CODE_SHARE = 0.75  # of the lines that look like code at all, then
_CODE = re.compile(r"^[ \t]|[{}()\[\];:,=+\\]$|^(?://|/\*|\*|#|--|[{}\[\]()])|^[\w.]+\s*=\s|^(?:package|import|from)\s")
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
    }.items()
}
_RICHER = {"typescript": "javascript", "cpp": "c"}  # the first has all of the second and signs of its own
_ENTRY = re.compile(r"^[ \t]*(?:- )*(?:\"[^\"\n]+\"|'[^'\n]+'|[a-z_$][\w.$/-]*):(?:\s|$)|^[ \t]*- \S")
_KEY = re.compile(r"^[ \t]*(?:- )*[a-z_$\"'][^\n:]*:(?:\s|$)", re.M)


def language_of(text: str) -> str:
    """The programming language that the text shows signs of, "" for none."""
    signs = {name: sum(1 for sign in own if sign.search(text)) for name, own in _SIGNS.items()}
    for rich, plain in _RICHER.items():
        if signs[rich]:
            signs[rich] += signs[plain]
    best = max(signs, key=lambda name: signs[name])
    if signs[best] >= _ENOUGH:
        return best
    # A line or two of prose may show a sign, code does so all over.
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if not signs[best] or sum(1 for line in lines if _CODE.search(line)) < _CODE_SHARE * len(lines):
        return ""
    shown = {name: (signs[name], _lines_with_signs(lines, name)) for name in signs if signs[name]}
    best = max(shown, key=lambda name: shown[name])
    return best if shown[best][1] >= _SHARE * len(lines) else ""


def _lines_with_signs(lines: Sequence[str], language: str) -> int:
    own = _SIGNS[language] + _SIGNS.get(_RICHER.get(language, ""), ())
    return sum(1 for line in lines if any(sign.search(line) for sign in own))


def is_yaml(text: str) -> bool:
    """Whether the text is lines of keys and entries: names that programs use, not those of people who speak."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    entries = sum(1 for line in lines if _ENTRY.match(line) or line.startswith((" ", "---")))
    return len(lines) >= _LINES and entries == len(lines) and len(_KEY.findall(text)) >= _LINES and _loads(text)


def _loads(text: str) -> bool:
    import yaml

    try:
        return isinstance(yaml.load(text, yaml.CBaseLoader), dict | list)  # noqa: S506 - makes nothing but strings
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
