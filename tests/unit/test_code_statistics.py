"""How is told what was left out of an index?"""

from __future__ import annotations

from pathlib import Path

from refdesk.app import open_desk
from refdesk.ingest.prepare import Report
from refdesk.model import Skipped
from refdesk.settings import Settings
from refdesk.toolsets.code.answers import statistics


def test_reasons_are_counted_without_the_advice_that_follows_them(tmp_path: Path) -> None:
    needs = "pdf files need an extra that is not installed. Install it with: pip install 'refdesk[office]'"
    skipped = [
        Skipped(path="a.pdf", reason=needs),
        Skipped(path="b.pdf", reason=needs),
        Skipped(path="c.bin", reason="binary: a NUL byte at offset 2"),
        Skipped(path="d.ipynb", reason="nothing to read: the notebook has no filled cells"),
    ]
    with open_desk(Settings(library=tmp_path / "library", embedder="none", workers=1)) as desk:
        desk.create_collection("code")
        told = statistics(Report(collection="code", skipped=skipped), tmp_path, desk)
    assert told["skipped_reasons"] == "2 pdf files need an extra that is not installed, 1 binary, 1 nothing to read"
    assert told["skipped_files"][0] == {"path": "a.pdf", "reason": needs}
