"""Git's ignore patterns, configuration and repository state, read from its files without running git."""

from __future__ import annotations

import os
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refdesk.system.files import read_rules
from refdesk.text.globs import ANY, FOLDERS, STAR, expression

# ── gitignore patterns: git's own wildmatch, byte for byte ──

_SPECIAL = frozenset(b"*?[\\")
_STAR, _QUERY, _OPEN, _CLOSE, _ESCAPE, _SLASH, _DASH = b"*?[]\\/-"


def _bytes_of(text: str) -> frozenset[int]:
    return frozenset(text.encode("ascii"))


_CLASSES: dict[bytes, frozenset[int]] = {
    b"alnum": _bytes_of(string.ascii_letters + string.digits),
    b"alpha": _bytes_of(string.ascii_letters),
    b"blank": _bytes_of(" \t"),
    b"cntrl": frozenset((*range(32), 127)),
    b"digit": _bytes_of(string.digits),
    b"graph": frozenset(range(33, 127)),
    b"lower": _bytes_of(string.ascii_lowercase),
    b"print": frozenset(range(32, 127)),
    b"punct": _bytes_of(string.punctuation),
    b"space": _bytes_of(" \t\n\r\v\f"),
    b"upper": _bytes_of(string.ascii_uppercase),
    b"xdigit": _bytes_of(string.hexdigits),
}


class _NeverMatches(Exception):
    """Raised for a pattern that git rejects: an open bracket, an unknown class, a trailing backslash."""


