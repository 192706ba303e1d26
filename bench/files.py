"""Does the right file stand first?  Questions and changes of public repositories, asked of search_code as served.

python -m bench.files --clones FOLDER [--split tune|report|check] [--sets questions changes reports] [--repos NAME …]

FOLDER holds clones of the repositories that questions.yaml names, as OWNER+NAME or NAME, bare or not.  Each is indexed
as it was at the commit named there.  `questions` are written by hand; `changes` are the subjects of later commits that
changed one to four source files which were there, `reports` those with a message of more than forty words, whole.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from bench import metrics, tables
from tests.mcp_client.stdio import StdioClient

_FILE = Path(__file__).parent / "questions.yaml"
_LATER = 150  # commits after the one that is indexed
_MOST_FILES = 4
_SOURCE = re.compile(
    r"\.(?:py|go|rs|[cm]?js|tsx?|jsx|java|kt|swift|exs?|hs|php|c|h|cc|cpp|hpp|cs|rb|scala|lua|dart|sh|vue|zig|m|mm)$"
)
_BESIDE = re.compile(
    r"(?:^|/)(?:[\w-]*tests?|testing|specs?|__tests__|testdata|fixtures?|features|benchmarks?|examples?|docs?|vendor"
    r"|third_party)(?:/|$)|(?:^|/)(?:test_|conftest)|[._-](?:test|spec)s?\.|(?:Tests?|Spec|Suite)\.\w+$",
    re.IGNORECASE,
)
_CHORE = re.compile(
    r"^(?:merge|bump|release|prepare|version|chore|ci|docs?|style|build|tests?|deps|revert|v?\d+\.\d+|update (?:dep|ci|"
    r"change|readme|licen|copy))\b|typo|dependabot|changelog|copyright|whitespace|spelling|lint|prettier|gofmt|rustfmt",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"^(?:\[[^\]]+\]\s*|(?:feat|fix|perf|refactor)(?:\([^)]*\))?!?:\s*|(?:GH-|#)\d+:?\s*)+", re.IGNORECASE
)
_BEHIND = re.compile(
    r"\s*\((?:#|GH-|see #|closes #|fixes #)\d+[^)]*\)|\s+(?:fixes|closes|see|refs?)\s+#\d+.*$|\s*#\d+\s*$", re.I
)
_TRAILER = re.compile(
    r"(?:Signed-off|Co-authored|Change-Id|PiperOrigin|Reviewed|cc |Fixes|Closes|git-svn)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the files that answer it."""

    kind: str
    text: str
    files: tuple[str, ...]

    def ndcg(self, shown: Sequence[str]) -> float:
        """NDCG@10 of the files in the order they are shown."""
        gain = sum(1 / math.log2(rank + 2) for rank, file in enumerate(shown[:10]) if file in self.files)
        return gain / sum(1 / math.log2(rank + 2) for rank in range(len(self.files)))

    def found(self, shown: Sequence[str], within: int) -> float:
        return float(any(file in self.files for file in shown[:within]))


