"""The folder of a library: its files, permissions and identity; and the ids and names of what is in it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from refdesk.errors import InvalidName, LibraryDamaged, StoreError
from refdesk.settings import SHARED_FOLDER
from refdesk.system.files import private, replace_file

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's
_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_LONGEST_NAME = 255  # characters, as file systems have it; one that is made leaves room for a number
LONGEST_URL = 2_048  # characters of a crawled page's, as in sitemaps; a row of an index in Postgres may have 2,704


def new_id() -> str:
    """A new ULID: 48 bits of milliseconds and 80 random bits, so that ids sort by time."""
    value = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join([_LETTERS[value >> shift & 31] for shift in range(125, -1, -5)])


def checked_name(name: str) -> str:
    """Returns the name if it is valid for a collection, else raises InvalidName."""
    if not _NAME.fullmatch(name):
        raise InvalidName(f"Collection name {name!r} is not allowed.", "Use letters, digits, hyphens and underscores.")
    if len(name) > _LONGEST_NAME:
        raise InvalidName(f"Collection name {name[:40]}… is too long.", f"Use at most {_LONGEST_NAME} characters.")
    return name


def name_from(text: str) -> str:
    """A collection name made from a folder's or a site's name."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-")[: _LONGEST_NAME - 10] or "library"


# ── the folder ──

RECORD_FILE = "record.db"
SKILLS_FILE = "skills.db"  # of libraries up to version 4; playbooks are in the record since
CRAWL_FILE = "crawl.db"
VECTORS_FILE = "vectors.bin"
LEXICAL_FOLDER = "lexical"
METADATA_FILE = "metadata.json"  # the description of the docs corpus; read when the server starts
MARK_FILE = "library.json"  # names the record that belongs here, so that a lost one is not mistaken for a new library
_FOLDER_MODE = 0o700
_LOST = (
    "`refdesk restore BACKUP` brings a backup back; to start over, move the folder away or name another with --library."
)


class Library:
    """The folder of one library: the paths of its files, and its identity."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folder / RECORD_FILE  # the SQLite file with everything that can't be rebuilt
        self.old_playbooks = folder / SKILLS_FILE
        self.crawls = folder / CRAWL_FILE  # the SQLite file with the state of crawls
        self.vectors = folder / VECTORS_FILE
        self.lexical = folder / LEXICAL_FOLDER
        self.metadata = folder / METADATA_FILE
        self.writer_lock = folder / "writer.lock"  # of the record's writer
        self.writer = folder / "writer.json"  # names the writer that holds the lock
        self.waiting = folder / "waiting"  # has a file for each waiting writer, locked while it lives
        self.journal = folder / "journal.jsonl"  # the last calls of tools, one JSON object a line
        self.runs = folder / "runs"  # has a file for each of the last runs that a person started
        self.evaluations = folder / "evaluations"  # evaluation suites and their scores over time
        # Tells this machine from others of its name. It is not in the folder, which follows from the address: that
        # changes with the servers.
        self.machine = (folder.parent if folder.parent.name == SHARED_FOLDER else folder) / "machine"

    def crawl_lock(self, collection: str) -> Path:
        """The lock file of a crawl of that collection."""
        return self.folder / f"crawl-{collection}.lock"

    def size(self) -> int:
        """The total size of its files in bytes."""
        total = 0
        for file in self.folder.rglob("*"):
            with contextlib.suppress(OSError):  # removed by a merge
                total += file.stat().st_size if file.is_file() else 0
        return total

    def prepare(self) -> None:
        """Creates the folder, private to its owner, and excludes it from a repository or index around it."""
        try:
            is_new = not self.folder.exists() or not any(self.folder.iterdir())
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"The library folder {self.folder} can't be made: {error.strerror}.", "Choose another folder."
            ) from error
        with contextlib.suppress(OSError):  # a library on a read-only disk needs neither
            if is_new:
                self.folder.chmod(_FOLDER_MODE)
            ignored = self.folder / ".gitignore"
            if not ignored.exists():
                with open(ignored, "w", encoding="utf-8", opener=private) as file:
                    file.write("*\n")

    def machine_token(self) -> str:
        """What tells this machine from others of its name; it is this process's own if it can't be kept."""
        made = secrets.token_hex(8)
        try:
            if not self.machine.exists():
                draft = self.machine.with_name(f".machine-{made}")
                with open(draft, "x", encoding="utf-8", opener=private) as file:
                    file.write(f"{made}\n")
                try:
                    os.link(draft, self.machine)  # of several processes the first one's stays
                except FileExistsError:
                    draft.unlink()
                except OSError:  # a file system without links
                    draft.replace(self.machine)
                else:
                    draft.unlink()
            return self.machine.read_text(encoding="utf-8").strip() or made
        except (OSError, UnicodeDecodeError):
            return made

    def mark(self, library: str) -> None:
        """Writes the id of the library; the record is on disk before."""
        about = f"The library in this folder; {RECORD_FILE} carries the same id."
        with contextlib.suppress(OSError):  # read-only
            replace_file(self.folder / MARK_FILE, json.dumps({"library": library, "about": about}) + "\n")

    def marked(self) -> str:
        """The id written by `mark`, or ""."""
        try:
            return str(json.loads((self.folder / MARK_FILE).read_text(encoding="utf-8"))["library"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""

    def refuse_lost(self, what: str, is_lost: Callable[[], bool]) -> None:
        """Raises if the folder had a record that is now missing."""
        signs = (self.folder / MARK_FILE, self.vectors, self.lexical / "meta.json")
        # The record is written before its mark: if another process is creating the library, it is there by now.
        if any(sign.exists() for sign in signs) and is_lost():
            raise self.lost(what)

    def lost(self, what: str) -> LibraryDamaged:
        """The error for a library whose record is missing or foreign."""
        return LibraryDamaged(f"The library {self.folder} has lost its record: {RECORD_FILE} {what}.", _LOST)
