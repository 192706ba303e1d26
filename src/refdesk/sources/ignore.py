"""Ignore rules: .gitignore files as git reads them, and .refdeskignore files, which take precedence."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from refdesk.sources.git import Repository, compile_pattern, global_excludes, is_true, read_config, user_config_files
from refdesk.system.files import read_rules
from refdesk.text.globs import MOST_CHARACTERS

IGNORED = "ignored by "
GIT_FILE = ".gitignore"
OWN_FILE = ".refdeskignore"
CONTROL = frozenset((GIT_FILE, OWN_FILE, ".git"))  # files that change the rules of their folder
_BOM = b"\xef\xbb\xbf"
_MOST_RULES = 10_000  # each is tried on every path below


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    line: int
    text: str
    negated: bool
    folders_only: bool
    by_name: bool  # matches the last part of a path, at any depth
    matches: re.Pattern[bytes]


def parse_rules(data: bytes, *, ignore_case: bool = False) -> tuple[list[Rule], list[int]]:
    """The rules of an ignore file in order, and the lines that are too long or too many to be rules."""
    rules: list[Rule] = []
    unread: list[int] = []
    for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), 1):
        if len(line) > MOST_CHARACTERS or (len(rules) == _MOST_RULES and line):
            unread.append(number)
            continue
        line = line.removesuffix(b"\r").partition(b"\0")[0]
        stripped = line.rstrip(b" ")
        if stripped != line:  # a space after a backslash stays
            line = stripped + b" " if (len(stripped) - len(stripped.rstrip(b"\\"))) % 2 else stripped
        if not line or line.startswith(b"#"):
            continue
        negated = line.startswith(b"!")
        pattern = line[1:] if negated else line
        folders_only = pattern.endswith(b"/")
        pattern = pattern.removesuffix(b"/")
        by_name = b"/" not in pattern
        matches = compile_pattern(pattern.removeprefix(b"/"), slashes=not by_name, ignore_case=ignore_case)
        if pattern and matches is not None:
            text = line.decode("utf-8", "replace")
            rules.append(
                Rule(
                    line=number, text=text, negated=negated, folders_only=folders_only, by_name=by_name, matches=matches
                )
            )
    return rules, unread


class RuleFile:
    """An ignore file, read on first use; one that can't be read has no rules."""

    def __init__(self, file: Path, base: int, shown: str, *, ignore_case: bool = False, in_tree: bool = False) -> None:
        self._file = file
        self._in_tree = in_tree  # untrusted: as in git, links are not followed
        self._base = base  # length of the path prefix that the rules are relative to
        self._shown = shown
        self._ignore_case = ignore_case
        self._rules: list[Rule] | None = None
        self._any: re.Pattern[bytes] | None = None
        self._unread: list[int] = []

    @property
    def unread(self) -> str:
        """Which lines are not used as rules, and why; "" if all are."""
        if self._rules is None:
            self._load()
        if not self._unread:
            return ""
        others = f" and {len(self._unread) - 1} more" if self._unread[1:] else ""
        limits = f"longer than {MOST_CHARACTERS} bytes, or behind {_MOST_RULES} rules"
        return f"line {self._unread[0]}{others} not taken for rules: {limits}"

    def verdict(self, path: bytes, name: bytes, is_folder: bool) -> str | None:
        """Why the path is ignored; "" if the last matching rule includes it, None if no rule matches."""
        if self._rules is None:
            self._load()
        below = path[self._base :]
        if self._any is None or not (self._any.fullmatch(name) or self._any.fullmatch(below)):
            return None
        for rule in self._rules or ():
            if (is_folder or not rule.folders_only) and rule.matches.fullmatch(name if rule.by_name else below):
                return "" if rule.negated else f"{IGNORED}{self._shown}:{rule.line} ({rule.text})"
        return None

    def _load(self) -> None:
        try:
            data = read_rules(self._file, follow=not self._in_tree)
        except (OSError, ValueError) as error:
            too_large = isinstance(error, OSError) and error.errno == errno.EFBIG
            data = bytes(MOST_CHARACTERS + 1) if too_large else b""  # reported as one line that is too long
        rules, self._unread = parse_rules(data, ignore_case=self._ignore_case)
        self._rules = rules[::-1]
        if self._rules:
            # One expression over all rules excludes most paths in one step; it may have false positives.
            either = b"|".join(b"(?:%b)" % rule.matches.pattern for rule in self._rules)
            self._any = re.compile(either, self._rules[0].matches.flags)