def git(clone: Path, *arguments: str) -> str:
    command = ["git", "-C", str(clone), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout


def changes(clone: Path, commit: str, sets: Sequence[str]) -> Iterator[Asked]:
    """What the commits after this one say of the files that they change."""
    there = set(git(clone, "ls-tree", "-r", "--name-only", commit).splitlines())
    shape = "--format=%x01%s%x02%b%x03"
    log = git(clone, "log", "--no-merges", "--reverse", "--name-status", "-M50", shape, f"{commit}..HEAD")
    taken = 0
    for entry in log.split("\x01")[1:]:
        said, _, listed = entry.partition("\x03")
        subject, _, body = said.partition("\x02")
        changed = [row.split("\t") for row in listed.strip().splitlines() if "\t" in row]
        files = [
            row[1] for row in changed if row[0][0] in "MR" and _SOURCE.search(row[1]) and not _BESIDE.search(row[1])
        ]
        text = _BEHIND.sub("", _BEFORE.sub("", subject)).strip()
        known = tuple(file for file in files if file in there)
        is_chore = _CHORE.search(subject) or _CHORE.search(text) or len(text.split()) < 4
        if is_chore or not known or len(files) > _MOST_FILES or len(changed) > 12:
            continue
        if "changes" in sets:
            yield Asked("change", text, known)
        message = "\n".join(line for line in body.splitlines() if not _TRAILER.match(line.strip()))
        if "reports" in sets and len(message.split()) > 40:
            yield Asked("report", f"{text}\n\n{message}", known)
        taken += 1
        if taken == _LATER:
            return


@contextmanager
def tree(clone: Path, commit: str) -> Iterator[Path]:
    """A folder with the repository's files as they were at a commit, until the end of the context."""
    with tempfile.TemporaryDirectory(prefix="refdesk-bench-") as scratch:
        folder = Path(scratch).resolve() / "tree"
        folder.mkdir()
        archive = subprocess.Popen(["git", "-C", str(clone), "archive", commit], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
        yield folder


@contextmanager
def served(clone: Path, commit: str) -> Iterator[Callable[..., dict[str, Any]]]:
    """search_code of a real server, over a repository as it was at a commit."""
    with tree(clone, commit) as folder:
        library = str(folder.with_name("library"))
        command = [sys.executable, "-m", "refdesk", "--library", library, "serve", "--toolsets", "code"]
        with StdioClient([*command, "--allow-root", str(folder)]) as client:
            client.initialize()
            client.call("index_codebase", {"path": str(folder)})
            yield lambda **given: client.call("search_code", {"path": str(folder), **given})["result"]


def answered(clone: Path, commit: str, asked: Sequence[Asked]) -> Iterator[tuple[Asked, list[str]]]:
    """Each question with the files that the served tool shows for it, best first."""
    with served(clone, commit) as search:
        for one in asked:
            answer = search(query=one.text, limit=10, format="json")["structuredContent"]
            yield one, [hit["path"] for hit in answer["results"]]


def repositories(clones: Path, split: str, only: Sequence[str] | None) -> Iterator[tuple[dict[str, Any], Path]]:
    """What questions.yaml says of each repository, and its clone."""
    for entry in yaml.safe_load(_FILE.read_text(encoding="utf-8")):
        if entry["split"] == split and (not only or entry["repo"] in only):
            yield entry, clone_of(clones, entry["repo"])


def questions(entry: dict[str, Any]) -> list[Asked]:
    return [Asked(one["kind"], one["ask"], tuple(one["files"])) for one in entry["questions"]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clones", type=Path, required=True)
    options.add_argument("--split", choices=["tune", "report", "check"], default="report")
    options.add_argument("--sets", nargs="*", choices=["questions", "changes", "reports"], default=["questions"])
    options.add_argument("--repos", nargs="*", help="as owner/name, to ask only some")
    options.add_argument("--json", type=Path)
    given = options.parse_args(arguments)
    results: dict[str, list[tuple[float, ...]]] = {}
    for entry, clone in repositories(given.clones, given.split, given.repos):
        asked = list(changes(clone, entry["commit"], given.sets))
        if "questions" in given.sets:
            asked += questions(entry)
        for one, shown in answered(clone, entry["commit"], asked):
            row = (one.ndcg(shown), *(one.found(shown, within) for within in (1, 5, 10)))
            for name in (one.kind, entry["language"], "all" if one.kind not in ("change", "report") else "commits"):
                results.setdefault(name, []).append(row)
        print(entry["repo"], len(asked), "asked", file=sys.stderr, flush=True)
    rows: list[tuple[str, ...]] = []
    kept: dict[str, Any] = {}
    for name, own in sorted(results.items()):
        means = [metrics.estimate([row[column] for row in own]) for column in range(4)]
        kept[name] = {
            "queries": len(own),
            **dict(zip(("ndcg", "acc1", "acc5", "acc10"), (m.mean for m in means), strict=True)),
        }
        rows.append((name, str(len(own)), str(means[0]), *(f"{mean.mean:.3f}" for mean in means[1:])))
    print(tables.show(f"files, {given.split}", ("of", "queries", "NDCG@10", "Acc@1", "Acc@5", "Acc@10"), rows))
    tables.keep("files", kept, given.json)


def clone_of(folder: Path, repo: str) -> Path:
    """The clone of a repository, as OWNER+NAME or NAME, bare or not."""
    owner, _, name = repo.partition("/")
    for place in (folder / f"{owner}+{name}" / "repo", folder / f"{owner}+{name}", folder / name):
        if place.exists():
            return place
    raise SystemExit(f"There is no clone of {repo} in {folder}: git clone it there as {name}.")


if __name__ == "__main__":
    main()
