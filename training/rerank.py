"""Learns the second stage: how much each feature of a candidate weighs, from queries with known answers.

    python training/rerank.py --found FOLDER [--write src/refdesk/search/weights.json] [--trees]

FOLDER is what collect.py kept.  Everything is judged by five folds that share no package; what is written is learned
from all of them.  Needs torch; --trees compares with small gradient-boosted trees and needs lightgbm.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from judged import KINDS, RERANKED, Found, group_of, judged, neighbours

from refdesk.search.rerank import BY_TEXT, NAMES, WORDS

SHARES = (0.2, 0.4, 0.6, 0.7, 0.8)
FOLDS = 5
# What was set by hand before, kept where the data say nothing of a feature.
BY_HAND = json.loads((Path(__file__).parent / "hand_weights.json").read_text())
HAND: dict[str, float] = BY_HAND["with_words"]
HAND_SHARES: dict[str, float] = BY_HAND["blend"]
# In what a blend of 1 is.  Signs are ours to say.  The known answers are never tests, generated code, constants or
# imports, because of how they were made, so what these may cost is bounded; a definition and a file that are named
# by the query weigh at least what they did.
BOUNDS: dict[str, tuple[float, float]] = {
    "definition": (0.9, 2.0), "named": (0.1, 1.0), "spelt name": (0.0, 0.3),
    "title": (0.0, 1.0), "path": (0.0, 0.5), "file": (0.5, 2.0),
    "phrase": (0.2, 0.2), "test": (-0.25, -0.14), "generated": (-0.2, -0.1), "example": (-0.1, -0.03),
    "outline": (-0.1, -0.02), "imports": (-0.2, 0.0), "function": (0.0, 0.2), "type": (0.0, 0.2),
    "value": (-0.1, 0.2), "length": (-0.3, 0.3), "neighbours": (0.0, 0.3), "words": (0.0, 2.0),
    "heading words": (0.0, 2.0), "path words": (0.0, 1.0),
}  # fmt: skip
BOUNDS |= {f"prose {name}": BOUNDS[name] for name in BY_TEXT}
GROUPS = {
    "all words": WORDS,
    "words": ("words",),
    "heading words": ("heading words",),
    "path words": ("path words",),
    "title and path shares": ("title", "path"),
    "kind of passage": ("function", "type", "value", "imports"),
    "length": ("length",),
    "neighbours": ("neighbours",),
    "names": ("definition", "named", "spelt name"),
    "place": ("test", "generated", "example", "outline"),
}


@dataclass(frozen=True, slots=True)
class Learned:
    """Shares of meaning by kind of query, and the weights of the features."""

    shares: dict[str, float]
    weights: dict[str, float]


def windows(found: Sequence[Found]) -> dict[str, float]:
    """For each kind of query the share of meaning with which most right answers are among those looked at closely."""
    best = {}
    for kind in KINDS:
        own = [one for one in found if one.kind == kind]
        reached = []
        for share in SHARES:
            kept = [one.right[_window(one, share)].any() for one in own]
            reached.append(sum(kept) / max(1, len(kept)))
        print(f"window {kind:7} {len(own):5} queries", *(f"{s}: {r:.4f}" for s, r in zip(SHARES, reached, strict=True)))
        best[kind] = SHARES[int(np.argmax(np.round(reached, 3)))]
    return best


def _window(one: Found, share: float) -> np.ndarray:
    return np.argsort(-(share * one.cosine + (1 - share) * one.bm25), kind="stable")[:RERANKED]


def cut(found: Sequence[Found], window: dict[str, float]) -> list[Found]:
    """The queries with the candidates that are looked at closely."""
    kept = []
    for one in found:
        at = _window(one, window[one.kind])
        kept.append(
            Found(
                one.query, one.kind, one.package, one.set, one.bm25[at], one.cosine[at], one.values[at],
                one.right[at], one.document[at], one.passage[at], one.pool_right,
            )
        )  # fmt: skip
    return kept


class Batch:
    """Queries as padded tensors."""

    def __init__(self, found: Sequence[Found], features: Sequence[str], shares: dict[str, float]) -> None:
        columns = [NAMES.index(name) for name in features]
        many = len(found)
        self.bm25, self.cosine, self.mask, self.right = (torch.zeros(many, RERANKED) for _ in range(4))
        self.values = torch.zeros(many, RERANKED, len(columns))
        self.kind = torch.tensor([KINDS.index(one.kind) for one in found])
        counts: dict[str, int] = {}
        for one in found:
            counts[group_of(one)] = counts.get(group_of(one), 0) + 1
        self.weight = torch.tensor([_importance(group_of(one)) / counts[group_of(one)] for one in found])
        self.weight /= self.weight.sum()
        for at, one in enumerate(found):
            size = len(one.right)
            values = one.values.copy()
            _place_neighbours(values, one, shares[one.kind])
            self.bm25[at, :size] = torch.tensor(one.bm25)
            self.cosine[at, :size] = torch.tensor(one.cosine)
            self.values[at, :size] = torch.tensor(values[:, columns]).float()
            self.mask[at, :size] = 1
            self.right[at, :size] = torch.tensor(one.right).float()


def _place_neighbours(values: np.ndarray, one: Found, share: float) -> None:
    near = neighbours(one, share)
    prose = values[:, NAMES.index("prose length")] != 0
    values[:, NAMES.index("neighbours")] = np.where(prose, 0.0, near)
    values[:, NAMES.index("prose neighbours")] = np.where(prose, near, 0.0)


def _importance(group: str) -> float:
    return {"python": 3.0, "code": 3.0, "docs": 3.0, "questions": 1.5}.get(group, 0.75)


def learn(
    found: Sequence[Found], features: Sequence[str], *, loss: str = "list", rounds: int = 1, steps: int = 150
) -> Learned:
    """Weights within their bounds that put right answers first."""
    shares = dict(HAND_SHARES)
    useful = [one for one in found if one.right.any() and not one.right.all()]
    for _ in range(rounds):
        batch = Batch(useful, features, shares)
        scale = torch.tensor(2.0, requires_grad=True)  # log of how steep the softmax is
        blend = torch.zeros(len(KINDS), requires_grad=True)
        weights = torch.tensor([HAND.get(name, 0.0) for name in features], requires_grad=True)
        low, high = (torch.tensor([BOUNDS[name][at] for name in features]) for at in (0, 1))
        step = torch.optim.Adam([{"params": [scale, blend], "lr": 0.1}, {"params": [weights], "lr": 0.04}])
        for _ in range(steps):
            step.zero_grad()
            share = torch.sigmoid(blend)[batch.kind][:, None]
            score = share * batch.cosine + (1 - share) * batch.bm25 + batch.values @ weights
            cost = (_cost(score * scale.exp(), batch, loss) * batch.weight).sum()
            cost = cost + 0.002 * (weights**2).sum() + 0.002 * (blend**2).sum()
            cost.backward()
            step.step()
            with torch.no_grad():
                weights.clamp_(low, high)
        shares = {kind: float(torch.sigmoid(blend.detach())[at]) for at, kind in enumerate(KINDS)}
    return Learned(shares, dict(zip(features, weights.detach().tolist(), strict=True)))


def _cost(score: torch.Tensor, batch: Batch, loss: str) -> torch.Tensor:
    hidden = score.masked_fill(batch.mask == 0, -1e9)
    if loss == "list":
        right = hidden.masked_fill(batch.right == 0, -1e9)
        return torch.logsumexp(hidden, 1) - torch.logsumexp(right, 1)
    # LambdaRank: pairs of a right and a wrong one, by what swapping them would change.
    places = hidden.argsort(1, descending=True).argsort(1) + 1.0
    gain = torch.where(places <= 10, 1 / torch.log2(places + 1), torch.zeros_like(places))
    best = (hidden.masked_fill(batch.right == 0, -1e9)).argmax(1)
    at = torch.arange(len(best))
    difference = hidden[at, best][:, None] - hidden
    change = (gain[at, best][:, None] - gain).abs() + 0.02
    wrong = batch.mask * (1 - batch.right)
    return (torch.nn.functional.softplus(-difference) * change.detach() * wrong).sum(1)


def scores(one: Found, learned: Learned) -> np.ndarray:
    """What the engine would rank by."""
    share = learned.shares[one.kind]
    values = one.values.copy()
    _place_neighbours(values, one, share)
    weights = np.array([learned.weights.get(name, 0.0) for name in NAMES])
    total: np.ndarray = share * one.cosine + (1 - share) * one.bm25 + values @ weights
    return total


def folds(found: Sequence[Found]) -> list[int]:
    names = sorted({one.package for one in found})
    of = {name: at % FOLDS for at, name in enumerate(names)}
    return [of[one.package] for one in found]


def crossed(found: Sequence[Found], features: Sequence[str], loss: str = "list") -> dict[str, float]:
    """NDCG@10 of each group, every query ranked by weights learned without its package."""
    fold = folds(found)
    ranked: list[np.ndarray] = [np.zeros(0)] * len(found)
    for number in range(FOLDS):
        learned = learn([one for one, at in zip(found, fold, strict=True) if at != number], features, loss=loss)
        for at, one in enumerate(found):
            if fold[at] == number:
                ranked[at] = scores(one, learned)
    return judged(found, ranked)


def trees(found: Sequence[Found]) -> dict[str, float]:
    """The same by 100 trees of 15 leaves, which see the blend's parts and the kind of query too."""
    import lightgbm

    shares = dict(HAND_SHARES)
    fold = folds(found)
    rows = []
    for one in found:
        values = one.values.copy()
        _place_neighbours(values, one, shares[one.kind])
        kind = np.full((len(one.right), 1), KINDS.index(one.kind))
        rows.append(np.hstack([one.bm25[:, None], one.cosine[:, None], values, kind]))
    signs = [1, 1] + [1 if BOUNDS[n][0] >= 0 else -1 if BOUNDS[n][1] <= 0 else 0 for n in NAMES] + [0]
    ranked: list[np.ndarray] = [np.zeros(0)] * len(found)
    for number in range(FOLDS):
        inside = [at for at, of in enumerate(fold) if of != number and found[at].right.any()]
        data = lightgbm.Dataset(
            np.vstack([rows[at] for at in inside]),
            np.concatenate([found[at].right for at in inside]).astype(int),
            group=[len(rows[at]) for at in inside],
        )
        settings = {
            "objective": "lambdarank", "num_leaves": 15, "learning_rate": 0.1, "min_data_in_leaf": 50, "verbose": -1,
            "monotone_constraints": signs, "lambdarank_truncation_level": 10, "seed": 1, "num_threads": 2,
        }  # fmt: skip
        model = lightgbm.train(settings, data, 100)
        for at, of in enumerate(fold):
            if of == number:
                ranked[at] = model.predict(rows[at])
    return judged(found, ranked)


