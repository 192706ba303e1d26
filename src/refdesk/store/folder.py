"""What lies in a library's folder, whose is it, and who may read it?"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path

from refdesk.errors import LibraryDamaged, StoreError
from refdesk.system.files import replace_file

RECORD_FILE = "record.db"
SKILLS_FILE = "skills.db"  # of libraries up to version 4: playbooks are in the record since
CRAWL_FILE = "crawl.db"
VECTORS_FILE = "vectors.bin"
LEXICAL_FOLDER = "lexical"
MARK_FILE = "library.json"  # says that there is a record and which, so that a lost one is not taken for a new library
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_LOST = (
    "`refdesk restore BACKUP` brings a backup back; to start over, move the folder away or name another with --library."
)


def private(path: str, flags: int) -> int:
    """Opens a file that only its owner may read once it is made: an opener for open()."""
    return os.open(path, flags, _FILE_MODE)


def make_private(file: Path) -> None:
    """Makes the file, empty, if it is not there; what SQLite puts beside it takes its mode."""
    with contextlib.suppress(FileExistsError, OSError):  # whoever opens it says what is wrong
        os.close(private(str(file), os.O_CREAT | os.O_EXCL | os.O_WRONLY))


def make_all_private(folder: Path) -> None:
    """Takes the files of a folder from all but their owner, where another library made them."""
    with contextlib.suppress(OSError), os.scandir(folder) as files:
        for file in files:
            with contextlib.suppress(OSError):  # merged away meanwhile
                if file.stat().st_mode & 0o077:
                    os.chmod(file.path, _FILE_MODE)  # noqa: PTH101 - what scandir gives


def prepare(folder: Path) -> None:
    """Makes the folder, for its owner alone, and keeps it out of a repository or folder that it lies in."""
    try:
        is_new = not folder.exists() or not any(folder.iterdir())
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The library folder {folder} can't be made: {error.strerror}.", "Choose another folder."
        ) from error
    with contextlib.suppress(OSError):  # a library on a read-only disk needs neither
        if is_new:
            folder.chmod(_FOLDER_MODE)
        ignored = folder / ".gitignore"
        if not ignored.exists():
            with open(ignored, "w", encoding="utf-8", opener=private) as file:
                file.write("*\n")


def mark(folder: Path, library: str) -> None:
    """Notes which library the folder holds; the record is there for good before this is."""
    about = "The library in this folder; record.db carries the same id."
    with contextlib.suppress(OSError):  # read-only
        replace_file(folder / MARK_FILE, json.dumps({"library": library, "about": about}) + "\n")


def marked(folder: Path) -> str:
    """The id that was noted, "" for none."""
    try:
        return str(json.loads((folder / MARK_FILE).read_text(encoding="utf-8"))["library"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def refuse_lost(folder: Path, what: str, is_lost: Callable[[], bool]) -> None:
    """Raises when the folder held a record before, of which nothing is there any more."""
    signs = (MARK_FILE, VECTORS_FILE, f"{LEXICAL_FOLDER}/meta.json")
    # The record comes before its signs: where another process is making a library, it is there by now.
    if any((folder / sign).exists() for sign in signs) and is_lost():
        raise lost(folder, what)


def lost(folder: Path, what: str) -> LibraryDamaged:
    """The error for a library whose record is not its record."""
    return LibraryDamaged(f"The library {folder} has lost its record: {RECORD_FILE} {what}.", _LOST)
