"""The static model that learns: vectors and weights of units, from the pairs and from the teacher."""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from compose import KINDS
from data import DEVICE, RUN, Pairs, Ragged, Texts, draw, is_dev, log
from teacher import encode, load_teacher, same

DIMENSION = 256
PREFIXES = (256, 128, 64)


@dataclass
class Variant:
    """What a student is trained with."""

    name: str
    epochs: int = 8
    batch: int = 16_384
    rate: float = 0.01
    contrast: float = 1.0
    distil: float = 1.0
    sides: bool = True
    bigrams: bool = True
    saturate: bool = True
    init: bool = True
    run: int = RUN
    temperature: float = 0.05
    prefixes: tuple[int, ...] = field(default=PREFIXES)
    dimension: int = DIMENSION
    dropout: float = 0.0


class Student(torch.nn.Module):
    """A vector and two weights, as query and as passage, for each unit; repetition counts less and less."""

    def __init__(self, variant: Variant, vectors: torch.Tensor, weights: torch.Tensor) -> None:
        super().__init__()
        self.variant = variant
        self.vectors = torch.nn.Parameter(vectors)
        self.weights = torch.nn.Parameter(weights[:, None].repeat(1, 2).contiguous())
        counts = torch.arange(16.0)
        self.repeats = torch.nn.Parameter(counts.sqrt() if variant.saturate else counts, requires_grad=variant.saturate)
        self.scale = torch.nn.Parameter(torch.tensor(math.log(1 / variant.temperature)))

    def forward(self, units: torch.Tensor, starts: torch.Tensor, counts: torch.Tensor, side: int) -> torch.Tensor:
        side = side if self.variant.sides else 0
        weights = F.embedding(units, self.weights)[:, side] * self.repeats[counts]
        if self.training and self.variant.dropout:
            weights = weights * (torch.rand_like(weights) > self.variant.dropout)
        return F.embedding_bag(units, self.vectors, starts, mode="sum", per_sample_weights=weights)


