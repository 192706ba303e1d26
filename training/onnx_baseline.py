"""Encodes the quality sets with MiniLM in 8 bits on the CPU, through the embedder of refdesk[transformer].

    python training/onnx_baseline.py --sets sets.json --teacher MINILM --model FOLDER --out OUT/minilm_int8.npz

MINILM holds weights.pt, config.json and tokenizer.json; FOLDER gets model_quantized.onnx and the tokenizer, if they
are not there.  Needed beside the project's requirements: torch, transformers, onnx, onnxruntime.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from refdesk.embed.onnx import OnnxEmbedder


def export(teacher: Path, folder: Path) -> None:
    """MiniLM's token vectors as an ONNX file with weights in 8 bits."""
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from transformers import BertConfig, BertModel

    folder.mkdir(parents=True, exist_ok=True)
    config = BertConfig(**json.loads((teacher / "config.json").read_text()))
    config._attn_implementation = "eager"
    model = BertModel(config, add_pooling_layer=False).eval()
    state = {name.removeprefix("bert."): value.float() for name, value in torch.load(teacher / "weights.pt").items()}
    model.load_state_dict(state, strict=False)

    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.ones((2, 8), dtype=torch.long)
    axes = {0: "batch", 1: "length"}
    whole = folder / "whole.onnx"
    torch.onnx.export(
        Bare(), (ids, ids), str(whole), input_names=["input_ids", "attention_mask"], output_names=["last_hidden_state"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "last_hidden_state": axes}, dynamo=False,
        opset_version=17,
    )  # fmt: skip
    quantize_dynamic(str(whole), str(folder / "model_quantized.onnx"), weight_type=QuantType.QInt8, per_channel=True)
    whole.unlink()
    shutil.copy(teacher / "tokenizer.json", folder / "tokenizer.json")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("sets", "teacher", "model", "out"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    options = arguments.parse_args()
    if not (options.model / "model_quantized.onnx").exists():
        export(options.teacher, options.model)
    embedder = OnnxEmbedder(options.model)
    print(embedder.identity, flush=True)
    kept: dict[str, Any] = {}
    for of, one in json.loads(options.sets.read_text()).items():
        for side, embed in (("queries", embedder.embed_queries), ("passages", embedder.embed_passages)):
            began, spent = time.perf_counter(), time.process_time()
            vectors = embed(one[side])
            kept[f"{of}_{side}"] = (vectors * 512).round().clip(-127, 127).astype(np.int8)
            print(
                of, side, len(vectors), f"{time.perf_counter() - began:.0f} s,",
                f"{len(vectors) / (time.process_time() - spent):.1f} a second of CPU", flush=True,
            )  # fmt: skip
        np.savez_compressed(options.out, **kept)


if __name__ == "__main__":
    main()
