"""What becomes of a library and its server when everything goes wrong?  Kills, wrong calls, damage, many clients.

python -m bench.faults --minutes 60 [--seed S] [--only kills writers calls sources files patterns clients]

Each part has its share of the time, beside the others of its lane, and goes on until that is spent.  Lost is what was
acknowledged and is not found afterwards, or found half there; a hang is no answer for 20 s; a crash is a server that
ended by itself; wrong is an answer that is none, a traceback that reached a client, or a search that failed; late is a
server that was told to end and did not within 4.5 s, so that the process that watches it killed it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench import http_load, tables
from bench.faults_parsers import FORMATS, grammars, sweep
from tests.e2e.test_kill import forkserver, killed_writers
from tests.faults import damage, fuzz
from tests.mcp_client.stdio import StdioClient

HANG_S = 20.0
END_S = 5.0  # a server that is asked to end has ended by then
_SOURCE = 'def step_{n}(order):\n    """Moves order {n} of batch {word} on."""\n    return order.next({n})\n'


@dataclass(slots=True)
class Tally:
    """One line of the table, with what went wrong in words."""

    part: str
    rounds: int = 0
    faults: int = 0  # things done to it: kills, messages, flipped bits, damaged files
    checked: int = 0  # acknowledged writes that were looked for, or answers that were awaited
    lost: int = 0
    hangs: int = 0
    crashes: int = 0
    wrong: int = 0
    late: int = 0
    problems: list[str] = field(default_factory=list)

    def say(self, kind: str, what: str) -> None:
        """Counts a problem and keeps its words."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.problems.append(f"{kind}: {what}"[:2_000])


Part = Callable[[Tally, Path, random.Random, float], None]


@contextmanager
def server(library: Path, *arguments: str) -> Iterator[StdioClient]:
    """The real server on stdio, greeted."""
    command = [sys.executable, "-m", "refdesk", "--library", str(library), "serve", *arguments]
    with StdioClient(command) as client:
        client.initialize()
        yield client


# ── kills ──


