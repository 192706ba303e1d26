"""What is a passage mostly: prose, code, an api's reference, configuration or commands?"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter

from refdesk.model import ChunkType
from refdesk.parse.outline import Fence, Outline

_COMMANDS = frozenset({
    "bash", "sh", "shell", "zsh", "fish", "console", "shell-session", "shellsession", "sh-session", "terminal", "cmd",
    "bat", "batch", "powershell", "ps1", "pwsh", "doscon",
})  # fmt: skip
_CONFIGS = frozenset({
    "yaml", "yml", "json", "json5", "jsonc", "toml", "ini", "cfg", "conf", "properties", "env", "dotenv", "xml",
    "hcl", "terraform", "nginx", "apache", "dockerfile", "docker", "makefile",
})  # fmt: skip
_NO_CODE = frozenset({
    "text", "txt", "plain", "plaintext", "none", "output", "log", "mermaid", "diff",
})  # fmt: skip
_ALIASES = {
    "py": "python", "python3": "python", "py3": "python", "pycon": "python", "ipython": "python",
    "js": "javascript", "mjs": "javascript", "cjs": "javascript", "node": "javascript", "jsx": "javascript",
    "ts": "typescript", "tsx": "typescript", "rs": "rust", "golang": "go", "c++": "cpp", "cxx": "cpp", "hpp": "cpp",
    "cs": "csharp", "c#": "csharp", "kt": "kotlin", "rb": "ruby", "objective-c": "objc", "objectivec": "objc",
    "yml": "yaml", "jsonc": "json", "json5": "json", "sh": "bash", "shell": "bash", "zsh": "bash", "console": "bash",
    "shell-session": "bash", "shellsession": "bash", "sh-session": "bash", "terminal": "bash", "md": "markdown",
    "dockerfile": "dockerfile", "docker": "dockerfile", "ps1": "powershell", "pwsh": "powershell",
}  # fmt: skip
_SIGNATURE = re.compile(
    r"^(?:(?:async |static |public |export )*"
    r"(?:def|func|fn|function|class|struct|enum|interface|trait|type|module)\s+[\w.$]+(?:[(<:]|$)"
    r"|(?:GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+/"
    r"|[\w.:#$]+(?:<[^>]*>)?\([^)]*\)?(?:\s*(?:->|:|=>).*)?$"
    r"|[\w$]+(?:(?:\.|::|#)[\w$]+)+$)"
)
_REFERENCE_TITLE = re.compile(
    r"\b(?:api|reference|parameters?|arguments?|options?|properties|props|methods?|attributes|returns?|signature)\b",
    re.IGNORECASE,
)
_REFERENCE_HEAD = re.compile(
    r"\b(?:parameters?|params?|arguments?|args?|options?|flags?|field|property|prop|attribute|method|type|default|"
    r"returns?|signature|required)\b",
    re.IGNORECASE,
)
_PROMPT = re.compile(r"^[^\S\n]*+(?:\$|>|PS [^>]*>|[\w.-]+@[\w.-]+[:~ ][^$#]*[$#])\s+\S", re.MULTILINE)
_RUNNER = re.compile(
    r"^[^\S\n]*+(?:sudo |npx? |pip3? |uv |yarn |pnpm |brew |apt(?:-get)? |docker |git |cargo |"
    r"go (?:get|install|run|build) |curl |wget |make |cd |export |python3? -m )",
    re.MULTILINE,
)
_SETTING = re.compile(r"^[^\S\n]*+[\"'\w.-]++\s*+[:=]\s*\S*", re.MULTILINE)


def language_name(info: str) -> str:
    """The language a fence names, under the name the parsers use; "" for none."""
    word = re.split(r"[\s,{:]", info.strip().lstrip("{.").lower(), maxsplit=1)[0].strip(".}")
    return "" if word in _NO_CODE else _ALIASES.get(word, word)


class Kinds:
    """The type and language of any range of an outline's lines."""

    def __init__(self, outline: Outline) -> None:
        self._lines = outline.lines
        self._fences = sorted(outline.fences, key=lambda fence: fence.start)
        self._starts = [fence.start for fence in self._fences]
        self._language = outline.language

    def of(self, start: int, end: int, heading: str) -> tuple[ChunkType, str]:
        """By what most of its characters are in."""
        inside = self._fences[bisect_left(self._starts, start) : bisect_left(self._starts, end)]
        sizes: Counter[tuple[ChunkType, str]] = Counter()
        tables = 0
        for fence in inside:
            size = self._size(fence.start, fence.end)
            if fence.kind == "code":
                sizes[self._code_type(fence)] += size
            elif _REFERENCE_HEAD.search(fence.info):
                tables += size
        if not sizes and not tables and not _SIGNATURE.match(heading):
            return "prose", self._language
        return self._decide(sizes, tables, self._size(start, end), heading)

    def _decide(
        self, sizes: Counter[tuple[ChunkType, str]], tables: int, total: int, heading: str
    ) -> tuple[ChunkType, str]:
        code = sum(sizes.values())
        (type_, language), _ = sizes.most_common(1)[0] if sizes else (("prose", ""), 0)
        named = language or self._language
        if _SIGNATURE.match(heading):
            return "api", named
        if tables * 2 > total or (tables and _REFERENCE_TITLE.search(heading)):
            return "api", named
        if code * 2 >= total:
            return type_, named
        return "prose", self._language

    def _code_type(self, fence: Fence) -> tuple[ChunkType, str]:
        word = re.split(r"[\s,{:]", fence.info.strip().lstrip("{.").lower(), maxsplit=1)[0].strip(".}")
        language = language_name(fence.info)
        if word in _COMMANDS:
            return "cmd", language
        if word in _CONFIGS:
            return "config", language
        if word:
            return "code", language
        return self._guess(fence), ""

    def _guess(self, fence: Fence) -> ChunkType:
        inside = [line for line in self._lines[fence.start + 1 : fence.end - 1] if line.strip()]
        text = "\n".join(inside)
        if len(_PROMPT.findall(text)) * 4 > len(inside) or len(_RUNNER.findall(text)) * 2 > len(inside):
            return "cmd"
        if inside and len(_SETTING.findall(text)) * 10 > len(inside) * 9:
            return "config"
        return "code"

    def _size(self, start: int, end: int) -> int:
        return sum(len(line.strip()) for line in self._lines[start:end])