class Bags:
    """Texts as the student reads them, on the device."""

    def __init__(self, texts: Texts, variant: Variant, pieces: int) -> None:
        self.units = torch.from_numpy(texts.units.values.astype(np.int64)).to(DEVICE)
        self.counts = torch.from_numpy(texts.counts.astype(np.int64)).to(DEVICE)
        self.starts = torch.from_numpy(texts.units.starts).to(DEVICE)
        if not variant.bigrams:
            kept = self.units < pieces
            totals = torch.cat([torch.zeros(1, dtype=torch.long, device=DEVICE), kept.long().cumsum(0)])
            self.units, self.counts, self.starts = self.units[kept], self.counts[kept], totals[self.starts]

    def take(self, chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        starts, ends = self.starts[chosen], self.starts[chosen + 1]
        lengths = ends - starts
        offsets = torch.cumsum(lengths, 0) - lengths
        places = torch.arange(int(lengths.sum()), device=DEVICE) + torch.repeat_interleave(starts - offsets, lengths)
        return self.units[places], offsets, self.counts[places]


def first_vectors(
    options: argparse.Namespace, reader_size: int, vocabulary: list[str], keys: np.ndarray
) -> torch.Tensor:
    """A start for each unit: the teacher's view of the word, in as many dimensions as the student has."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(options.teacher / "tokenizer.json"))
    tokenizer.no_padding()
    words = [piece.removeprefix("##") for piece in vocabulary]
    words += [f"{words[key // 65536]} {words[key % 65536]}" for key in keys]
    encoded = [np.array(one.ids, np.uint16) for one in tokenizer.encode_batch(words)]
    rows = Ragged.of([(np.concatenate(encoded), np.array([len(one) for one in encoded]))])
    model = load_teacher(options.teacher)
    if (options.work / "teacher.pt").exists():
        model.load_state_dict(torch.load(options.work / "teacher.pt", map_location=DEVICE), strict=False)
    model.eval()
    found = encode(model, rows, 32).float()
    found = found - found.mean(0)
    _, _, axes = torch.linalg.svd(found[torch.randperm(len(found))[:20_000]], full_matrices=False)
    reduced = found @ axes[:DIMENSION].T
    return F.normalize(reduced, dim=1)


def train_student(
    variant: Variant,
    queries: Texts,
    passages: Texts,
    pairs: Pairs,
    vectors: torch.Tensor,
    pieces: int,
    targets: tuple[torch.Tensor, torch.Tensor] | None,
    seconds: float,
) -> Student:
    torch.manual_seed(7)
    generator = np.random.default_rng(7)
    left, right = Bags(queries, variant, pieces), Bags(passages, variant, pieces)
    frequency = torch.bincount(right.units, minlength=len(vectors)).float()
    rarity = torch.log1p(frequency.sum() / (frequency + 5))
    start = vectors.clone() if variant.init else F.normalize(torch.randn_like(vectors), dim=1)
    student = Student(variant, start[:, : variant.dimension].contiguous(), rarity / rarity.mean()).to(DEVICE)
    optimizer = torch.optim.Adam(
        [
            {"params": [student.vectors], "rate": variant.rate * 0.3},
            {"params": [student.weights, student.repeats], "rate": variant.rate},
            {"params": [student.scale], "rate": 0.002},
        ],
        betas=(0.9, 0.99),
        lr=variant.rate,
    )
    keep = ~is_dev(pairs.package)
    total = variant.epochs * max(
        1, int(sum((keep & (pairs.kind == i)).sum() * share for i, share in enumerate(KINDS.values()))) // variant.batch
    )
    step, began = 0, time.time()
    student.train()
    while step < total:
        epoch = draw(pairs, keep, generator, variant.run)
        for place in range(0, max(1, len(epoch) - variant.batch + 1), variant.batch):
            batch = epoch[place : place + variant.batch]
            done = max(step / total, (time.time() - began) / seconds)
            if done >= 1:
                step = total
                break
            for group in optimizer.param_groups:
                group["lr"] = group["rate"] * min(1.0, (step + 1) / 20) * (0.5 + 0.5 * math.cos(math.pi * done))
            loss = student_loss(student, left, right, pairs, batch, targets)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            step += 1
            if step % 200 == 0:
                log(variant.name, step, "/", total, f"loss {loss.item():.4f}", f"{time.time() - began:.0f} s")
    student.eval()
    return student


def student_loss(
    student: Student,
    left: Bags,
    right: Bags,
    pairs: Pairs,
    batch: np.ndarray,
    targets: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    variant = student.variant
    query = torch.from_numpy(pairs.query[batch]).to(DEVICE)
    passage = torch.from_numpy(pairs.passage[batch]).to(DEVICE)
    record = torch.from_numpy(pairs.record[batch]).to(DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16, enabled=False):
        asked = student(*left.take(query), 0)
        found = student(*right.take(passage), 1)
    clash = same(record)
    wanted = None
    if targets is not None and variant.distil:
        with torch.no_grad():
            near = (targets[0][query].to(torch.bfloat16) @ targets[1][passage].to(torch.bfloat16).T).float() * 20.0
            wanted = near.masked_fill_(clash, -1e4)
    loss = torch.zeros((), device=DEVICE)
    scale = student.scale.exp().clamp(max=60)
    for size in variant.prefixes:
        one, other = F.normalize(asked[:, :size], dim=1), F.normalize(found[:, :size], dim=1)
        logits = (one.to(torch.bfloat16) @ other.to(torch.bfloat16).T).float() * scale
        logits = logits.masked_fill(clash, -1e4)
        target = torch.arange(len(one), device=DEVICE)
        part = variant.contrast * (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2
        if wanted is not None:
            part = (
                part
                + variant.distil
                * (
                    F.kl_div(F.log_softmax(logits, 1), F.log_softmax(wanted, 1), reduction="batchmean", log_target=True)
                    + F.kl_div(
                        F.log_softmax(logits.T, 1), F.log_softmax(wanted.T, 1), reduction="batchmean", log_target=True
                    )
                )
                / 2
            )
        loss = loss + part * (1.0 if size == variant.dimension else 0.25)
    return loss


def save(student: Student, path: Path) -> None:
    """The student as int8 rows, with each row's scale on either side; under 16 MiB."""
    vectors = student.vectors.detach().float().cpu().numpy()
    weights = student.weights.detach().float().cpu().numpy()
    if not student.variant.sides:
        weights[:, 1] = weights[:, 0]
    peak = np.abs(vectors).max(1, keepdims=True).clip(min=1e-8)
    quantised = np.round(vectors / peak * 127).astype(np.int8)
    scales = (weights * peak / 127).astype(np.float32)
    np.save(path.with_suffix(".rows.npy"), quantised)
    np.savez(path.with_suffix(".npz"), scales=scales, repeats=student.repeats.detach().cpu().numpy())
