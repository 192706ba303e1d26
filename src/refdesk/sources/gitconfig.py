"""What does git's configuration say?  Its files, read without running git."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from refdesk.beneath import read_rules
from refdesk.sources.wildmatch import compile_pattern

_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_MAX_INCLUDES = 10  # git's own limit on files that include each other


def read_config(files: list[Path], git_dir: Path | None = None) -> dict[str, str]:
    """Every setting by its lower-case "section.key", the last file and line winning, includes followed."""
    settings: dict[str, str] = {}
    for file in files:
        _read_into(settings, file, git_dir, _MAX_INCLUDES)
    return settings


def user_config_files() -> list[Path]:
    """The machine's and the user's configuration files, weakest first."""
    return [Path("/etc/gitconfig"), config_home() / "git" / "config", Path("~/.gitconfig").expanduser()]


def config_home() -> Path:
    """The folder that git takes for $XDG_CONFIG_HOME."""
    named = os.path.expandvars("$XDG_CONFIG_HOME")
    return Path(named) if named and not named.startswith("$") else Path("~/.config").expanduser()


def _read_into(settings: dict[str, str], file: Path, git_dir: Path | None, depth: int) -> None:
    try:
        text = read_rules(file, follow=True).decode("utf-8", "surrogateescape")
    except (OSError, ValueError):
        return
    for section, subsection, key, value in parse_config(text):
        if subsection is None:
            settings[f"{section}.{key}"] = value
        if key == "path" and depth and _is_included(section, subsection, file, git_dir):
            _read_into(settings, file.parent / expand(value), git_dir, depth - 1)


def expand(path: str) -> str:
    """The path with a leading ~ replaced as git does; as it is where no such home exists."""
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        return path


def _is_included(section: str, condition: str | None, file: Path, git_dir: Path | None) -> bool:
    if section == "include":
        return condition is None
    if section != "includeif" or condition is None or git_dir is None:
        return False
    kind, _, pattern = condition.partition(":")
    if kind not in ("gitdir", "gitdir/i"):
        return False
    if pattern.startswith("./"):
        pattern = f"{file.parent}/{pattern[2:]}"
    elif pattern.startswith("~"):
        pattern = expand(pattern) + ("/" if pattern.endswith("/") else "")
    elif not pattern.startswith("/"):
        pattern = "**/" + pattern
    if pattern.endswith("/"):
        pattern += "**"
    matches = compile_pattern(os.fsencode(pattern), slashes=True, ignore_case=kind == "gitdir/i")
    shapes = {str(git_dir), os.path.realpath(git_dir)}
    return matches is not None and any(matches.fullmatch(os.fsencode(shape)) for shape in shapes)


def parse_config(text: str) -> Iterator[tuple[str, str | None, str, str]]:
    """Each setting as section, subsection, key and value; what follows a syntax error is left out."""
    section, subsection = "", None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char.isspace():
            at += 1
        elif char in "#;":
            at = _line_end(text, at)
        elif char == "[":
            header = _header(text, at)
            if header is None:
                return
            section, subsection, at = header
        else:
            key_end = at
            while key_end < end and (text[key_end].isalnum() or text[key_end] == "-"):
                key_end += 1
            key = text[at:key_end].lower()
            if not key:
                return
            value, at = _value(text, key_end)
            yield section, subsection, key, value


def _line_end(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _header(text: str, at: int) -> tuple[str, str | None, int] | None:
    """Section, subsection and what follows "[section "sub"]"."""
    line_end = _line_end(text, at)
    quote = text.find('"', at, line_end)
    close = text.find("]", at, line_end)
    if close < 0:
        return None
    if quote < 0 or close < quote:
        name, _, sub = text[at + 1 : close].lower().partition(".")
        return name.strip(), sub or None, close + 1
    sub, here = "", quote + 1
    while here < line_end and text[here] != '"':
        here += text[here] == "\\"
        sub += text[here : here + 1]
        here += 1
    close = text.find("]", here, line_end)
    return None if close < 0 else (text[at + 1 : quote].strip().lower(), sub, close + 1)


def _value(text: str, at: int) -> tuple[str, int]:
    """The value behind a key, unquoted, and where its line ends; "true" for a key that stands alone."""
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if text[at : at + 1] != "=":
        return "true", _line_end(text, at)
    out, kept, quoted = "", 0, False  # `kept`: how much of `out` is safe from the trimming of spaces at the end
    at += 1
    while at < len(text) and (char := text[at]) != "\n":
        at += 1
        if char == '"':
            quoted = not quoted
            kept = len(out)
        elif char == "\\":
            out += _ESCAPES.get(text[at : at + 1], "") if text[at : at + 1] != "\n" else ""
            at += 1
            kept = len(out)
        elif char in "#;" and not quoted:
            at = _line_end(text, at)
        elif char in " \t" and not quoted:
            out += char if out else ""
        else:
            out += char
            kept = len(out)
    return out[:kept], at
