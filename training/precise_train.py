"""Trains the precise model: a teacher of six layers, then students of three that learn from it and from the lists.

    python training/precise_train.py --pack PACK --work WORK --held HELD.xz teacher student

Each stage keeps its result in WORK and is skipped when that is there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import precise_data as data
import torch
import torch.nn.functional as F  # noqa: N812
from precise_data import DEPTH, DEVICE, Lists
from precise_model import Precise, Shape, load, save
from precise_pack import SETS, read

BLENDS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def log(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


def start(shape: Shape, path: Path, layers: list[int], drop: float) -> Precise:
    """A model that begins as these of MiniLM's layers."""
    packed = read(path)

    def weight(name: str) -> torch.Tensor:
        values = torch.from_numpy(packed[name].astype(np.float32))
        return values * torch.from_numpy(packed[f"{name}.scale"].astype(np.float32)) if values.ndim == 2 else values

    model = Precise(shape, drop)
    table = weight("pieces")
    with torch.no_grad():
        if shape.narrow == shape.width:
            model.pieces.weight.copy_(table)
        else:
            _, _, axes = torch.linalg.svd(table - table.mean(0), full_matrices=False)
            axes = axes[: shape.narrow]
            model.pieces.weight.copy_((table - table.mean(0)) @ axes.T)
            model.widen.weight.copy_(axes.T)
            model.widen.bias.copy_(table.mean(0))
        model.places.weight.copy_(weight("embeddings.position_embeddings.weight")[: shape.places])
        kinds = weight("embeddings.token_type_embeddings.weight")
        model.roles.weight.copy_(kinds[[0, 0, 1, 1]])
        model.norm.weight.copy_(weight("embeddings.LayerNorm.weight"))
        model.norm.bias.copy_(weight("embeddings.LayerNorm.bias"))
        for layer, number in zip(model.layers, layers, strict=True):
            own = f"encoder.layer.{number}."
            for side in ("weight", "bias"):
                mixed = [weight(f"{own}attention.self.{one}.{side}") for one in ("query", "key", "value")]
                getattr(layer.mix, side).copy_(torch.cat(mixed))
                for part, name in (
                    (layer.out, "attention.output.dense"),
                    (layer.norm1, "attention.output.LayerNorm"),
                    (layer.up, "intermediate.dense"),
                    (layer.down, "output.dense"),
                    (layer.norm2, "output.LayerNorm"),
                ):
                    getattr(part, side).copy_(weight(f"{own}{name}.{side}"))
    return model.to(DEVICE)


def scores(
    model: Precise, found: Lists, asked: torch.Tensor, chosen: torch.Tensor, telling: torch.Tensor
) -> torch.Tensor:
    """A number for each candidate, those that are padding far below."""
    ids, roles = data.rows(found, asked, chosen, telling, model.shape.places)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=DEVICE == "cuda"):
        given = model(ids, roles)
    return given.float().view(chosen.shape).masked_fill(chosen < 0, -1e4)


def train(
    model: Precise, telling: torch.Tensor, parts: list[tuple[Lists, Iterator[tuple[torch.Tensor, ...]], float]],
    options: argparse.Namespace, teacher: Precise | None, name: str,
) -> None:  # fmt: skip
    """Each part for its seconds, the rate falling to nothing over all of them."""
    tables = [one for key, one in model.named_parameters() if key.startswith(("pieces", "widen", "roles", "score"))]
    rest = [one for key, one in model.named_parameters() if not key.startswith(("pieces", "widen", "roles", "score"))]
    groups = [{"params": tables, "base": 4 * options.rate}, {"params": rest, "base": options.rate}]
    optimizer = torch.optim.AdamW(groups, lr=options.rate, weight_decay=0.01, betas=(0.9, 0.98))
    model.train()
    total, before, step = sum(seconds for _, _, seconds in parts), 0.0, 0
    for found, batches, seconds in parts:
        began, shown = time.time(), 0.0
        while (spent := time.time() - began) < seconds:
            asked, chosen, right = next(batches)
            left = 1 - (before + spent) / total
            for group in optimizer.param_groups:
                group["lr"] = group["base"] * min(1.0, (step + 1) / 200) * max(0.01, left)
            given = scores(model, found, asked, chosen, telling)
            loss = F.cross_entropy(given, right.long().argmax(1), label_smoothing=0.0)
            if teacher is not None:
                with torch.no_grad():
                    wanted = scores(teacher, found, asked, chosen, telling)
                loss = (
                    options.own * loss
                    + F.kl_div(
                        F.log_softmax(given / options.heat, 1),
                        F.softmax(wanted / options.heat, 1),
                        reduction="batchmean",
                    )
                    * options.heat**2
                )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
            if spent - shown > 20 or step == 1:
                shown = spent
                first = (given.argmax(1) == 0).float().mean()
                log(name, step, f"loss {loss.item():.4f}", f"right first {first:.3f}", f"{spent:.0f} s")
        before += seconds
    model.eval()


@torch.no_grad()
def judge(model: Precise, found: Lists, numbers: np.ndarray, telling: torch.Tensor) -> np.ndarray:
    """The model's numbers for the first candidates of each list."""
    rows = []
    for first in range(0, len(numbers), 64):
        asked = torch.from_numpy(numbers[first : first + 64]).to(DEVICE)
        rows.append(scores(model, found, asked, found.chosen[asked][:, :DEPTH], telling).cpu().numpy())
    return np.concatenate(rows)


