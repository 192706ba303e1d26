"""The packed lists and pairs on the device, and the rows of pieces the precise model reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from precise_pack import read

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
START, SEPARATOR = 1, 2
HEAD = 24  # pieces of a passage that are always read; of a long one the rest is a window
DEPTH = 20


@dataclass
class Texts:
    """Rows of piece numbers, padded with zeros."""

    ids: torch.Tensor
    lengths: torch.Tensor

    @staticmethod
    def of(values: np.ndarray, lengths: np.ndarray) -> Texts:
        lengths = lengths.astype(np.int64)
        mask = np.arange(lengths.max())[None] < lengths[:, None]
        ids = np.zeros(mask.shape, np.int32)
        ids[mask] = values
        return Texts(torch.from_numpy(ids).to(DEVICE), torch.from_numpy(lengths).to(DEVICE))


@dataclass
class Lists:
    """Queries and, for each, the numbers of its candidates, padded with -1, with scores and which are right."""

    queries: Texts
    passages: Texts
    chosen: torch.Tensor
    scores: torch.Tensor
    right: torch.Tensor
    package: np.ndarray
    set: np.ndarray
    found: np.ndarray


def lists(path: Path) -> Lists:
    packed = read(path)
    counts = packed["counts"].astype(np.int64)
    mask = np.arange(counts.max())[None] < counts[:, None]
    chosen, scores, right = np.full(mask.shape, -1), np.zeros(mask.shape, np.float32), np.zeros(mask.shape, bool)
    chosen[mask], scores[mask], right[mask] = packed["chosen"], packed["scores"], packed["right"]
    return Lists(
        Texts.of(packed["query"], packed["query_lengths"]),
        Texts.of(packed["passage"], packed["passage_lengths"]),
        torch.from_numpy(chosen).to(DEVICE),
        torch.from_numpy(scores).to(DEVICE),
        torch.from_numpy(right).to(DEVICE),
        packed["package"],
        packed["set"],
        packed["found"],
    )


def rarity(passages: Texts, size: int) -> torch.Tensor:
    """How telling each piece is, 0 to 255: the logarithm of the share of passages without it."""
    held = torch.zeros(size, device=DEVICE)
    for start in range(0, len(passages.ids), 4_096):
        rows = passages.ids[start : start + 4_096].long().sort(1).values
        new = torch.ones_like(rows, dtype=torch.bool)
        new[:, 1:] = rows[:, 1:] != rows[:, :-1]
        held += torch.bincount(rows[new], minlength=size)
    telling = torch.log(len(passages.ids) / (held + 1))
    return (telling / telling.max() * 255).round().clamp(0, 255)


def arrange(
    query: torch.Tensor, query_length: torch.Tensor, passage: torch.Tensor, length: torch.Tensor, telling: torch.Tensor,
    places: int,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Rows of pieces and their roles: start, query, separator, the passage's head and its most telling window."""
    same = (passage[:, :, None] == query[:, None, :]) & (passage != 0)[:, :, None]
    in_query, in_passage = same.any(2), same.any(1)
    room = places - 2 - query_length
    window = room - HEAD
    gains = torch.where(in_query, telling[passage], 0.0)
    sums = F_pad(gains.cumsum(1))
    starts = torch.arange(passage.shape[1] + 1, device=passage.device)[None]
    ends = (starts + window[:, None]).clamp(max=passage.shape[1])
    held = sums.gather(1, ends) - sums
    allowed = (starts >= HEAD) & (starts <= (length - window)[:, None].clamp(min=HEAD))
    start = torch.where(allowed, held, -1.0).argmax(1)
    place = torch.arange(places, device=passage.device)[None]
    inside = place - query_length[:, None] - 2
    source = torch.where(inside < HEAD, inside, inside - HEAD + start[:, None])
    is_passage = (inside >= 0) & (source < length[:, None])
    is_query = (place >= 1) & (place <= query_length[:, None])
    source = source.clamp(0, passage.shape[1] - 1)
    asked = (place - 1).clamp(0, query.shape[1] - 1).expand(len(query), -1)
    ids = torch.where(is_query, query.gather(1, asked), 0)
    ids = torch.where(is_passage, passage.gather(1, source), ids)
    ids[:, 0] = START
    ids = torch.where(place == query_length[:, None] + 1, SEPARATOR, ids)
    roles = torch.where(is_query, in_passage.gather(1, asked).long(), 0)
    return ids, torch.where(is_passage, 2 + in_query.gather(1, source).long(), roles)


