"""Turns a trained precise model into the package's files: an ONNX model in 8 bits, the pieces, how telling each is.

    python training/precise_export.py --model OUT/NAME.pt --telling OUT/telling.npy --out extras/refdesk-precise/src/refdesk_precise/data

Needed beside the project's requirements: torch, onnx, onnxruntime.
"""  # noqa: E501

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from precise_data import HEAD
from precise_model import load
from precise_pack import MOST_PASSAGE, MOST_PATH, MOST_QUERY, SPECIAL, VOCABULARY


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "telling", "out"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--version", default="1")
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    model = load(options.model)
    ids = torch.ones((2, 16), dtype=torch.long)
    axes = {0: "rows", 1: "pieces"}
    with tempfile.TemporaryDirectory() as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = f"{scratch}/whole.onnx"
        torch.onnx.export(
            model, (ids, ids), whole, input_names=["ids", "roles"], output_names=["score"], dynamo=False,
            dynamic_axes={"ids": axes, "roles": axes, "score": {0: "rows"}}, opset_version=17,
        )  # fmt: skip
        quantize_dynamic(whole, str(options.out / "model.onnx"), weight_type=QuantType.QInt8, per_channel=True)
    shutil.copy(VOCABULARY, options.out / "pieces.txt")
    np.load(options.telling).astype(np.uint8).tofile(options.out / "telling.u1")
    about = {
        "name": "refdesk-precise",
        "version": options.version,
        "sha256": hashlib.sha256((options.out / "model.onnx").read_bytes()).hexdigest(),
        "places": model.shape.places,
        "special": SPECIAL,
        "head": HEAD,
        "most_query": MOST_QUERY,
        "most_path": MOST_PATH,
        "most_passage": MOST_PASSAGE,
    }
    (options.out / "about.json").write_text(json.dumps(about, indent=2) + "\n")
    for path in sorted(options.out.iterdir()):
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
