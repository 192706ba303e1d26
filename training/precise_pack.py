"""Packs what the precise model learns from into a few small files of piece numbers, for a machine without the texts.

    python training/precise_pack.py lists --lists LISTS --out PACK/lists.xz
    python training/precise_pack.py pairs --corpus CORPUS --out PACK/pairs.xz [--pairs 260000]
    python training/precise_pack.py start --teacher MINILM --out PACK/start.xz

`pairs` gives each query the passages of its neighbours that the static model finds nearest; `start` is MiniLM's layers
and its view of our pieces, in 8 bits, from which training starts.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from compose import corpus, split_lead

from refdesk.embed.static import Pieces, StaticEmbedder

VOCABULARY = Path(__file__).parent.parent / "src" / "refdesk" / "embed" / "data" / "pieces.txt"
SPECIAL = 3  # numbers before the pieces: padding, start, separator
MOST_QUERY, MOST_PATH, MOST_PASSAGE = 24, 8, 320
POOL = 6_000  # passages among which the nearest are looked for
NEAREST = 15
SETS = ("python", "code", "docs", "authored")


def vocabulary() -> list[str]:
    return VOCABULARY.read_text(encoding="utf-8").split("\n")


class Reader:
    """Texts as piece numbers."""

    def __init__(self) -> None:
        self.pieces = Pieces(vocabulary())

    def query(self, text: str) -> list[int]:
        return [one + SPECIAL for one in self._ids(text)[:MOST_QUERY]]

    def _ids(self, text: str) -> list[int]:
        return np.frombuffer(self.pieces.ids(text), np.uint16).tolist()

    def passage(self, path: str, text: str, most: int = MOST_PASSAGE) -> list[int]:
        """The last two names of the path, then the text."""
        tail = "/".join(path.split("/")[-2:]).rpartition(".")[0]
        ids = self._ids(tail)[-MOST_PATH:] + self._ids(text)
        return [one + SPECIAL for one in ids[:most]]


def ragged(rows: Iterable[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    rows = list(rows)
    values = np.fromiter((one for row in rows for one in row), np.uint16)
    return values, np.array([len(row) for row in rows], np.uint16)


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Numbers of two bytes are split into planes, which compress better apart."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with lzma.open(path, "wb", preset=1) as file:
        for name, array in arrays.items():
            if array.dtype == np.uint16:
                parts = {f"{name}.low": (array & 255).astype(np.uint8), f"{name}.high": (array >> 8).astype(np.uint8)}
            else:
                parts = {name: array}
            for part, values in parts.items():
                buffer = io.BytesIO()
                np.save(buffer, values)
                file.write(part.encode() + b"\n" + str(buffer.tell()).encode() + b"\n" + buffer.getvalue())
    print(path, path.stat().st_size, {name: array.shape for name, array in arrays.items()}, flush=True)


def read(path: Path) -> dict[str, np.ndarray]:
    """What write wrote."""
    found: dict[str, np.ndarray] = {}
    with lzma.open(path, "rb") as file:
        while name := file.readline().decode().strip():
            found[name] = np.load(io.BytesIO(file.read(int(file.readline()))))
    for name in [one for one in found if one.endswith(".low")]:
        stem = name.removesuffix(".low")
        found[stem] = found.pop(name).astype(np.uint16) | found.pop(f"{stem}.high").astype(np.uint16) << 8
    return found


# --- what the engine found ------------------------------------------------------------------------


def lists_in(path: Path) -> Iterator[dict[str, Any]]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def pack_lists(paths: list[Path], out: Path) -> None:
    reader = Reader()
    passages: dict[tuple[str, str], int] = {}
    packages: dict[str, int] = {}
    queries: list[list[int]] = []
    scores: list[float] = []
    chosen, counts, right, package, of, found = [], [], [], [], [], []
    for path in paths:
        for one in lists_in(path):
            numbers = [passages.setdefault((where, text), len(passages)) for where, text in one["passages"]]
            queries.append(reader.query(one["query"]))
            chosen += numbers
            counts.append(len(numbers))
            scores += one["scores"]
            good = set(one["right"])
            right += [place in good for place in range(len(numbers))]
            package.append(packages.setdefault(one["package"], len(packages)))
            of.append(SETS.index(path.name.split("-")[0]))
            found.append(one["found"])
    query, query_lengths = ragged(queries)
    passage, passage_lengths = ragged(reader.passage(where, text) for where, text in passages)
    write(
        out,
        {
            "query": query,
            "query_lengths": query_lengths,
            "passage": passage,
            "passage_lengths": passage_lengths,
            "chosen": np.array(chosen, np.int32),
            "counts": np.array(counts, np.uint8),
            "scores": np.array(scores, np.float16),
            "right": np.array(right, np.bool_),
            "package": np.array(package, np.int32),
            "set": np.array(of, np.uint8),
            "found": np.array(found, np.bool_),
        },
    )


# --- pairs with neighbours ------------------------------------------------------------------------


def pairs_of(record: dict[str, Any], generator: random.Random) -> tuple[str, str] | None:
    """One query and its passage as the engine would show it, or nothing."""
    if record["k"] == "f":
        if not record["d"] or len(record["b"]) < 40:
            return None
        lead, _ = split_lead(record["d"])
        named = " > ".join(one for one in (record["o"], record["n"]) if one)
        if len(lead) < 12:
            return None
        return lead if generator.random() < 0.9 else record["d"][:250], f"{named}\n{record['s']}\n{record['b']}"
    if record["k"] != "s" or len(record["b"]) < 60:
        return None
    headings, draw = record["h"], generator.random()
    if draw < 0.45 and len(headings) > 1:
        return " ".join(headings[-2:]), record["b"]
    if draw < 0.8:
        return headings[-1], " > ".join(headings[:-1]) + "\n" + record["b"]
    lead, rest = split_lead(record["b"])
    return (lead, rest) if len(lead) > 30 and len(rest) > 150 else (" ".join(headings[-3:]), record["b"])


def pack_pairs(folder: Path, out: Path, many: int) -> None:
    generator = random.Random(5)
    pool: list[tuple[str, str, str]] = []
    reader, embedder = Reader(), StaticEmbedder()
    queries, passages, near = [], [], []
    share = many / 560_000
    for record in corpus(folder):
        if generator.random() > share * (0.8 if record["k"] == "f" else 1.3):
            continue
        pair = pairs_of(record, generator)
        if pair is not None and pair[0].strip():
            pool.append((*pair, record["p"]))
        if len(pool) == POOL:
            near.append(nearest(pool, embedder))
            queries += [reader.query(query) for query, _, _ in pool]
            passages += [reader.passage(path, text, 100) for _, text, path in pool]
            pool = []
            if len(queries) % 60_000 == 0:
                print(len(queries), flush=True)
    query, query_lengths = ragged(queries)
    passage, passage_lengths = ragged(passages)
    write(
        out,
        {
            "query": query,
            "query_lengths": query_lengths,
            "passage": passage,
            "passage_lengths": passage_lengths,
            "near": np.concatenate(near).astype(np.uint16),
        },
    )


def nearest(pool: list[tuple[str, str, str]], embedder: StaticEmbedder) -> np.ndarray:
    """For each query the places of the passages nearest to it, its own left out."""
    asked = embedder.embed_queries([query for query, _, _ in pool])
    found = embedder.embed_passages([text for _, text, _ in pool])
    rows = []
    for start in range(0, len(pool), 1_000):
        cosines = asked[start : start + 1_000] @ found.T
        cosines[np.arange(len(cosines)), start + np.arange(len(cosines))] = -1
        rows.append(np.argpartition(-cosines, NEAREST, axis=1)[:, :NEAREST])
    return np.concatenate(rows)


# --- where training starts ------------------------------------------------------------------------


def pack_start(folder: Path, out: Path) -> None:
    import torch
    from tokenizers import Tokenizer

    weights = {name: value.float().numpy() for name, value in torch.load(folder / "weights.pt").items()}
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    words = weights.pop("embeddings.word_embeddings.weight")
    table = np.zeros((SPECIAL + len(vocabulary()), words.shape[1]), np.float32)
    table[0], table[1], table[2] = (words[tokenizer.token_to_id(one)] for one in ("[PAD]", "[CLS]", "[SEP]"))
    tokenizer.no_padding()
    for number, piece in enumerate(vocabulary()):
        own = tokenizer.token_to_id(piece)
        ids = [own] if own is not None else _spelt(tokenizer, piece)
        table[SPECIAL + number] = words[ids].mean(0) if ids else words[tokenizer.token_to_id("[UNK]")]
    arrays = {}
    for name, values in {**weights, "pieces": table}.items():
        if "position" in name:
            values = values[:256]
        if values.ndim < 2:
            arrays[name] = values.astype(np.float16)
            continue
        scale = np.abs(values).max(1, keepdims=True) / 127 + 1e-9
        arrays[name] = (values / scale).round().astype(np.int8)
        arrays[f"{name}.scale"] = scale.astype(np.float16)
    write(out, arrays)


def _spelt(tokenizer: Any, piece: str) -> list[int]:
    """A part within a word is spelt with the pieces that go on, as it is found in a word."""
    ids = tokenizer.encode(piece.removeprefix("##"), add_special_tokens=False).ids
    if piece.startswith("##") and ids:
        inner = tokenizer.token_to_id("##" + tokenizer.id_to_token(ids[0]))
        ids = [inner if inner is not None else ids[0], *ids[1:]]
    return ids


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["lists", "pairs", "start"])
    arguments.add_argument("--lists", type=Path, nargs="*", help="files of lists, or folders of them")
    arguments.add_argument("--corpus", type=Path)
    arguments.add_argument("--teacher", type=Path)
    arguments.add_argument("--pairs", type=int, default=260_000)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    if options.what == "lists":
        paths = [path for one in options.lists for path in (sorted(one.glob("*.xz")) if one.is_dir() else [one])]
        pack_lists(paths, options.out)
    elif options.what == "pairs":
        pack_pairs(options.corpus, options.out, options.pairs)
    else:
        pack_start(options.teacher, options.out)


if __name__ == "__main__":
    main()