def compile_pattern(pattern: bytes, *, slashes: bool, ignore_case: bool = False) -> re.Pattern[bytes] | None:
    """The regular expression equivalent to git's pattern; None for a pattern that never matches.

    With `slashes`, "*", "?" and brackets stop at "/" and "**" crosses it, as for a pattern that names a path.
    """
    start = next((i for i, byte in enumerate(pattern) if byte in _SPECIAL), len(pattern))
    try:
        # Git compares the literal prefix separately, so a "**" right after it counts as being at a boundary.
        items = [re.escape(chr(byte)) for byte in pattern[:start]] + _items(pattern[start:], slashes)
    except _NeverMatches:
        return None
    written = expression(items)
    assert written is not None, "git has neither groups nor stars in a row that need an automaton"
    return re.compile(written.encode("latin-1"), re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _items(pattern: bytes, slashes: bool) -> list[str]:
    items: list[str] = []
    at, end = 0, len(pattern)
    while at < end:
        byte = pattern[at]
        if byte == _STAR:
            item, at = _stars(pattern, at, slashes)
        elif byte == _QUERY:
            item, at = "[^/]" if slashes else ".", at + 1
        elif byte == _OPEN:
            item, at = _bracket(pattern, at + 1, slashes)
        elif byte == _ESCAPE:
            if at + 1 == end:
                raise _NeverMatches
            item, at = re.escape(chr(pattern[at + 1])), at + 2
        else:
            item, at = re.escape(chr(byte)), at + 1
        items.append(item)
    return items


def _stars(pattern: bytes, at: int, slashes: bool) -> tuple[str, int]:
    """The expression for a run of stars, and the position after it."""
    after = at
    while pattern[after : after + 1] == b"*":
        after += 1
    if not slashes:
        return ANY, after
    at_boundary = at == 0 or pattern[at - 1] == _SLASH
    rest = pattern[after : after + 2]
    if after - at < 2 or not at_boundary or not (rest == b"" or rest[:1] == b"/" or rest == b"\\/"):
        return STAR, after
    if rest[:1] == b"/":
        return FOLDERS, after + 1
    return ANY, after


def _bracket(pattern: bytes, at: int, slashes: bool) -> tuple[str, int]:
    """The expression for a bracket expression, and the position after it."""
    negated = pattern[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    previous, first = -1, True
    while first or _at(pattern, at) != _CLOSE:
        first = False
        byte = _at(pattern, at)
        if byte == _ESCAPE:
            at += 1
            byte = _at(pattern, at)
            members.add(byte)
        elif byte == _DASH and previous >= 0 and pattern[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if pattern[at + 1] == _ESCAPE else 1
            members.update(range(previous, _at(pattern, at) + 1))
            byte = -1
        elif byte == _OPEN and pattern[at + 1 : at + 2] == b":":
            close = pattern.find(b"]", at + 2)
            if close < 0:
                raise _NeverMatches
            if close - 1 > at + 1 and pattern[close - 1] == ord(":"):
                if (name := pattern[at + 2 : close - 1]) not in _CLASSES:
                    raise _NeverMatches
                members |= _CLASSES[name]
                at, byte = close, -1
            else:
                members.add(byte)
        else:
            members.add(byte)
        previous = byte
        at += 1
    if slashes:
        members = members | {_SLASH} if negated else members - {_SLASH}
    inside = "".join(f"\\x{byte:02x}" for byte in sorted(members))
    return f"[{'^' * negated}{inside}]" if members else "(?!)", at + 1


def _at(pattern: bytes, at: int) -> int:
    if at >= len(pattern):
        raise _NeverMatches
    return pattern[at]


# ── configuration ──

_CONFIG = re.compile(
    r"""
      \s++ | [#;][^\n]*+
    | \[ (?P<section>[^]"\n]*+) (?: "(?P<sub>(?:[^"\\\n]|\\.)*+)" [^]\n]*+ )? \]
    | (?P<key>[A-Za-z0-9-]++) [ \t]*+
      (?: = (?P<value>(?: "(?:[^"\\\n]|\\[\s\S])*+" | \\[\s\S] | [^"\\\n\#;] )*+) (?:[#;][^\n]*+)? )? (?: \n | \Z )
    """,
    re.VERBOSE,
)
_QUOTED = re.compile(r'\\([\s\S])|"')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_MAX_INCLUDES = 10  # git's own limit on files that include each other


def read_config(files: list[Path], depth: int = _MAX_INCLUDES) -> dict[str, str]:
    """All settings by lower-case "section.key", with includes that have no condition; the last file and line win."""
    settings: dict[str, str] = {}
    for file in files:
        try:
            text = read_rules(file, follow=True).decode("utf-8", "surrogateescape")
        except (OSError, ValueError):
            continue
        for section, subsection, key, value in parse_config(text):
            if subsection is None:
                settings[f"{section}.{key}"] = value
            if (section, subsection, key) == ("include", None, "path") and depth:
                settings |= read_config([file.parent / expand(value)], depth - 1)
    return settings


def user_config_files() -> list[Path]:
    """The system's and the user's configuration files, lowest precedence first."""
    return [Path("/etc/gitconfig"), config_home() / "git" / "config", Path("~/.gitconfig").expanduser()]


def config_home() -> Path:
    """The folder that git uses as $XDG_CONFIG_HOME."""
    named = os.path.expandvars("$XDG_CONFIG_HOME")
    return Path(named) if named and not named.startswith("$") else Path("~/.config").expanduser()


def expand(path: str) -> str:
    """The path with a leading ~ expanded as git does; unchanged if there is no such home."""
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        return path


def parse_config(text: str) -> Iterator[tuple[str, str | None, str, str]]:
    """Each setting as section, subsection, key and value; what follows a syntax error is left out."""
    section, subsection = "", None
    text, at = text.removeprefix("\ufeff").replace("\r\n", "\n"), 0
    while found := _CONFIG.match(text, at):
        at = found.end()
        if found["key"]:
            written = found["value"]  # None for a key that stands alone
            plain = _QUOTED.sub(lambda one: _ESCAPES.get(one[1], ""), (written or "").strip(" \t"))
            yield section, subsection, found["key"].lower(), "true" if written is None else plain
        elif found["section"] is not None:
            section, _, dotted = found["section"].strip().lower().partition(".")
            subsection = dotted or None if found["sub"] is None else re.sub(r"\\(.)", r"\1", found["sub"])


_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_SYMBOLIC = 5  # how many symbolic refs may lead to one another


@dataclass(frozen=True, slots=True)
class Repository:
    work_tree: Path
    git_dir: Path  # this work tree's own
    common_dir: Path  # shared by all work trees of the repository

    @classmethod
    def at(cls, folder: Path) -> Repository | None:
        """The repository whose work tree the folder is, None where it is not one."""
        git_dir = folder / ".git"
        if not git_dir.is_dir():  # a file that names it
            text = _text(git_dir)
            git_dir = Path(os.path.normpath(folder / text.removeprefix("gitdir:").strip()))
            if not text.startswith("gitdir:"):
                return None
        if not os.path.lexists(git_dir / "HEAD"):
            return None
        named = _text(git_dir / "commondir")
        return cls(folder, git_dir, Path(os.path.normpath(git_dir / named)) if named else git_dir)

    @classmethod
    def around(cls, folder: Path) -> Repository | None:
        """The repository that the folder is in, None where it is in none."""
        return next((found for here in (folder, *folder.parents) if (found := cls.at(here))), None)

    def config(self) -> dict[str, str]:
        return read_config([*user_config_files(), self.common_dir / "config"])

    def head_commit(self) -> str:
        """The commit that is checked out, "" before the first one."""
        value = _text(self.git_dir / "HEAD")
        for _ in range(_MAX_SYMBOLIC):
            if not value.startswith("ref:"):
                return value if _COMMIT.fullmatch(value) else ""
            name = value.removeprefix("ref:").strip()
            if ".." in name.split("/") or name.startswith("/"):
                return ""
            value = _text(self.git_dir / name) or _text(self.common_dir / name)
            if not value:
                packed = _text(self.common_dir / "packed-refs").splitlines()
                value = next((line.split(" ")[0] for line in packed if line.endswith(" " + name)), "")
        return ""


def head_commit(root: Path) -> str:
    """The commit checked out in the repository around the folder, "" where there is none."""
    repository = Repository.around(Path(os.path.realpath(root)))
    return repository.head_commit() if repository else ""


def global_excludes(config: dict[str, str], work_tree: Path) -> Path:
    """The user's own ignore file, named by core.excludesFile or standing at its usual place."""
    named = config.get("core.excludesfile")
    return config_home() / "git" / "ignore" if named is None else work_tree / expand(named)


def is_true(value: str) -> bool:
    return value.lower() in ("true", "yes", "on", "1")


def _text(file: Path) -> str:
    try:
        return read_rules(file, follow=True).decode("utf-8", "surrogateescape").strip()
    except (OSError, ValueError):
        return ""
