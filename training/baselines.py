"""Encodes the quality sets with the transformer before and after fine-tuning, and with vectors distilled from it.

python training/baselines.py --sets sets.json --teacher MINILM --work WORK --out OUT
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from data import DEVICE, Ragged, log
from measure import ndcg
from teacher import encode, load_teacher
from tokenizers import Tokenizer


def rows_of(texts: list[str], folder: Path, limit: int, special: bool = True) -> Ragged:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)
    encoded = [np.array(one.ids, np.uint16) for one in tokenizer.encode_batch(texts, add_special_tokens=special)]
    return Ragged.of([(np.concatenate(encoded), np.array([len(one) for one in encoded]))])


def distilled(model: torch.nn.Module) -> torch.Tensor:
    """A vector for each of the transformer's own word pieces alone: 256 axes, rarer weighs more."""
    size = model.config.vocab_size
    ids = np.stack([np.full(size, 101), np.arange(size), np.full(size, 102)], 1).astype(np.uint16)
    found = encode(model, Ragged(ids.ravel(), np.arange(0, 3 * size + 1, 3)), 3).float()
    found = found - found.mean(0)
    _, _, axes = torch.linalg.svd(found, full_matrices=False)
    chance = 1 / torch.arange(1, size + 1, device=DEVICE)
    weights = 1e-4 / (1e-4 + chance / chance.sum())
    return (found @ axes[:256].T) * weights[:, None]


def bag(vectors: torch.Tensor, rows: Ragged) -> torch.Tensor:
    ids = torch.from_numpy(rows.values.astype(np.int64)).to(DEVICE)
    return F.normalize(F.embedding_bag(ids, vectors, torch.from_numpy(rows.starts[:-1]).to(DEVICE), mode="mean"), dim=1)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("sets", "teacher", "work", "out"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    options = arguments.parse_args()
    sets = json.loads(options.sets.read_text())
    model = load_teacher(options.teacher).eval()
    for name in ("minilm", "teacher"):
        if name == "teacher":
            if not (options.work / "teacher.pt").exists():
                break
            model.load_state_dict(torch.load(options.work / "teacher.pt", map_location=DEVICE), strict=False)
        static = distilled(model)
        kept, scores = {}, {}
        for of, one in sets.items():
            gold = torch.tensor(one["gold"], device=DEVICE)
            both = [
                encode(model, rows_of(one[side], options.teacher, limit), limit).float()
                for side, limit in (("queries", 64), ("passages", 256))
            ]
            bags = [
                bag(static, rows_of(one[side], options.teacher, 512, special=False)) for side in ("queries", "passages")
            ]
            scores[of] = (round(ndcg(both[0], both[1], gold), 4), round(ndcg(bags[0], bags[1], gold), 4))
            for side, vectors in zip(("queries", "passages"), both, strict=True):
                kept[f"{of}_{side}"] = (vectors * 512).round().clamp(-127, 127).to(torch.int8).cpu().numpy()
            for side, vectors in zip(("queries", "passages"), bags, strict=True):
                kept[f"{of}_{side}_static"] = (vectors * 512).round().clamp(-127, 127).to(torch.int8).cpu().numpy()
        log(name, "transformer, static distilled from it:", scores)
        for part in ("", "_static"):
            chosen = {
                key.removesuffix("_static"): value
                for key, value in kept.items()
                if key.endswith("_static") == bool(part)
            }
            np.savez_compressed(options.out / f"{name}{part}.npz", **chosen)


if __name__ == "__main__":
    main()
