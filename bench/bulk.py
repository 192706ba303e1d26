"""Does adding documents one by one stay as fast as the collection grows?

`python -m bench.bulk [--documents N]`: the last thousand may take at most 1.3 times as long as the first.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from refdesk.app import open_desk
from refdesk.settings import Settings

FLOOR = 1.3
WORDS = "harp viola cello oboe flute tuba bassoon celesta timpani marimba lute lyre zither organ".split()  # noqa: SIM905


def note(number: int) -> str:
    chosen = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 30)]
    return f"# Note {number}\n\nNote {number} is about {' and '.join(chosen)}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=10_000)
    count = parser.parse_args().documents
    step = count // 10
    with tempfile.TemporaryDirectory() as folder, open_desk(Settings(library=Path(folder) / "library")) as desk:
        desk.create_collection("notes")
        times = []
        for start in range(0, count, step):
            began = time.perf_counter()
            for number in range(start, start + step):
                desk.ingest(f"data:text/markdown,{note(number).replace('#', '%23').replace(chr(10), '%0A')}", "notes")
            times.append(time.perf_counter() - began)
            print(f"{start + step:6} documents: {times[-1] / step * 1000:6.1f} ms each", flush=True)
        ratio = times[-1] / times[0]
        print(f"last {step} over first {step}: {ratio:.2f}, floor {FLOOR}: {'pass' if ratio <= FLOOR else 'FAIL'}")


if __name__ == "__main__":
    main()
