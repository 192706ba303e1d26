"""A shared library while its parts are killed: three Qdrant nodes, Postgres, two servers, a writer and four readers."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

import refdesk
from refdesk.model import Filters
from refdesk.store.shared.store import SharedStore
from tests.mcp_client.http import HttpClient, HttpServer
from tests.mcp_client.stdio import StdioClient
from tests.scale import servers

MAIN = Path(refdesk.__file__).with_name("__main__.py")
READERS = 4
LIMITS_S = {"search": 5.0, "write": 50.0}  # of docs/scale.md; a write waits for the lock and then for the index
HANG_S = 60.0  # far more than a request may take, also on a busy machine
POSTGRES_AWAY_S = 10.0
HANGING_S = 12.0  # longer than a search may take
_BETWEEN_S = (0.2, 1.5)  # from one fault to the next
_SETTLED_S = 60.0


@dataclass(slots=True)
class Outcome:
    """What became of it all."""

    kills: dict[str, int] = field(default_factory=dict)  # and all else that was done to it, by name
    acknowledged: dict[str, str] = field(default_factory=dict)  # the last word of each document
    lost: list[str] = field(default_factory=list)
    half: list[str] = field(default_factory=list)
    answered: int = 0  # of the queries while a node was down, or its like had just been
    refused: int = 0
    slow: dict[str, list[tuple[float, str]]] = field(default_factory=dict)  # the slowest of a kind, and what was done
    doctor: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def killed(self) -> int:
        """How often a process was killed; those that hang go on."""
        return sum(count for name, count in self.kills.items() if not name.startswith("hang"))

    @property
    def share(self) -> float:
        """Of the queries while a node was down, how many were answered."""
        return self.answered / max(1, self.answered + self.refused)

    @property
    def slowest_s(self) -> dict[str, float]:
        """The slowest request of each kind: search, write."""
        return {kind: slow[0][0] for kind, slow in self.slow.items()}


class _Run:
    def __init__(self, postgres: servers.Postgres, nodes: list[servers.Qdrant], seed: int, folder: Path) -> None:
        self.postgres, self.nodes, self.folder = postgres, nodes, folder
        self.address = servers.address(postgres, nodes, schema="faults")
        self.draw = random.Random(seed)
        self.outcome = Outcome()
        self.stop = threading.Event()
        self.node_down = threading.Event()
        self.postgres_down = threading.Event()
        self.unsure: set[str] = set()
        self.noting = threading.Lock()
        self.wrote = threading.Event()  # since the last kill of a writer
        self.fault = "none"  # the last one
        self.writer: StdioClient | None = None
        self.serving: list[HttpServer | None] = [None, None]

    # the writer: one document after the other, some of them again

    def write(self) -> None:
        draw, number = random.Random(self.draw.random()), 0
        while not self.stop.is_set():
            try:
                command = [sys.executable, str(MAIN), "--library", self.address, "serve", "--toolsets", "rag"]
                with StdioClient([*command, "--allow-root", str(self.folder)]) as client:
                    self.writer = client
                    client.initialize()
                    client.call("rag_create_collection", {"name": "notes"})
                    while not self.stop.is_set():
                        number += 1
                        name = f"note-{draw.randrange(number)}" if draw.random() < 0.3 else f"note-{number}"
                        self._write_one(client, name, f"w{draw.getrandbits(64):016x}", draw.choice((1, 1, 30)))
            except (AssertionError, OSError):
                continue  # killed; the next one goes on

    def _write_one(self, client: StdioClient, name: str, word: str, times: int) -> None:
        file = self.folder / f"{name}.md"
        file.write_text(f"# {name}\n\n" + f"This note holds {word} and nothing else.\n\n" * times)
        self.unsure.add(name)
        started, fault = time.monotonic(), self.fault
        answer = client.call("rag_ingest", {"uri": file.as_uri(), "collection": "notes"})
        self._note(time.monotonic() - started, f"write, {fault} to {self.fault}")
        if not answer.get("result", {}).get("isError", True):
            self.outcome.acknowledged[name] = word
            self.unsure.discard(name)
            self.wrote.set()

    # the readers: each asks one server, and the other one if that is gone, as a balancer would

    def read(self, number: int) -> None:
        with contextlib.ExitStack() as opened:
            self._ask(number, opened)

    def _ask(self, number: int, opened: contextlib.ExitStack) -> None:
        draw = random.Random(number)
        clients: dict[str, HttpClient] = {}
        while not self.stop.is_set():
            known = list(self.outcome.acknowledged.values())
            query = draw.choice(known) if known else "note"
            was_down = self.node_down.is_set()
            answer, problem, fault = None, "no server", self.fault
            for place in (number, number + 1, number):
                server = self.serving[place % 2]
                if server is None:
                    continue
                started = time.monotonic()
                try:
                    if server.url not in clients:
                        clients[server.url] = opened.enter_context(HttpClient(server.url))
                    client = clients[server.url]
                    answer = client.modern("tools/call", {"name": "rag_search", "arguments": {"query": query}})
                    break
                except (httpx.HTTPError, AssertionError, OSError) as error:
                    clients.pop(server.url, None)
                    problem = repr(error)
                finally:
                    said = "answered" if answer is not None else problem
                    self._note(time.monotonic() - started, f"search, {said}, {fault} to {self.fault}")
            if answer is None:
                time.sleep(0.1)
            is_good = answer is not None and not answer.get("result", {}).get("isError", True)
            if was_down and not self.postgres_down.is_set():
                self.outcome.answered += is_good
                self.outcome.refused += not is_good
                if not is_good:
                    self.outcome.problems.append(f"{problem} {json.dumps(answer)[:300]}")

    def _note(self, seconds: float, what: str) -> None:
        kind = what.partition(",")[0]
        with self.noting:
            slow = self.outcome.slow.get(kind, [])
            self.outcome.slow[kind] = sorted([*slow, (round(seconds, 2), what)], reverse=True)[:4]

    # the faults

    def serve(self, place: int) -> None:
        arguments = ("--library", self.address, "serve", "--toolsets", "rag", "--transport", "http", "--port", "0")
        for left in (2, 1, 0):  # on a busy machine one may take longer to start than is waited for
            with contextlib.ExitStack() as trying:
                if left:
                    trying.enter_context(contextlib.suppress(AssertionError))
                self.serving[place] = HttpServer(MAIN, *arguments)
                return

    def kill_node(self) -> None:
        node = self.draw.choice(self.nodes)
        self.node_down.set()
        node.kill()
        time.sleep(self.draw.uniform(0.5, 3.0))
        node.start()
        self.settle()
        self.node_down.clear()

    def hang_node(self) -> None:
        self.node_down.set()
        with self.draw.choice(self.nodes).frozen():
            time.sleep(HANGING_S)
        self.settle()
        self.node_down.clear()

    def kill_writer(self) -> None:
        self.wrote.wait(HANG_S)  # else no writer gets anywhere on a machine where it takes long to start
        self.wrote.clear()
        if self.writer is not None:
            self.writer.process.kill()

    def kill_server(self) -> None:
        place = self.draw.randrange(2)
        old, self.serving[place] = self.serving[place], None
        if old is not None:
            old.process.kill()
            old.__exit__()
        self.serve(place)

    def stop_postgres(self) -> None:
        self.postgres_down.set()
        self.postgres.stop()
        time.sleep(POSTGRES_AWAY_S)
        self.postgres.start()
        time.sleep(1.0)
        self.postgres_down.clear()

    def hang_postgres(self) -> None:
        self.postgres_down.set()
        with self.postgres.frozen():
            time.sleep(HANGING_S)
        time.sleep(1.0)
        self.postgres_down.clear()

    def settle(self) -> None:
        """Waits until every replica of every shard takes part again."""
        deadline = time.monotonic() + _SETTLED_S
        while time.monotonic() < deadline and not all(node.is_settled() for node in self.nodes):
            time.sleep(0.1)

    def go(self, kills: int) -> Outcome:
        threads = [threading.Thread(target=self.write)]
        threads += [threading.Thread(target=self.read, args=(number,)) for number in range(READERS)]
        for place in (0, 1):
            self.serve(place)
        for thread in threads:
            thread.start()
        faults: list[Callable[[], None]] = [self.kill_node, self.kill_node, self.kill_writer, self.kill_server]
        rare: dict[int, Callable[[], None]] = {3: self.hang_node, 7: self.stop_postgres, 11: self.hang_postgres}
        try:
            for number in itertools.count():
                if self.outcome.killed >= kills:
                    break
                time.sleep(self.draw.uniform(*_BETWEEN_S))
                fault = rare.get(number % 15, faults[number % len(faults)])
                name = self.fault = fault.__name__.replace("_", " ")
                fault()
                self.outcome.kills[name] = self.outcome.kills.get(name, 0) + 1
        finally:
            self.stop.set()
            for thread in threads:
                thread.join(120)
            for server in self.serving:
                if server is not None:
                    server.__exit__()
        assert not any(thread.is_alive() for thread in threads), "a reader or the writer hangs"
        self.settle()
        self.check()
        return self.outcome

    def check(self) -> None:
        """Looks for every document that was acknowledged: by its word, and whether it is whole."""
        store = SharedStore(self.address)
        try:
            within = Filters(collections=("notes",))
            store._follower.catch_up(store.sequence(), _SETTLED_S)  # what was acknowledged while the index was away
            for name, word in self.outcome.acknowledged.items():
                if name in self.unsure:
                    continue  # a later version was never answered: either may stand
                found = store.view(within).lexical([word], 50)
                passages = store.chunks(found.ids).values()
                if not any(word in one.chunk.text and one.document.path.endswith(f"{name}.md") for one in passages):
                    kept = [one for one in store.documents("notes", 1_000_000, 0) if one.path.endswith(f"{name}.md")]
                    is_kept = any(word in store.raw(one.id) for one in kept)
                    self.outcome.lost.append(f"{name} with {word}, which the record {'has' if is_kept else 'lacks'}")
                    continue
                document = next(one.document for one in passages if one.document.path.endswith(f"{name}.md"))
                raw, parts = store.raw(document.id), store.chunks_of(document.id)
                lacks = {one.id for one in parts if word in one.chunk.text}.difference(found.ids)
                if lacks or raw.count(word) != sum(one.chunk.text.count(word) for one in parts):
                    self.outcome.half.append(name)
        finally:
            store.close()
        doctor = [sys.executable, str(MAIN), "--library", self.address, "doctor", "--check"]
        done = subprocess.run(doctor, capture_output=True, text=True, check=False, env=dict(os.environ))
        self.outcome.doctor = "" if done.returncode == 0 else done.stdout + done.stderr


def run(kills: int, seed: int) -> Outcome:
    """So many faults, one after the other, and what became of the library; raises servers.Missing."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="refdesk-faults-")))
        postgres, nodes = stack.enter_context(servers.running(3, in_memory=True))
        return _Run(postgres, nodes, seed, folder).go(kills)


def table(outcome: Outcome) -> dict[str, Any]:
    """The outcome in figures."""
    return {
        "kills": outcome.killed, **outcome.kills, "acknowledged": len(outcome.acknowledged),
        "lost": outcome.lost or 0, "half there": len(outcome.half),
        "queries while a node was down": outcome.answered + outcome.refused, "answered": round(outcome.share, 4),
        "slowest, s": outcome.slowest_s, "slowest requests": outcome.slow,
        "doctor": outcome.doctor or "clean", "problems": outcome.problems[:5],
    }  # fmt: skip