def F_pad(values: torch.Tensor) -> torch.Tensor:  # noqa: N802
    return torch.cat([torch.zeros_like(values[:, :1]), values], 1)


def rows(
    found: Lists, asked: torch.Tensor, chosen: torch.Tensor, telling: torch.Tensor, places: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows for lists of queries (one column of candidates each), flat."""
    many = chosen.shape[1]
    query = found.queries.ids[asked].long().repeat_interleave(many, 0)
    lengths = found.queries.lengths[asked].repeat_interleave(many, 0)
    flat = chosen.reshape(-1).clamp(min=0)
    ids, roles = arrange(query, lengths, found.passages.ids[flat].long(), found.passages.lengths[flat], telling, places)
    longest = min(places, -(-int((ids != 0).sum(1).max()) // 8) * 8)  # a length that attention is fast for
    return ids[:, :longest], roles[:, :longest]


def pair_lists(path: Path) -> tuple[Lists, torch.Tensor]:
    """The pairs as lists of one right passage each, and the numbers of its neighbours."""
    packed = read(path)
    many = len(packed["query_lengths"])
    numbers = torch.arange(many, device=DEVICE)
    pool = numbers // 6_000 * 6_000
    near = torch.from_numpy(packed["near"].astype(np.int64)).to(DEVICE) + pool[:, None]
    found = Lists(
        Texts.of(packed["query"], packed["query_lengths"]),
        Texts.of(packed["passage"], packed["passage_lengths"]),
        numbers[:, None],
        torch.zeros((many, 1), device=DEVICE),
        torch.ones((many, 1), dtype=torch.bool, device=DEVICE),
        np.zeros(many, np.int32),
        np.zeros(many, np.uint8),
        np.ones(many, bool),
    )
    return found, near


def draw_pairs(found: Lists, near: torch.Tensor, batch: int, others: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """Without end: queries, their candidates (the right one first), and which are right."""
    while True:
        order = torch.randperm(len(near), device=DEVICE)
        for start in range(0, len(order) - batch + 1, batch):
            asked = order[start : start + batch]
            taken = torch.rand((batch, near.shape[1]), device=DEVICE).argsort(1)[:, :others]
            chosen = torch.cat([asked[:, None], near[asked].gather(1, taken)], 1)
            right = torch.zeros_like(chosen, dtype=torch.bool)
            right[:, 0] = True
            yield asked, chosen, right


def draw_lists(found: Lists, keep: torch.Tensor, batch: int, others: int) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same of the engine's lists: one right candidate and others, the higher ranked the likelier."""
    depth = torch.arange(found.chosen.shape[1], device=DEVICE)[None]
    while True:
        order = keep[torch.randperm(len(keep), device=DEVICE)]
        for start in range(0, len(order) - batch + 1, batch):
            asked = order[start : start + batch]
            right, there = found.right[asked], found.chosen[asked] >= 0
            chance = torch.rand(right.shape, device=DEVICE) ** (1 / torch.where(depth < DEPTH, 1.0, 0.4))
            first = torch.where(right, chance, -1.0).argmax(1)
            chance = torch.where(right | ~there, -1.0, chance)
            rest = chance.argsort(1, descending=True)[:, :others]
            places = torch.cat([first[:, None], rest], 1)
            chosen = found.chosen[asked].gather(1, places)
            good = right.gather(1, places)
            chosen[:, 1:][good[:, 1:]] = -1
            good[:, 1:] = False
            yield asked, chosen, good
