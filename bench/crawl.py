"""How many pages a second does a crawl bring into the library, against `wget --recursive` over the same site?

python -m bench.crawl [--latency-ms 20] [--rounds 3] [--concurrency 4] [--polite-rounds 1] [--site FOLDER]

The site is Django's documentation, built by Sphinx once and kept in the cache, served from memory by a process of its
own that answers each request after --latency-ms.  The bar is wget's speed at 20 ms: the crawl has four connections, its
default, and wget the one that it always has.  wget writes files; the crawl parses, cuts, embeds and indexes every page.
"Until fetched" is the time in which the crawl does what wget does, from the first page that is asked for until all are
on the disk and their links followed; start-up is in the other ratio only.  The polite rounds crawl with the default
delay of 0.1 s between two requests, against wget with --wait=0.1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.clock import ROOT, environment
from bench.corpora import DEFAULT_CACHE, fetch, pins
from bench.tables import keep, show

POLITE_DELAY_S = 0.1  # as `refdesk crawl` has it by default
_CONF = """
import sys
sys.path[:0] = [{extensions!r}, {package!r}]
extensions = ["djangodocs"]
source_suffix = {{".txt": "restructuredtext"}}
root_doc = "contents"
exclude_patterns = ["_build", "_theme", "requirements.txt"]
project = "Django"
html_copy_source = False
html_theme = "alabaster"
"""


def built_site(cache: Path) -> Path:
    """Django's documentation as Sphinx builds it."""
    package = fetch(pins()["pypi", "django"], cache)
    site = cache / "sites" / package.name
    if (site / "contents.html").is_file():
        return site
    with tempfile.TemporaryDirectory() as folder:
        conf = _CONF.format(extensions=str(package / "docs" / "_ext"), package=str(package))
        Path(folder, "conf.py").write_text(conf, encoding="utf-8")
        out = Path(folder, "html")
        command = [sys.executable, "-m", "sphinx", "-Q", "-b", "html", "-c", folder, str(package / "docs"), str(out)]
        subprocess.run(command, check=True)
        shutil.rmtree(out / ".doctrees", ignore_errors=True)
        site.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(out, site)
    return site


class _Site(asyncio.Protocol):
    """One connection of a server that has all files in memory."""

    def __init__(self, files: dict[bytes, bytes], latency_s: float) -> None:
        self._files = files
        self._latency_s = latency_s
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire: Any = transport

    def data_received(self, data: bytes) -> None:
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].partition(b"?")[0]
            if self._latency_s:
                asyncio.get_running_loop().call_later(self._latency_s, self._answer, path)
            else:
                self._answer(path)

    def _answer(self, path: bytes) -> None:
        body = self._files.get(path)
        status = b"200 OK" if body is not None else b"404 Not Found"
        kind = b"text/html; charset=utf-8" if path.endswith((b".html", b"/")) else b"text/plain"
        head = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n" % (status, kind, len(body or b""))
        self._wire.write(head + (body or b""))