def kills(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """A server that ingests, updates, learns and indexes is killed at any moment; the next one has all it had said."""
    library, tree = work / "library", work / "tree"
    tree.mkdir()
    words: dict[str, str] = {}  # of each address, the word of the last version that was acknowledged
    unsure: set[str] = set()  # addresses whose last write was never answered: either version may stand
    recent: list[str] = []
    while time.monotonic() < until:
        try:
            with server(library, "--allow-root", str(tree)) as client:
                if tally.rounds == 0:
                    client.call("rag_create_collection", {"name": "notes"})
                _look_for(tally, client, recent, words, unsure)
                recent = _write_and_kill(tally, client, tree, draw, words, unsure)
        except AssertionError as error:
            tally.say("hangs" if "silent" in str(error) else "crashes", f"round {tally.rounds}: {error}")
        tally.rounds += 1
    with server(library, "--allow-root", str(tree)) as client:
        _look_for(tally, client, [*words], words, unsure)
    command = [sys.executable, "-m", "refdesk", "--library", str(library), "doctor"]
    doctor = subprocess.run(command, capture_output=True, text=True, check=False)
    if doctor.returncode:
        tally.say("wrong", f"doctor: {doctor.stdout[-1_000:]}{doctor.stderr[-1_000:]}")


def _look_for(tally: Tally, client: StdioClient, addresses: list[str], words: dict[str, str], unsure: set[str]) -> None:
    """Whether each address has the last word that was acknowledged, found by searching for it."""
    for address in addresses:
        if address in unsure:
            continue
        tally.checked += 1
        answer = client.call("rag_search", {"query": words[address], "hybrid": False, "top_k": 1})
        if words[address] not in json.dumps(answer.get("result", {}).get("structuredContent", {}).get("results", [])):
            tally.say("lost", f"round {tally.rounds}: {address} with {words[address]}: {json.dumps(answer)[:500]}")


def _write_and_kill(
    tally: Tally, client: StdioClient, tree: Path, draw: random.Random, words: dict[str, str], unsure: set[str]
) -> list[str]:
    """Sends writes one after the other and kills the server among them; returns what was acknowledged."""
    done: list[str] = []
    enough, delay = draw.randrange(8), draw.uniform(0, 0.06)  # answers to wait for, and seconds after the last of them
    answered = threading.Semaphore(0)
    is_asked = draw.random() < 0.1  # to end, not killed
    ended = threading.Event()

    def end() -> None:
        for _ in range(enough):
            answered.acquire(timeout=HANG_S)
        time.sleep(delay)
        client.process.terminate() if is_asked else client.process.kill()
        ended.set()

    killer = threading.Thread(target=end)
    killer.start()
    number = 0
    while not ended.is_set():
        number += 1
        word = f"w{draw.getrandbits(64):016x}"
        address = f"note-{draw.randrange(200)}" if draw.random() < 0.3 else f"note-{tally.rounds}-{number}"
        if draw.random() < 0.15:
            (tree / f"m{draw.randrange(40)}.py").write_text(_SOURCE.format(n=number, word=word))
            call = ("index_codebase", {"path": str(tree)})
            address = ""
        else:
            text = f"# {address}\n\nThis note holds {word} and nothing else.\n"
            (tree / f"{address}.md").write_text(text * draw.choice((1, 1, 40)))
            call = ("rag_ingest", {"uri": (tree / f"{address}.md").as_uri(), "collection": "notes"})
            unsure.add(address)
        try:
            answer = client.call(*call)
        except (AssertionError, OSError):
            break
        answered.release()
        if address and not answer.get("result", {}).get("isError", True):
            words[address] = word
            unsure.discard(address)
            done.append(address)
        elif address and not (is_asked and "error" in answer):  # a server that ends refuses what it has not done
            tally.say("wrong", f"round {tally.rounds}: {json.dumps(answer)[:500]}")
    killer.join()
    tally.faults += 1
    try:
        client.process.wait(END_S + HANG_S if is_asked else HANG_S)
    except subprocess.TimeoutExpired:
        tally.say("hangs", f"round {tally.rounds}: alive {END_S + HANG_S} s after SIGTERM")
    return list(dict.fromkeys(done))


def writers(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """The same without a server, with snapshots and commits from the first documents on: many more kills."""
    context = forkserver()
    while time.monotonic() < until:
        folder, seeds = work / str(tally.rounds), [draw.randrange(1, 10**6) for _ in range(40)]
        try:
            for finished, _ in killed_writers(folder, context, seeds):
                tally.rounds += 1
                tally.faults += 1
                tally.checked += finished
        except AssertionError:
            tally.say("lost", f"seeds {seeds}: {traceback.format_exc(limit=-1)}")


# ── wrong calls ──


def calls(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """Messages of every wrong kind, and calls of every tool with any arguments, over both transports in turn."""
    library, folder = work / "library", work / "folder"
    folder.mkdir()
    for number in range(20):
        (folder / f"m{number}.py").write_text(_SOURCE.format(n=number, word="fuzz"))
    while time.monotonic() < until:
        with server(library, "--allow-root", str(folder)) as client:
            client.call("index_codebase", {"path": str(folder)})
            tools = client.request("tools/list")["result"]["tools"]
            held: list[int] = []
            for _ in range(10):
                if time.monotonic() > until:
                    break
                _add(tally, fuzz.over_stdio(client, fuzz.hostile(draw.getrandbits(32), tools), 500))
                held.append(fuzz.own_kb(client.process.pid))
            if (code := client.end()) == -signal.SIGKILL:
                tally.late += 1
            elif code != 0:
                tally.say("crashes", f"exit {client.process.returncode}: {' '.join(client.log[-5:])}")
        with http_load.served(library, 1) as (port, pid):
            for _ in range(4):
                if time.monotonic() > until:
                    break
                url = f"http://127.0.0.1:{port}/mcp"
                _add(tally, fuzz.over_http(url, fuzz.hostile(draw.getrandbits(32), tools), 250, draw.getrandbits(32)))
            held.append(fuzz.own_kb(pid))
        tally.rounds += 1


def _add(tally: Tally, some: fuzz.Tally) -> None:
    tally.faults += some.sent
    tally.checked += some.answered
    for wrong in some.wrong:
        tally.say("hangs" if "did not come" in wrong or "Timeout" in wrong else "wrong", wrong)


# ── damaged sources, damaged files, costly patterns, many clients ──


def sources(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """Damaged sources for every grammar and format: a worker may end, nobody else."""
    while time.monotonic() < until:
        for name in draw.sample(sorted((*grammars(), *(f".{ending}" for ending in FORMATS))), 20):
            if time.monotonic() > until:
                break
            for swept in sweep([name], 200, draw.getrandbits(32)):
                tally.rounds += 1
                tally.faults += swept.files
                tally.checked += swept.files
                if not swept.survived:
                    tally.say("wrong", f"{name}: an honest file was not read afterwards")


def files(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """Flipped bits in the files of a library: searches answer, doctor says so and repairs."""
    while time.monotonic() < until:
        for damaging in (damage.damage_indexes, damage.damage_files):
            outcome = damaging(work, 10, draw.getrandbits(30))
            tally.rounds += outcome.rounds
            tally.faults += outcome.faults
            tally.checked += outcome.rounds
            tally.lost += outcome.lost
            tally.hangs += outcome.hangs
            tally.crashes += outcome.crashes
            tally.problems += outcome.problems


def patterns(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """Globs and texts made to be slow for whoever backtracks."""
    while time.monotonic() < until:
        command = [sys.executable, "-m", "tests.faults.linear", str(draw.getrandbits(30)), "20"]
        slow = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        tally.rounds += 1
        tally.faults += 20
        for one in slow:
            tally.say("hangs", one)


def clients(tally: Tally, work: Path, draw: random.Random, until: float) -> None:
    """64 clients that each ask twice a second, 4 of them writing, of a server with two processes."""
    library = work / "library"
    with server(library) as client:
        client.call("rag_create_collection", {"name": "notes"})
        for number in range(50):
            uri = f"data:text/plain,order {number} of batch {number % 7}"
            client.call("rag_ingest", {"uri": uri, "collection": "notes"})
    with http_load.served(library, 2) as (port, _):
        while time.monotonic() < until:
            seconds = min(30.0, max(1.0, until - time.monotonic()))
            felt = asyncio.run(http_load.load(port, ["order of a batch", "batch 3"], 64, 4, 2.0, seconds))
            tally.rounds += 1
            tally.faults += 64
            answered = [*felt.searches, *felt.ingests]
            tally.checked += len(answered)
            tally.hangs += sum(one > HANG_S for one in answered)
            for error in felt.errors:
                tally.say("wrong", error)


# Lanes run beside each other, their parts one after the other for these shares of the time.
LANES: tuple[tuple[tuple[Part, float], ...], ...] = (
    ((kills, 0.75), (writers, 0.15), (clients, 0.1)),
    ((calls, 0.4), (sources, 0.3), (files, 0.25), (patterns, 0.05)),
)


def campaign(minutes: float, seed: int, only: list[str] | None = None) -> list[Tally]:
    """The table's lines."""
    tallies: list[Tally] = []

    def run(lane: list[tuple[Part, float]]) -> None:
        whole = sum(share for _, share in lane)
        for part, share in lane:
            tally = Tally(part.__name__)
            tallies.append(tally)
            with tempfile.TemporaryDirectory(prefix="refdesk-faults-") as work:
                until = time.monotonic() + minutes * 60 * share / whole
                try:
                    part(tally, Path(work), random.Random(f"{seed} {part.__name__}"), until)
                except Exception as error:
                    tally.say("wrong", f"the campaign itself: {type(error).__name__}: {error}")

    lanes = [[(part, share) for part, share in lane if not only or part.__name__ in only] for lane in LANES]
    threads = [threading.Thread(target=run, args=(lane,)) for lane in lanes if lane]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return tallies


def show(tallies: list[Tally]) -> str:
    head = ("part", "rounds", "faults", "checked", "lost", "hangs", "crashes", "wrong", "late")
    return tables.show("faults", head, [tuple(str(getattr(one, name)) for name in head) for one in tallies])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--only", nargs="*", choices=[part.__name__ for lane in LANES for part, _ in lane])
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    tallies = campaign(given.minutes, given.seed, given.only)
    print(show(tallies))
    for tally in tallies:
        for problem in tally.problems[:20]:
            print(f"{tally.part}: {problem}")
    tables.keep("faults", {"parts": [asdict(one) for one in tallies]}, given.json)
    if any(one.lost or one.hangs or one.crashes or one.wrong for one in tallies):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
