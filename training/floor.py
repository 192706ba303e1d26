"""Chooses the similarity floor: what relevant passages reach and the best passage for a foreign query does not.

python training/floor.py --sets sets.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from refdesk.embed.static import StaticEmbedder

FOREIGN = Path(__file__).parent / "foreign.txt"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--sets", type=Path, required=True)
    options = arguments.parse_args()
    model = StaticEmbedder()
    foreign = model.embed_queries(FOREIGN.read_text().splitlines())
    relevant, answered, tops = [], [], []
    for of, one in json.loads(options.sets.read_text()).items():
        passages = model.embed_passages(one["passages"])
        queries = model.embed_queries(one["queries"])
        right = (queries * passages[np.array(one["gold"])]).sum(1)
        top = (foreign @ passages.T).max(1)
        relevant.append(right)
        tops.append(top)
        best = (queries @ passages.T).max(1)
        answered.append(best)
        print(of, "2% of queries have a best passage under", np.quantile(best, 0.02).round(3))
        print(of, "95% of foreign queries have one under", np.quantile(top, 0.95).round(3), "of", len(passages))
    rights, bests, foreigners = np.concatenate(relevant), np.concatenate(answered), np.concatenate(tops)
    for floor in np.arange(0.10, 0.61, 0.02):
        print(
            f"floor {floor:.2f}: answers {np.mean(bests >= floor):.3f} of relevant queries,"
            f" keeps {np.mean(rights >= floor):.3f} of right passages,"
            f" drops {np.mean(foreigners < floor):.3f} of foreign queries"
        )


if __name__ == "__main__":
    main()
