"""What becomes of searches and of doctor when bits of a library's files turn over?"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import uuid
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from refdesk.app import open_desk
from refdesk.crawl.state import Body, CrawlState, Entry, digest_of
from refdesk.errors import RefdeskError
from refdesk.library import CRAWL_FILE, LEXICAL_FOLDER, VECTORS_FILE
from refdesk.settings import Settings
from refdesk.skills.model import Skill
from refdesk.store.local import LocalStore
from refdesk.store.playbooks import RecordPlaybooks
from refdesk.store.vectors import index as vectors
from refdesk.store.words import follower
from tests.ports.library import IDENTITY, batch, collection, vector, write

FLIPS = 64
HANG_S = 60.0  # far more than a round takes, also on a busy machine
DOCUMENTS = 120
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


@dataclass(slots=True)
class Outcome:
    """One line of the table of a campaign, with what went wrong."""

    rounds: int = 0
    faults: int = 0
    lost: int = 0
    hangs: int = 0
    crashes: int = 0
    problems: list[str] = field(default_factory=list)


def make_library(folder: Path) -> None:
    """A library of some hundred chunks in several segments, with playbooks, a crawl and metadata."""
    store = LocalStore(folder)
    store.put_collection(collection())
    store.set_embedder_identity(IDENTITY)
    for first in range(0, DOCUMENTS, 30):
        store.apply(batch(*(write(f"d{i}", texts_of(i)) for i in range(first, first + 30))))
        with store.writing():
            store._lexical.flush()
    with store.writing():
        store._vectors.save()
    RecordPlaybooks(store).create_skill(
        Skill(
            skill_id=str(uuid.UUID(int=1)), title="Refund", version=1, problem="no refund", resolution_md="# Refund\n",
            conditions=("paid",), keywords=("refund",), embedding=tuple(vector("refund").tolist()),
        )
    )  # fmt: skip
    store.close()
    state = CrawlState(folder / CRAWL_FILE, "SITE")
    state.begin_round("https://example.org/")
    for number in range(20):
        url, data = f"https://example.org/{number}", f"page {number}".encode()
        state.add([Entry(url, 0)])
        state.save_answer(Body(url, "", digest_of(data), data, "text/html", "utf-8", ""), "fetched", {})
    state.close()
    (folder / "metadata.json").write_text('{"corpus_description": "x", "taxonomy": {}}\n', encoding="utf-8")


def texts_of(number: int) -> list[str]:
    """The passages of a document."""
    return [f"alpha {WORDS[number % 6]} handleLogin{number} {WORDS[part]} text" for part in range(3)]


def expected(word: str) -> int:
    """How many passages have a word."""
    return sum(word in text.split() for number in range(DOCUMENTS) for text in texts_of(number))


def flip(files: list[Path], flips: int, draw: random.Random, *, keep_time: bool) -> None:
    """Turns bits of the files over; with the time of the last change kept, as a failing disk does it."""
    sizes = [file.stat().st_size for file in files]
    for _ in range(flips):
        file = draw.choices(files, sizes)[0]
        before = file.stat()
        with file.open("r+b") as opened:
            place = draw.randrange(before.st_size)
            opened.seek(place)
            byte = opened.read(1)[0]
            opened.seek(place)
            opened.write(bytes([byte ^ (1 << draw.randrange(8))]))
        if keep_time:
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def files_of(folder: Path) -> list[Path]:
    """The files below a folder that hold anything."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)


def damage_indexes(work: Path, rounds: int, seed: int) -> Outcome:
    """Flips bits of both indexes, at rest or under an open store: every search answers and doctor ends clean."""
    return _campaign(work, rounds, seed, _search_damaged)


def damage_files(work: Path, rounds: int, seed: int) -> Outcome:
    """Damages any files of a library: doctor says so, never crashes, and never calls a loss of content sound."""
    return _campaign(work, rounds, seed, _examine_damaged)


