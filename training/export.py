"""Puts a trained student into the package.

python training/export.py --student WORK/final --vocab VOCAB --version 1 --floor 0.3
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent.parent / "src" / "refdesk" / "embed" / "data"
LIMIT = 16_000_000


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--student", type=Path, required=True)
    arguments.add_argument("--vocab", type=Path, required=True)
    arguments.add_argument("--version", required=True)
    arguments.add_argument("--floor", type=float, default=0.0)
    arguments.add_argument("--out", type=Path, default=DATA)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = np.load(options.student.with_suffix(".rows.npy"))
    rest = np.load(options.student.with_suffix(".npz"))
    pairs = np.load(options.vocab / "bigrams.npy")
    scales = rest["scales"] / np.abs(rest["scales"]).max()
    # Cosines ignore a common factor; this one keeps the scales inside half precision.
    rows.tofile(options.out / "rows.i1")
    (scales * 1024).astype("<f2").tofile(options.out / "scales.f2")
    pairs.astype("<u2").tofile(options.out / "pairs.u2")
    shutil.copyfile(options.vocab / "pieces.txt", options.out / "pieces.txt")
    about = {
        "name": "refdesk-static",
        "version": options.version,
        "dimension": int(rows.shape[1]),
        "similarity_floor": options.floor,
        "repeats": [round(float(value), 6) for value in rest["repeats"]],
    }
    (options.out / "model.json").write_text(json.dumps(about, indent=2) + "\n")
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(size, "bytes")
    assert size <= LIMIT


if __name__ == "__main__":
    main()