async def _serve(folder: Path, latency_s: float) -> None:
    files = {b"/" + one.relative_to(folder).as_posix().encode(): one.read_bytes() for one in folder.rglob("*.html")}
    files[b"/"] = files[b"/contents.html"]
    server = await asyncio.get_running_loop().create_server(lambda: _Site(files, latency_s), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def served(folder: Path, latency_ms: float) -> Iterator[str]:
    """The root of the site while a process serves it."""
    command = [sys.executable, "-m", "bench.crawl", "--serve", str(folder), "--latency-ms", str(latency_ms)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/contents.html"
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def wget(root: str, folder: Path, delay: float) -> tuple[int, float]:
    """How many pages wget fetched, and in how many seconds."""
    command = ["wget", "--quiet", "--recursive", "--level=inf", "--accept=html", "--no-host-directories"]
    command += [f"--wait={delay}"] if delay else []
    started = time.perf_counter()
    subprocess.run([*command, f"--directory-prefix={folder}", root], check=False)
    took = time.perf_counter() - started
    return sum(1 for _ in folder.rglob("*.html")), took


def refdesk(
    root: str, library: Path, concurrency: int, delay: float, embedder: str
) -> tuple[int, float, dict[str, Any]]:
    """How many pages the crawl fetched, in how many seconds until all were in the library, and its report."""
    command = [sys.executable, "-m", "refdesk", "--library", str(library), "--embedder", embedder, "crawl", root]
    options = ["--name", "site", "--allow-host", "127.0.0.1", "--delay", str(delay), "--concurrency", str(concurrency)]
    started = time.perf_counter()
    done = subprocess.run([*command, *options, "--json"], env=environment(), capture_output=True, text=True, check=True)
    took = time.perf_counter() - started
    report: dict[str, Any] = json.loads(done.stdout)
    return report["pages"] + report["duplicates"], took, report


def measure(
    site: Path, latency_ms: float, rounds: int, concurrency: int, embedder: str, delay: float = 0.0
) -> dict[str, Any]:
    """Pages per second of both, in turn, the median of the rounds' ratios, and processor time a page."""
    sides: dict[str, list[float]] = {"wget": [], "crawl": [], "fetch": []}
    cpu: dict[str, list[float]] = {"wget": [], "crawl": []}
    found: dict[str, Any] = {"latency_ms": latency_ms, "concurrency": concurrency, "delay_s": delay, **sides}
    with served(site, latency_ms) as root:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                for side in ("wget", "crawl")[:: 1 if number % 2 == 0 else -1]:
                    before = _children_cpu_s()
                    if side == "wget":
                        pages, took = wget(root, Path(folder, "wget"), delay)
                    else:
                        pages, took, report = refdesk(root, Path(folder, "library"), concurrency, delay, embedder)
                        sides["fetch"].append(pages / report["fetch_seconds"])
                        found["pages"], found["chunks"] = pages, report["chunks"]
                    sides[side].append(pages / took)
                    cpu[side].append((_children_cpu_s() - before) / pages * 1000)
                    found[f"{side}_pages"] = pages
    for side in ("crawl", "fetch"):
        found[f"{side}_ratio"] = statistics.median(a / b for a, b in zip(sides[side], sides["wget"], strict=True))
    for side in cpu:
        found[f"{side}_cpu_ms"] = statistics.median(cpu[side])
    return found


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--latency-ms", type=float, nargs="*", default=[20])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--concurrency", type=int, nargs="*", default=[4])
    options.add_argument("--polite-rounds", type=int, default=1, help="rounds with the default delay, or 0")
    options.add_argument("--embedder", default="static")
    options.add_argument("--site", type=Path, help="a folder of html files with a contents.html, instead of Django's")
    options.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    options.add_argument("--json", type=Path)
    options.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.serve:
        asyncio.run(_serve(given.serve, given.latency_ms[0] / 1000))
        return
    site = given.site or built_site(given.cache)
    results = [
        measure(site, latency, given.rounds, concurrency, given.embedder)
        for latency in given.latency_ms
        for concurrency in given.concurrency
    ]
    if given.polite_rounds:
        results += [measure(site, 20, given.polite_rounds, 4, given.embedder, POLITE_DELAY_S)]
    rows = [
        (
            f"{one['latency_ms']:g} ms",
            str(one["concurrency"]),
            f"{one['delay_s']:g} s",
            *(f"{statistics.median(one[side]):.1f}" for side in ("wget", "crawl")),
            *(f"{one[ratio]:.2f}" for ratio in ("crawl_ratio", "fetch_ratio")),
            *(f"{one[cpu]:.1f}" for cpu in ("wget_cpu_ms", "crawl_cpu_ms")),
        )
        for one in results
    ]
    head = (
        "latency",
        "connections",
        "delay",
        "wget pages/s",
        "crawl pages/s",
        "ratio",
        "until fetched",
        "wget cpu ms",
        "crawl cpu ms",
    )
    print(show(f"Crawl of {results[0]['pages']} pages", head, rows))
    print(keep("crawl", {"results": results}, given.json))


if __name__ == "__main__":
    main()
