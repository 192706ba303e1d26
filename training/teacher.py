"""The transformer that teaches: fine-tuned on the pairs, then asked for its view of every text."""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from data import DEVICE, Pairs, Ragged, Texts, draw, is_dev, log


def load_teacher(folder: Path) -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(**json.loads((folder / "config.json").read_text()))
    config._attn_implementation = "sdpa"
    model = BertModel(config, add_pooling_layer=False)
    state = torch.load(folder / "weights.pt", map_location="cpu")
    state = {name.removeprefix("bert."): value.float() for name, value in state.items()}
    missing = model.load_state_dict(state, strict=False)
    assert not [name for name in missing.missing_keys if "position_ids" not in name], missing
    return model.to(DEVICE)


def wordpieces(rows: Ragged, chosen: np.ndarray, limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = np.minimum(rows.starts[chosen + 1] - rows.starts[chosen], limit)
    width = int(math.ceil(lengths.max() / 16) * 16)
    places = rows.starts[chosen][:, None] + np.arange(width)[None]
    mask = np.arange(width)[None] < lengths[:, None]
    ids = np.where(mask, rows.values[places.clip(max=len(rows.values) - 1)], 0)
    return (
        torch.from_numpy(ids.astype(np.int64)).to(DEVICE, non_blocking=True),
        torch.from_numpy(mask).to(DEVICE, non_blocking=True),
    )


def teach(model: torch.nn.Module, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    with torch.autocast(DEVICE, torch.bfloat16):
        hidden = model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    kept = hidden.float() * mask[..., None]
    return F.normalize(kept.sum(1), dim=1)


def same(left: torch.Tensor) -> torch.Tensor:
    """Where two rows of a batch come from one record, so that neither is the other's negative."""
    clash = left[:, None] == left[None]
    clash.fill_diagonal_(False)
    return clash


def contrast(
    queries: torch.Tensor, passages: torch.Tensor, clash: torch.Tensor, scale: float | torch.Tensor
) -> torch.Tensor:
    logits = (queries @ passages.T * scale).masked_fill(clash, -1e4)
    target = torch.arange(len(queries), device=queries.device)
    return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2


def train_teacher(options: argparse.Namespace, queries: Texts, passages: Texts, pairs: Pairs) -> None:
    model = load_teacher(options.teacher)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.teacher_rate, weight_decay=0.01)
    generator = np.random.default_rng(1)
    keep = ~is_dev(pairs.package)
    batches: list[np.ndarray] = []
    while len(batches) < options.teacher_steps:
        epoch = draw(pairs, keep, generator)
        batches += [
            epoch[start : start + options.teacher_batch]
            for start in range(0, len(epoch) - options.teacher_batch + 1, options.teacher_batch)
        ]
        if not batches:
            batches = [epoch]
    batches = batches[: options.teacher_steps]
    began = time.time()
    for step, batch in enumerate(batches):
        if time.time() - began > options.teacher_seconds:
            log("teacher stopped by its time at step", step)
            break
        done = max(step / len(batches), (time.time() - began) / options.teacher_seconds)
        for group in optimizer.param_groups:
            group["lr"] = options.teacher_rate * min(1.0, (step + 1) / 100) * max(0.02, 1 - done)
        left = teach(model, *wordpieces(queries.wordpieces, pairs.query[batch], 64))
        right = teach(model, *wordpieces(passages.wordpieces, pairs.passage[batch], 128))
        loss = contrast(left, right, same(torch.from_numpy(pairs.record[batch]).to(DEVICE)), 20.0)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            log("teacher", step, "/", len(batches), f"loss {loss.item():.4f}", f"{time.time() - began:.0f} s")
    torch.save({name: value.half() for name, value in model.state_dict().items()}, options.work / "teacher.pt")


@torch.no_grad()
def encode(model: torch.nn.Module, rows: Ragged, limit: int) -> torch.Tensor:
    """The teacher's vectors, longest texts first so that little is padding."""
    order = np.argsort(-(rows.starts[1:] - rows.starts[:-1]), kind="stable")
    found = torch.zeros((len(rows), 384), dtype=torch.float16, device=DEVICE)
    step = 8_192 if DEVICE == "cuda" else 64
    for start in range(0, len(order), step):
        chosen = order[start : start + step]
        found[torch.from_numpy(chosen).to(DEVICE)] = teach(model, *wordpieces(rows, chosen, limit)).half()
    return found
