"""Builds the vocabulary: pieces of words by frequency, then pairs of neighbours that mean more than their parts.

python training/vocab.py --corpus CORPUS --out VOCAB --pieces 40000 --bigrams 18000
"""

from __future__ import annotations

import argparse
from array import array
from collections import Counter
from itertools import groupby, islice, pairwise
from math import log
from pathlib import Path

import numpy as np
from compose import corpus
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from refdesk.embed.static import Pieces, words


def texts(folder: Path, limit: int) -> list[tuple[int, str]]:
    """What the pieces are counted over, what is said of code as well as code, each with its package."""
    found = []
    for record in islice(corpus(folder), limit):
        if record["k"] == "f":
            found.append((record["g"], f"{record['d']} {record['d']} {record['s']} {record['b'][:500]}"))
        elif record["k"] == "s":
            found.append((record["g"], " ".join(record["h"]) + " " + record["b"]))
    return found


def count_words(found: list[tuple[int, str]]) -> Counter[str]:
    """How often each word is used, a word of few packages counted little."""
    counts: Counter[str] = Counter()
    packages: Counter[str] = Counter()
    for _, group in groupby(found, key=lambda entry: entry[0]):
        here = Counter(word.lower() for _, text in group for word in words(text))
        counts.update(here)
        packages.update(here.keys())
    return Counter({word: min(count, 12 * packages[word]) for word, count in counts.items() if packages[word] > 1})


def build_pieces(counts: Counter[str], size: int) -> list[str]:
    """The most useful words and parts of words."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="?", max_input_chars_per_word=24))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=8, special_tokens=["?"], show_progress=False, limit_alphabet=3000
    )
    # A word seen very often teaches the merges no more than one seen often.
    lines = (" ".join([word] * min(count, 400)) for word, count in counts.items() if count >= 3 and len(word) <= 24)
    tokenizer.train_from_iterator(lines, trainer)
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    return [piece for piece, _ in pieces if piece != "?"]


def build_bigrams(found: list[tuple[int, str]], pieces: Pieces, vocabulary: list[str], size: int) -> np.ndarray:
    """Neighbouring pieces that many packages use together more than chance would, as pairs of piece numbers."""
    singles: Counter[int] = Counter()
    together: Counter[tuple[int, int]] = Counter()
    packages: Counter[tuple[int, int]] = Counter()
    for _, group in groupby(found, key=lambda entry: entry[0]):
        read = [array("H", pieces.ids(text[:900])) for _, text in group]
        singles.update(piece for row in read for piece in row)
        here = Counter(pair for row in read for pair in pairwise(row))
        together.update(here)
        packages.update(here.keys())
    total = singles.total()
    scored = []
    for (left, right), count in packages.items():
        if count < 8 or left == right or vocabulary[left].isdigit() or vocabulary[right].isdigit():
            continue
        surprise = log(together[left, right] * total / (singles[left] * singles[right]))
        if surprise > 1:
            scored.append((count**0.75 * surprise, left, right))
    scored.sort(reverse=True)
    return np.array(sorted((left, right) for _, left, right in scored[:size]), np.uint16)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--corpus", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--pieces", type=int, default=40_000)
    arguments.add_argument("--bigrams", type=int, default=18_000)
    arguments.add_argument("--limit", type=int, default=400_000)
    options = arguments.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = texts(options.corpus, options.limit)
    counts = count_words(found)
    vocabulary = build_pieces(counts, options.pieces + 1)
    (options.out / "pieces.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    bigrams = build_bigrams(found, Pieces(vocabulary), vocabulary, options.bigrams)
    np.save(options.out / "bigrams.npy", bigrams)
    print(len(found), "texts", len(counts), "words", len(vocabulary), "pieces", len(bigrams), "bigrams")


if __name__ == "__main__":
    main()
