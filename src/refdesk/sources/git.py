"""What does a .git folder say?  Read from its files, without running git."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from refdesk.beneath import read_rules
from refdesk.sources.gitconfig import config_home, expand, read_config, user_config_files

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MAX_SYMBOLIC = 5  # how many symbolic refs may lead to one another


@dataclass(frozen=True, slots=True)
class Repository:
    """A work tree of a git repository."""

    work_tree: Path
    git_dir: Path  # this work tree's own
    common_dir: Path  # shared by all work trees of the repository

    @classmethod
    def at(cls, folder: Path) -> Repository | None:
        """The repository whose work tree the folder is, None where it is not one."""
        git_dir = _git_dir(folder / ".git")
        if git_dir is None or not os.path.lexists(git_dir / "HEAD"):
            return None
        named = _text(git_dir / "commondir")
        return cls(folder, git_dir, Path(os.path.normpath(git_dir / named)) if named else git_dir)

    @classmethod
    def around(cls, folder: Path) -> Repository | None:
        """The repository that the folder is in, None where it is in none."""
        return next((found for here in (folder, *folder.parents) if (found := cls.at(here))), None)

    def config(self) -> dict[str, str]:
        """Git's settings as they hold here."""
        files = [*user_config_files(), self.common_dir / "config"]
        settings = read_config(files, self.git_dir)
        if is_true(settings.get("extensions.worktreeconfig", "")):
            settings = read_config([*files, self.git_dir / "config.worktree"], self.git_dir)
        return settings

    def exclude_files(self, config: dict[str, str]) -> list[Path]:
        """The ignore files that hold in the whole work tree, strongest first, whether they exist or not."""
        return [self.common_dir / "info" / "exclude", global_excludes(config, self.work_tree)]

    def head_commit(self) -> str:
        """The commit that is checked out, "" before the first one."""
        value = _text(self.git_dir / "HEAD")
        for _ in range(_MAX_SYMBOLIC):
            if not value.startswith("ref:"):
                return value if _COMMIT.fullmatch(value) else ""
            name = value.removeprefix("ref:").strip()
            if ".." in name.split("/") or name.startswith("/"):
                return ""
            value = _text(self.git_dir / name) or _text(self.common_dir / name) or self._packed(name)
        return ""

    def _packed(self, name: str) -> str:
        lines = _text(self.common_dir / "packed-refs").splitlines()
        return next((line.split(" ")[0] for line in lines if line.endswith(" " + name)), "")


def head_commit(root: Path) -> str:
    """The commit checked out in the repository around the folder, "" where there is none."""
    repository = Repository.around(Path(os.path.realpath(root)))
    return repository.head_commit() if repository else ""


def global_excludes(config: dict[str, str], work_tree: Path) -> Path:
    """The user's own ignore file, named by core.excludesFile or standing at its usual place."""
    named = config.get("core.excludesfile")
    return config_home() / "git" / "ignore" if named is None else work_tree / expand(named)


def is_true(value: str) -> bool:
    """Whether git takes the setting's value for yes."""
    return value.lower() in ("true", "yes", "on", "1")


def _git_dir(link: Path) -> Path | None:
    """Where .git leads: itself, or what the file in its place names."""
    if link.is_dir():
        return link
    text = _text(link)
    if not text.startswith("gitdir:"):
        return None
    return Path(os.path.normpath(link.parent / text.removeprefix("gitdir:").strip()))


def _text(file: Path) -> str:
    try:
        return read_rules(file, follow=True).decode("utf-8", "surrogateescape").strip()
    except (OSError, ValueError):
        return ""