def show(name: str, reached: dict[str, float]) -> None:
    print(f"{name:34}", *(f"{group} {value:.4f}" for group, value in reached.items()), flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--found", type=Path, required=True)
    arguments.add_argument("--write", type=Path)
    arguments.add_argument("--trees", action="store_true")
    arguments.add_argument("--ablate", action="store_true")
    options = arguments.parse_args()
    torch.manual_seed(1)
    found = [one for file in sorted(options.found.glob("*.pkl")) for one in pickle.loads(file.read_bytes())]
    window = windows(found)
    hand = Learned(HAND_SHARES, HAND)
    before = cut(found, HAND_SHARES)
    show("by hand", judged(before, [scores(one, hand) for one in before]))
    kept = cut(found, window)
    show("by hand, new windows", judged(kept, [scores(one, hand) for one in kept]))
    every = list(NAMES)
    plain = [name for name in NAMES if name.removeprefix("prose ") not in WORDS]
    show("listwise", crossed(kept, every))
    show("LambdaRank", crossed(kept, every, "lambda"))
    show("listwise, old windows", crossed(before, every))
    show("listwise without single words", crossed(kept, plain))
    if options.ablate:
        for group, names in GROUPS.items():
            show(
                f"- without {group}",
                crossed(kept, [name for name in every if name.removeprefix("prose ") not in names]),
            )
    if options.trees:
        show("trees", trees(kept))
    full, short = (learn(kept, names, rounds=2, steps=200) for names in (every, plain))
    show("learned from all, on all", judged(kept, [scores(one, full) for one in kept]))
    written = {
        "version": 1,
        "window": window,
        "blend": {kind: round(share, 2) for kind, share in full.shares.items()},
        "with_words": {name: round(value, 3) for name, value in full.weights.items()},
        "without_words": {name: round(value, 3) for name, value in short.weights.items()},
    }
    print(json.dumps(written, indent=1))
    if options.write:
        options.write.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
