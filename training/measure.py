"""NDCG on pairs kept from training and on the held-out sets."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from compose import KINDS
from data import DEVICE, Pairs, Ragged, Texts, is_dev
from student import DIMENSION, Bags, Student


@torch.no_grad()
def ndcg(queries: torch.Tensor, passages: torch.Tensor, gold: torch.Tensor) -> float:
    """NDCG@10 where each query has one right passage."""
    total = 0.0
    for start in range(0, len(queries), 1_000):
        scores = queries[start : start + 1_000] @ passages.T
        right = scores.gather(1, gold[start : start + 1_000, None])
        rank = (scores > right).sum(1)
        total += (1 / torch.log2(rank.float() + 2))[rank < 10].sum().item()
    return total / len(queries)


def dev_sets(pairs: Pairs) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Query and passage numbers of the pairs kept from training, by kind."""
    names = list(KINDS)
    found = {}
    for name, kinds in {
        "doc": ["doc"],
        "docfull": ["docfull"],
        "head": ["heading", "question"],
        "path": ["path"],
    }.items():
        rows = np.flatnonzero(is_dev(pairs.package) & np.isin(pairs.kind, [names.index(kind) for kind in kinds]))[
            :12_000
        ]
        if len(rows) > 50:
            found[name] = (pairs.query[rows], pairs.passage[rows])
    return found


@torch.no_grad()
def measure(
    student: Student, sets: dict[str, tuple[Bags, Bags, torch.Tensor]], size: int = DIMENSION
) -> dict[str, float]:
    found = {}
    for name, (queries, passages, gold) in sets.items():
        vectors = []
        for side, bags in ((0, queries), (1, passages)):
            every = torch.arange(len(bags.starts) - 1, device=DEVICE)
            parts = [student(*bags.take(part), side)[:, :size] for part in every.split(20_000)]
            vectors.append(F.normalize(torch.cat(parts), dim=1))
        found[name] = round(ndcg(vectors[0], vectors[1], gold), 4)
    return found


def pick(texts: Texts, chosen: np.ndarray) -> Texts:
    """Some of the texts."""
    starts, ends = texts.units.starts[chosen], texts.units.starts[chosen + 1]
    places = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    units = Ragged(texts.units.values[places], np.concatenate([[0], np.cumsum(ends - starts)]))
    return Texts(units, texts.counts[places], texts.wordpieces)


def pick_words(rows: Ragged, chosen: np.ndarray) -> Ragged:
    starts, ends = rows.starts[chosen], rows.starts[chosen + 1]
    places = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    return Ragged(rows.values[places], np.concatenate([[0], np.cumsum(ends - starts)]))
