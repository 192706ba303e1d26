"""Measures models on the quality sets: alone and blended with BM25, NDCG@10 with 95% intervals.

    python training/evaluate.py --sets sets.json [--vectors FOLDER]

FOLDER holds the transformer's vectors as baselines.py left them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from refdesk.embed.static import StaticEmbedder
from refdesk.embed.wordllama import WordllamaEmbedder
from refdesk.ports import Embedder
from refdesk.text.analyse import terms

SHARES = [0.1 * step for step in range(1, 10)]


def bm25(queries: list[str], passages: list[str]) -> np.ndarray:
    """Each query's scores for all passages."""
    found = [Counter(terms(text)) for text in passages]
    lengths = np.array([sum(counts.values()) for counts in found])
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, counts in enumerate(found):
        for term, count in counts.items():
            postings[term].append((number, count))
    ready = {}
    scores = np.zeros((len(queries), len(passages)), np.float32)
    for row, query in enumerate(queries):
        for term in set(terms(query)):
            if term not in postings:
                continue
            if term not in ready:
                places, counts = np.array(postings[term]).T
                weight = math.log(1 + (len(passages) - len(places) + 0.5) / (len(places) + 0.5))
                norm = 1.2 * (0.25 + 0.75 * lengths[places] / lengths.mean())
                ready[term] = (places, weight * counts * 2.2 / (counts + norm))
            places, gains = ready[term]
            scores[row, places] += gains
    return scores


def gains(scores: np.ndarray, gold: np.ndarray) -> np.ndarray:
    """NDCG@10 of each query, ties broken against the right passage."""
    right = scores[np.arange(len(gold)), gold]
    rank = (scores >= right[:, None]).sum(1) - 1
    return np.where(rank < 10, 1 / np.log2(rank + 2), 0.0)


def told(values: np.ndarray) -> str:
    """A mean with its 95% interval."""
    return f"{values.mean():.3f} ±{1.96 * values.std() / math.sqrt(len(values)):.3f}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=Path, required=True)
    arguments.add_argument("--vectors", type=Path)
    arguments.add_argument("--model", type=Path, help="another folder of weights than the package's")
    options = arguments.parse_args()
    ours = StaticEmbedder(options.model) if options.model else StaticEmbedder()
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for of, one in json.loads(options.sets.read_text()).items():
        gold = np.array(one["gold"])
        lexical = bm25(one["queries"], one["passages"])
        scaled = lexical / np.maximum(lexical.max(1, keepdims=True), 1e-6)
        rows["BM25"][of] = told(gains(lexical, gold))
        models: dict[str, Embedder] = {"refdesk-static": ours, "wordllama": WordllamaEmbedder()}
        cosines = {
            name: model.embed_queries(one["queries"]) @ model.embed_passages(one["passages"]).T
            for name, model in models.items()
        }
        short = [
            vectors[:, :128] for vectors in (ours.embed_queries(one["queries"]), ours.embed_passages(one["passages"]))
        ]
        short = [vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9) for vectors in short]
        cosines["refdesk-static, 128 dimensions"] = short[0] @ short[1].T
        for path in sorted(options.vectors.glob("*.npz")) if options.vectors else []:
            saved = np.load(path)
            both = [saved[f"{of}_{side}"].astype(np.float32) / 512 for side in ("queries", "passages")]
            cosines[path.stem] = both[0] @ both[1].T
        for name, cosine in cosines.items():
            blends = {share: gains(share * cosine + (1 - share) * scaled, gold) for share in SHARES}
            best = max(blends, key=lambda share: blends[share].mean())
            rows[name][of] = f"{told(gains(cosine, gold))} / {blends[best].mean():.3f} at {best:.1f}"
    for name, found in rows.items():
        print("|", name, "|", " | ".join(found.get(of, "") for of in ("python", "code", "docs")), "|")


if __name__ == "__main__":
    main()