def ndcg(order_by: np.ndarray, right: np.ndarray) -> np.ndarray:
    ranked = np.take_along_axis(right, np.argsort(-order_by, axis=1, kind="stable"), 1)[:, :10]
    place = ranked.argmax(1)
    return np.where(ranked.any(1), 1 / np.log2(place + 2), 0.0)


def level(values: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Each row with mean 0 and spread 1 over what is there."""
    held = np.where(there, values, np.nan)
    spread = np.nanstd(held, 1, keepdims=True)
    return np.where(there, (values - np.nanmean(held, 1, keepdims=True)) / np.where(spread > 1e-9, spread, 1.0), -99.0)


def report(model: Precise, found: Lists, numbers: np.ndarray, telling: torch.Tensor, name: str) -> dict[str, Any]:
    """NDCG@10 of each set for each blend of the first stage's score with the model's."""
    given = judge(model, found, numbers, telling)
    asked = torch.from_numpy(numbers).to(DEVICE)
    first = found.scores[asked][:, :DEPTH].cpu().numpy()
    right = (found.right[asked][:, :DEPTH].cpu().numpy()) & found.found[numbers][:, None]
    there = (found.chosen[asked][:, :DEPTH] >= 0).cpu().numpy() & (first > 0)
    mine, theirs = level(given, there), level(first, there)
    lines: dict[str, Any] = {}
    for number, of in enumerate(SETS):
        own = found.set[numbers] == number
        if own.any():
            reached: dict[Any, float] = {
                w: round(float(ndcg(w * mine[own] + (1 - w) * theirs[own], right[own]).mean()), 4) for w in BLENDS
            }
            lines[of] = {"lists": int(own.sum()), "best": round(float(right[own].any(1).mean()), 4), **reached}
    for of, line in lines.items():
        log(name, of, line)
    return lines


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pack", "work", "out"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--held", type=Path, help="the tuning halves of the quality sets")
    arguments.add_argument("--variants", type=Path, help="a JSON list of students")
    arguments.add_argument("--most", type=int, default=10_000, help="lists that are measured at most")
    arguments.add_argument("--batch", type=int, default=512)
    arguments.add_argument("--others", type=int, default=7)
    arguments.add_argument("--teacher-seconds", type=float, nargs=2, default=(150, 60))
    arguments.add_argument("stages", nargs="+", choices=["teacher", "student"])
    options = arguments.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(1)
    options.work.mkdir(parents=True, exist_ok=True)
    pairs, near = data.pair_lists(options.pack / "pairs.xz")
    found = data.lists(options.pack / "lists.xz")
    held = data.lists(options.held) if options.held else None
    size = read(options.pack / "start.xz")["pieces"].shape[0]
    telling = data.rarity(pairs.passages, size)
    np.save(options.out / "telling.npy", telling.cpu().numpy().astype(np.uint8))
    telling = telling.float()
    is_dev = found.package % 12 == 0
    learnt = torch.from_numpy(np.flatnonzero(~is_dev & found.right.any(1).cpu().numpy())).to(DEVICE)
    dev = np.flatnonzero(is_dev)[: options.most]
    log(len(near), "pairs", len(learnt), "lists", len(dev), "lists kept for choosing")

    def parts(seconds: tuple[float, float]) -> list[tuple[Lists, Iterator[tuple[torch.Tensor, ...]], float]]:
        return [
            (pairs, data.draw_pairs(pairs, near, options.batch, options.others), seconds[0]),
            (found, data.draw_lists(found, learnt, max(8, options.batch * 3 // 4), options.others + 4), seconds[1]),
        ]

    def measure(model: Precise, name: str) -> dict[str, Any]:
        lines = {"dev": report(model, found, dev, telling, f"{name} dev")}
        if held is not None:
            lines["held"] = report(model, held, np.arange(min(options.most, len(held.set))), telling, f"{name} held")
        return lines

    place = options.work / "teacher.pt"
    if "teacher" in options.stages and not place.exists():
        options.rate, options.own, options.heat = 1e-4, 1.0, 1.0
        teacher = start(Shape(size, narrow=384, layers=6, places=160), options.pack / "start.xz", [*range(6)], 0.1)
        train(teacher, telling, parts(options.teacher_seconds), options, None, "teacher")
        save(teacher, place)
        measure(teacher, "teacher")
    if "student" not in options.stages:
        return
    known = load(place).to(DEVICE) if place.exists() else None
    variants: list[dict[str, Any]] = (
        json.loads(options.variants.read_text()) if options.variants else [{"name": "student"}]
    )
    for variant in variants:
        torch.manual_seed(2)
        options.rate, options.own, options.heat = (
            variant.get("rate", 2e-4),
            variant.get("own", 0.5),
            variant.get("heat", 1.0),
        )
        layers = variant.get("layers", [0, 2, 5])
        shape = Shape(size, layers=len(layers), narrow=variant.get("narrow", 128), places=variant.get("places", 96))
        student = start(shape, options.pack / "start.xz", layers, variant.get("drop", 0.0))
        teach = known if variant.get("teacher", True) else None
        train(student, telling, parts(variant.get("seconds", (120, 60))), options, teach, variant["name"])
        save(student, options.out / f"{variant['name']}.pt")
        lines = {"variant": variant, **measure(student, variant["name"])}
        with (options.out / "students.jsonl").open("a") as file:
            file.write(json.dumps(lines) + "\n")


if __name__ == "__main__":
    main()
