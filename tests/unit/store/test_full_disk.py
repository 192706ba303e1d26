"""What is said if the disk is full; a small disk of its own needs user namespaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_REFUSED = """
import pathlib, sys
from refdesk.app import open_desk
from refdesk.settings import Settings
from refdesk.store.words.index import IndexDamaged

def write():
    raise IndexDamaged("LockBusy")

with open_desk(Settings(library=pathlib.Path(sys.argv[1], "library"), embedder="none", workers=1)) as desk:
    desk._store._lexical._write_or_rebuild(write)
"""


def test_a_full_disk_is_named_and_not_what_followed_from_it(tmp_path: Path) -> None:
    small = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mounted = 'mount -t tmpfs -o size=8m tmpfs "$1" && exec "$0" -c "$2" "$1"'
    made = subprocess.run(
        [*small, mounted, sys.executable, str(tmp_path), _REFUSED], capture_output=True, text=True, check=False
    )
    if "unshare:" in made.stderr or "mount:" in made.stderr:
        pytest.skip("no disk of its own may be mounted here")
    assert made.stderr.splitlines()[-1].endswith(
        "can't be written: the disk is full. Free some disk space or check the folder's permissions; what was indexed"
        " is kept."
    )