def _campaign(work: Path, rounds: int, seed: int, one_round: object) -> Outcome:
    """Rounds in a process of their own, so that a crash or a hang of it is one, and the next goes on."""
    whole = work / "whole"
    if not whole.exists():
        make_library(whole)
    outcome = Outcome()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["refdesk.store.local", "refdesk.store.vectors.index", "tantivy", "turbovec", __name__]
    )
    while outcome.rounds < rounds:
        here, there = context.Pipe()
        first = seed + outcome.rounds
        given = (there, one_round, str(whole), str(work / "damaged"), first, rounds - outcome.rounds)
        process = context.Process(target=_run_rounds, args=given, daemon=True)
        process.start()
        there.close()
        try:
            while outcome.rounds < rounds:
                if not here.poll(HANG_S):
                    outcome.hangs += 1
                    outcome.problems.append(f"seed {seed + outcome.rounds}: no end within {HANG_S} s")
                    outcome.rounds += 1
                    break
                faults, problems = here.recv()
                outcome.rounds += 1
                outcome.faults += faults
                outcome.lost += len(problems)
                outcome.problems += problems
        except EOFError:
            outcome.crashes += 1
            outcome.problems.append(f"seed {seed + outcome.rounds}: the process ended")
            outcome.rounds += 1
        finally:
            process.kill()
            process.join()
            here.close()
    return outcome


def _run_rounds(told: Connection, one_round, whole: str, damaged: str, seed: int, rounds: int) -> None:  # type: ignore[no-untyped-def]
    vectors.EXACT_UP_TO = 100  # codes too
    for number in range(seed, seed + rounds):
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(whole, damaged)
        try:
            told.send(one_round(Path(damaged), random.Random(number), number))
        except BaseException as error:
            told.send((FLIPS, [f"seed {number}: {type(error).__name__}: {error}"]))


def _search_damaged(folder: Path, draw: random.Random, seed: int) -> tuple[int, list[str]]:
    files = [*files_of(folder / LEXICAL_FOLDER), folder / VECTORS_FILE]
    if seed % 5:  # in a small index the lists of its files are a large part, and no JSON any more
        files = [file for file in files if file.suffix != ".json"]
    is_open = seed % 2 == 1
    follower._SOON_BUILT = 2000 if seed % 3 else 0  # in the background too, beside searches in the record
    store = LocalStore(folder)
    wrong: list[str] = []
    try:
        if is_open:
            store.view().lexical(["alpha"], 10)
        flips = (FLIPS, FLIPS, 4, 1)[seed // 2 % 4]  # the fewer, the more quietly they lie
        flip(files, flips, draw, keep_time=seed % 4 > 1)
        for word in draw.sample(WORDS, 3):
            view = store.view()
            found = len(view.lexical([word], 1000))
            # Under an open index a bit may tell a lie before it is noticed; once checked, it must not.
            if found != expected(word) and not is_open:
                wrong.append(f"seed {seed}: {word} found {found} of {expected(word)}")
            view.phrase(["alpha", word], 100)
            view.document_frequency([word])
            if len(view.nearest(vector(word), 1000)) != 3 * DOCUMENTS:
                wrong.append(f"seed {seed}: vectors are missing")
        findings = store.verify(repair=True)
        wrong += [f"seed {seed}: {one.message}" for one in findings if not one.ok]
        again = store.verify(repair=False)
        wrong += [f"seed {seed}: after the repair: {one.message}" for one in again if not one.ok or one.repaired]
        for word in WORDS:
            found = len(store.view().lexical([word], 1000))
            if found != expected(word):
                wrong.append(f"seed {seed}: after the repair {word} found {found} of {expected(word)}")
    finally:
        store.close()
    return flips, wrong


def _is_all_there(folder: Path) -> bool:
    store = LocalStore(folder)
    try:
        raws = {one.id: store.raw(one.id) for one in store.documents("code", 1000, 0)}
        return raws == {f"d{number}": "\n".join(texts_of(number)) for number in range(DOCUMENTS)}
    finally:
        store.close()


def _examine_damaged(folder: Path, draw: random.Random, seed: int) -> tuple[int, list[str]]:
    files = draw.sample(files_of(folder), 3)
    for file in files:
        size = file.stat().st_size
        match draw.randrange(4):
            case 0:
                flip([file], FLIPS, draw, keep_time=bool(seed % 2))
            case 1:
                os.truncate(file, draw.randrange(size))
            case 2:
                file.write_bytes(draw.randbytes(size))
            case 3:
                file.unlink()
    settings = Settings(library=folder, embedder="none")
    wrong = []
    for repair in (False, True):
        try:
            with open_desk(settings) as desk:
                found = desk.check(repair=repair)
            wrong += [f"seed {seed}: {one.part} says nothing" for one in found if not one.message]
            if found[0].ok and not _is_all_there(folder):
                wrong.append(f"seed {seed}: what is damaged is called sound")
        except RefdeskError as error:
            if not error.what_next:
                wrong.append(f"seed {seed}: {error} says not what to do")
    return len(files), wrong