@dataclass(frozen=True, slots=True)
class Layer:
    """The ignore files that apply in a folder, nearest first."""

    top: str  # the absolute folder that matched paths are relative to, without a slash at its end
    own: tuple[RuleFile, ...] = ()
    git: tuple[RuleFile, ...] = ()
    ignore_case: bool = False

    def decision(self, folder: str, name: str, is_folder: bool) -> str | None:
        """Why an entry of an absolute folder is ignored; "" if .refdeskignore includes it, None if no rule decides."""
        if (own := self._ask(self.own, folder, name, is_folder)) is not None:
            return own
        return self._ask(self.git, folder, name, is_folder) or None

    def unread(self, name: str) -> str:
        """The lines of the nearest file of this name that are not used as rules, or ""."""
        nearest = {OWN_FILE: self.own, GIT_FILE: self.git}.get(name, ())[:1]
        return next((file.unread for file in nearest), "")

    def _ask(self, files: tuple[RuleFile, ...], folder: str, name: str, is_folder: bool) -> str | None:
        if not files:
            return None
        raw = os.fsencode(name)
        within = folder[len(self.top) + 1 :].replace(os.sep, "/")
        path = os.fsencode(f"{within}/{name}") if within else raw
        return next((v for file in files if (v := file.verdict(path, raw, is_folder)) is not None), None)

    def below(self, folder: str, shown: str, names: Collection[str]) -> tuple[Layer, list[Path]]:
        """The layer of a folder that has some of the control files, and the files it adds.

        `shown` is the folder's name in messages, with a trailing slash.
        """
        base = len(os.fsencode(folder)) - len(os.fsencode(self.top))
        own, git, ignore_case = self.own, self.git, self.ignore_case
        added: list[Path] = []
        if ".git" in names and (repository := Repository.at(Path(folder))) is not None:
            # A repository inside another follows its own rules only, as in git.
            config = repository.config()
            ignore_case = is_true(config.get("core.ignorecase", ""))
            excludes = global_excludes(config, repository.work_tree)
            # Strongest first, whether they exist or not.
            added += [repository.common_dir / "info" / "exclude", excludes]
            git = tuple(RuleFile(file, base, str(file), ignore_case=ignore_case) for file in added)
        if GIT_FILE in names:
            added.append(Path(folder, GIT_FILE))
            git = (RuleFile(added[-1], base, shown + GIT_FILE, ignore_case=ignore_case, in_tree=True), *git)
        if OWN_FILE in names:
            added.append(Path(folder, OWN_FILE))
            own = (RuleFile(added[-1], base, shown + OWN_FILE, in_tree=True), *own)
        return Layer(self.top, own, git, ignore_case), added


def outer_layer(root: str) -> tuple[Layer, list[Path]]:
    """The layer around a folder and its files: those of the enclosing repository, or the user's global rules."""
    repository = Repository.around(Path(root))
    if repository is None:
        excludes = global_excludes(read_config(user_config_files()), Path(root))
        top = root.rstrip("/")
        return Layer(top, git=(RuleFile(excludes, 0, str(excludes)),)), [excludes]
    top = str(repository.work_tree).rstrip("/")
    layer, files = Layer(top), list[Path]()
    between = Path(root).relative_to(repository.work_tree).parts
    for depth in range(len(between)):
        folder = "/".join((top, *between[:depth]))
        present = [name for name in CONTROL if os.path.lexists(f"{folder}/{name}")]
        layer, added = layer.below(folder, "../" * (len(between) - depth), present)
        files += added
    return layer, files
