"""The training pairs as arrays: texts as the student's units and as the teacher's word pieces, read in parallel."""

from __future__ import annotations

import multiprocessing as mp
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from compose import KINDS, pairs, shard

from refdesk.embed.static import Pieces

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
RUN = 48  # pairs of one package that stand together in a batch: they are each other's hard negatives
MAX_UNITS = 300
DEV_SHARE = 40


@dataclass
class Ragged:
    """Rows of different lengths in one array."""

    values: np.ndarray
    starts: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @staticmethod
    def of(parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> Ragged:
        lengths = np.concatenate([lengths for _, lengths in parts])
        return Ragged(np.concatenate([values for values, _ in parts]), np.concatenate([[0], np.cumsum(lengths)]))


class Reader:
    """Turns texts into unit numbers: pieces, then the known pairs of neighbouring pieces."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary = (folder / "pieces.txt").read_text(encoding="utf-8").split("\n")
        self.pieces = Pieces(self.vocabulary)
        bigrams = np.load(folder / "bigrams.npy").astype(np.int64)
        self.keys = bigrams[:, 0] * 65536 + bigrams[:, 1] if len(bigrams) else np.zeros(0, np.int64)

    @property
    def size(self) -> int:
        return len(self.pieces) + len(self.keys)

    def units(self, text: str) -> np.ndarray:
        ids = np.frombuffer(self.pieces.ids(text), np.uint16)[:MAX_UNITS].astype(np.int64)
        if len(ids) > 1 and len(self.keys):
            keys = ids[:-1] * 65536 + ids[1:]
            places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
            ids = np.concatenate([ids, len(self.pieces) + places[self.keys[places] == keys]])
        return ids

    def row(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The distinct units and how often each occurs."""
        return np.unique(self.units(text), return_counts=True)


_reader: Reader
_tokenizer = None


def _start(vocab: Path, teacher: Path | None) -> None:
    global _reader, _tokenizer
    _reader = Reader(vocab)
    if teacher:
        from tokenizers import Tokenizer

        _tokenizer = Tokenizer.from_file(str(teacher / "tokenizer.json"))
        _tokenizer.no_padding()


def _read(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows = [_reader.row(text) for text in texts]
    lengths = np.array([len(units) for units, _ in rows])
    units = np.concatenate([units for units, _ in rows]).astype(np.int32)
    counts = np.concatenate([counts for _, counts in rows]).clip(max=15).astype(np.uint8)
    if _tokenizer is None:
        return units, counts, lengths, np.zeros(0, np.uint16), np.zeros(len(texts), np.int64)
    _tokenizer.enable_truncation(128)
    encoded = [one.ids for one in _tokenizer.encode_batch([text[:600] for text in texts])]
    sizes = np.array([len(one) for one in encoded])
    return units, counts, lengths, np.concatenate([np.array(one, np.uint16) for one in encoded]), sizes


@dataclass
class Texts:
    """Texts as the student and the teacher read them."""

    units: Ragged
    counts: np.ndarray
    wordpieces: Ragged


def read(texts: list[str], vocab: Path, jobs: int) -> Texts:
    """The texts as arrays, for the student alone."""
    chunks = [texts[start : start + 2_000] for start in range(0, len(texts), 2_000)]
    with mp.Pool(jobs, _start, (vocab, None)) as pool:
        return _joined(pool.map(_read, chunks, chunksize=1))


def _joined(parts: Sequence[tuple[np.ndarray, ...]]) -> Texts:
    units = Ragged.of([(part[0], part[2]) for part in parts])
    return Texts(units, np.concatenate([part[1] for part in parts]), Ragged.of([(part[3], part[4]) for part in parts]))


@dataclass
class Pairs:
    """Which query belongs to which passage, from which record, package and kind of pair."""

    query: np.ndarray
    passage: np.ndarray
    record: np.ndarray
    package: np.ndarray
    kind: np.ndarray


def _compose(
    task: tuple[Path, int, int, int | None],
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], np.ndarray]:
    path, part, split, limit = task
    queries: list[str] = []
    passages: list[str] = []
    rows: list[tuple[int, int, int, int, int]] = []
    names = list(KINDS)
    for number, record in enumerate(islice(shard(path), part, limit, split)):
        here: dict[str, int] = {}
        for kind, query, passage in pairs(record):
            if passage not in here:
                here[passage] = len(passages)
                passages.append(passage)
            rows.append((len(queries), here[passage], number, record["g"], names.index(kind)))
            queries.append(query)
    return _read(queries), _read(passages), np.array(rows, np.int64)


def read_corpus(folder: Path, vocab: Path, teacher: Path, jobs: int, limit: int | None) -> tuple[Texts, Texts, Pairs]:
    """The queries and passages of a corpus and the pairs between them."""
    shards = sorted(folder.glob("corpus-*.jsonl.xz"))
    split = max(1, round(jobs / len(shards)))
    tasks = [(path, part, split, limit) for path in shards for part in range(split)]
    with mp.Pool(jobs, _start, (vocab, teacher)) as pool:
        parts = pool.map(_compose, tasks, chunksize=1)
    tables, offsets = [], np.zeros(5, np.int64)
    for queries, passages, table in parts:
        tables.append(table + offsets)
        offsets = offsets + np.array([len(queries[2]), len(passages[2]), table[:, 2].max() + 1, 0, 0])
    return _joined([part[0] for part in parts]), _joined([part[1] for part in parts]), Pairs(*np.concatenate(tables).T)


def is_dev(package: np.ndarray) -> np.ndarray:
    """Packages kept from training to choose between variants."""
    return package % DEV_SHARE == 0


def draw(pairs: Pairs, keep: np.ndarray, generator: np.random.Generator, run: int = RUN) -> np.ndarray:
    """An epoch's pairs: each kind by its share, in runs of one package, the runs shuffled."""
    shares = np.array(list(KINDS.values()))
    chosen = np.flatnonzero(keep & (generator.random(len(keep)) < shares[pairs.kind]))
    chosen = generator.permutation(chosen)
    chosen = chosen[np.lexsort((np.arange(len(chosen)), pairs.package[chosen]))]
    runs = np.array_split(chosen, max(1, len(chosen) // run))
    order = generator.permutation(len(runs))
    return np.concatenate([runs[place] for place in order])


def log(*words: object) -> None:
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)
