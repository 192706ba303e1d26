"""Trains the teacher and the static student.  Each stage leaves its result in WORK and is skipped when it is there.

python training/train.py --corpus CORPUS --vocab VOCAB --teacher MINILM --work WORK read teacher encode student
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from pathlib import Path

import numpy as np
import torch
from compose import KINDS
from data import DEVICE, Pairs, Reader, Texts, log, read, read_corpus
from measure import dev_sets, measure, ndcg, pick, pick_words
from student import PREFIXES, Bags, Variant, first_vectors, save, train_student
from teacher import encode, load_teacher, train_teacher


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("corpus", "vocab", "teacher", "work"):
        arguments.add_argument(f"--{name}", type=Path, required=True)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--sets", type=Path, help="the held-out sets, for a last look")
    arguments.add_argument("--variants", type=Path, help="a JSON list of students to train")
    arguments.add_argument("--limit", type=int)
    arguments.add_argument("--jobs", type=int, default=16)
    arguments.add_argument("--teacher-rate", type=float, default=1e-4)
    arguments.add_argument("--teacher-batch", type=int, default=2_048)
    arguments.add_argument("--teacher-steps", type=int, default=1_200)
    arguments.add_argument("--teacher-seconds", type=float, default=300)
    arguments.add_argument("--student-seconds", type=float, default=120)
    arguments.add_argument("stages", nargs="+", choices=["read", "teacher", "encode", "student"])
    options = arguments.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    options.out = options.out or options.work
    torch.backends.cuda.matmul.allow_tf32 = True
    run(options)


def run(options: argparse.Namespace) -> None:
    """The stages asked for, in order."""
    cache = options.work / "read.pickle"
    if "read" in options.stages and not cache.exists():
        queries, passages, pairs = read_corpus(
            options.corpus, options.vocab, options.teacher, options.jobs, options.limit
        )
        kinds = dict(zip(KINDS, np.bincount(pairs.kind, minlength=len(KINDS)).tolist(), strict=True))
        log(len(queries.units), "pairs,", len(passages.units), "passages,", pairs.record[-1] + 1, "records,", kinds)
        with cache.open("wb") as file:
            pickle.dump((queries, passages, pairs), file, protocol=5)
    if not set(options.stages) & {"teacher", "encode", "student"}:
        return
    with cache.open("rb") as file:
        queries, passages, pairs = pickle.load(file)
    if "teacher" in options.stages and not (options.work / "teacher.pt").exists():
        train_teacher(options, queries, passages, pairs)
    if "encode" in options.stages and not (options.work / "targets.pt").exists():
        encode_all(options, queries, passages, pairs)
    if "student" in options.stages:
        students(options, queries, passages, pairs)


def encode_all(options: argparse.Namespace, queries: Texts, passages: Texts, pairs: Pairs) -> None:
    model = load_teacher(options.teacher).eval()
    for name in ("untrained", "trained"):
        if name == "trained" and (options.work / "teacher.pt").exists():
            model.load_state_dict(torch.load(options.work / "teacher.pt", map_location=DEVICE), strict=False)
        for kind, (left, right) in dev_sets(pairs).items():
            asked = encode(model, pick_words(queries.wordpieces, left), 64).float()
            found = encode(model, pick_words(passages.wordpieces, right), 128).float()
            log("teacher", name, kind, len(left), round(ndcg(asked, found, torch.arange(len(left), device=DEVICE)), 4))
    targets = (encode(model, queries.wordpieces, 64), encode(model, passages.wordpieces, 128))
    torch.save(targets, options.work / "targets.pt")
    log("encoded", len(targets[0]), len(targets[1]))


def students(options: argparse.Namespace, queries: Texts, passages: Texts, pairs: Pairs) -> None:
    reader = Reader(options.vocab)
    targets = (
        torch.load(options.work / "targets.pt", map_location=DEVICE) if (options.work / "targets.pt").exists() else None
    )
    start = options.work / "start.pt"
    if not start.exists():
        torch.save(first_vectors(options, reader.size, reader.vocabulary, reader.keys), start)
    vectors = torch.load(start, map_location=DEVICE)
    held = held_texts(options) if options.sets else {}
    variants = json.loads(options.variants.read_text()) if options.variants else [{"name": "base"}]
    for described in variants:
        variant = Variant(**{**described, "prefixes": tuple(described.get("prefixes", PREFIXES))})
        began = time.time()
        student = train_student(
            variant, queries, passages, pairs, vectors, len(reader.pieces), targets, options.student_seconds
        )
        sets = {
            name: (
                Bags(pick(queries, left), variant, len(reader.pieces)),
                Bags(pick(passages, right), variant, len(reader.pieces)),
                torch.arange(len(left), device=DEVICE),
            )
            for name, (left, right) in dev_sets(pairs).items()
        }
        line = {"variant": described, "seconds": round(time.time() - began), "dev": measure(student, sets)}
        if held:
            bags = {
                name: (Bags(a, variant, len(reader.pieces)), Bags(b, variant, len(reader.pieces)), gold)
                for name, (a, b, gold) in held.items()
            }
            line["held"] = measure(student, bags)
            line["held128"] = measure(student, bags, 128)
        log(json.dumps(line))
        with (options.out / "students.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        if described.get("name", "").startswith("final"):
            save(student, options.out / variant.name)


def held_texts(options: argparse.Namespace) -> dict[str, tuple[Texts, Texts, torch.Tensor]]:
    found = {}
    for name, one in json.loads(options.sets.read_text()).items():
        both = [read(one[side], options.vocab, options.jobs) for side in ("queries", "passages")]
        found[name] = (*both, torch.tensor(one["gold"], device=DEVICE))
    return found


if __name__ == "__main__":
    main()
