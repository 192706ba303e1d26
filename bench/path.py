"""How many files and functions does one call go through?  The real server and its workers, profiled.

python -m bench.path [--show]

A warm `search_code` that finds nothing changed, and an `index_codebase` of tests of this repository after that of its
source, both over stdio. A run over a megabyte goes through desk/elsewhere.py, and through the same files in a process
of its own, which opens the library first. The files of the server itself are counted apart. Functions that also run
while nothing is asked (polling for changes by others) or for a call that is refused (metrics) do not count, nor does
the journal, which is written after the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from bench.tables import Row, show_rows
from tests.mcp_client.stdio import SOURCE, StdioClient

# Put before the program in every process: notes when each function was last called, and tells it a few times a second,
# since some processes are killed when they are not needed any more.
_NOTE = """
import json, os, sys, threading, time
def _note(frame, event, _, last={}, now=time.monotonic):
    if event == "call":
        last[frame.f_code] = now()
def _tell():
    last, file = _note.__defaults__[0], os.path.join(os.environ["BENCH_PATH_TOLD"], str(os.getpid()))
    while True:
        time.sleep(0.2)
        said = [[code.co_filename, code.co_qualname, when] for code, when in list(last.items()) if code.co_flags & 1]
        with open(file + ".new", "w") as out:
            json.dump(said, out)
        os.replace(file + ".new", file)
threading.Thread(target=_tell, daemon=True).start()
threading.setprofile(_note)
sys.setprofile(_note)
"""
_TOLD_S = 1.0  # after which all processes have told
_IDLE_S = 5.0  # two polls and two looks at the worker processes
_WANTED = {"search_code": 30, "index_codebase": 55}


def paths(folder: Path) -> dict[str, dict[str, set[str]]]:
    """Of each call, the functions it went through, by file."""
    (folder / "hook").mkdir()
    (folder / "hook" / "sitecustomize.py").write_text(_NOTE)
    told = folder / "told"
    told.mkdir()
    os.environ.update(PYTHONPATH=str(folder / "hook"), BENCH_PATH_TOLD=str(told), REFDESK_JOURNAL="0")
    root = SOURCE / "refdesk"
    tests = Path(__file__).parents[1] / "tests" / "unit" / "parse"
    command = [sys.executable, "-m", "refdesk", "--library", str(folder / "library"), "serve"]
    command += ["--allow-root", str(root), "--allow-root", str(tests)]
    found = {}
    with StdioClient(command) as client:
        client.initialize()
        client.call("index_codebase", {"path": str(root)})
        begun = time.monotonic() + 1.0  # until the end of what the call left to do
        time.sleep(1.0 + _IDLE_S)
        client.call("search_code", {"limit": "many"})
        time.sleep(0.5)
        idle = _since(begun, told)
        begun = time.monotonic()
        client.call("index_codebase", {"path": str(tests)})
        found["index_codebase"] = _since(begun, told)
        for _ in range(3):
            begun = time.monotonic()
            client.call("search_code", {"query": "how are hits ranked", "path": str(root)})
            time.sleep(0.5)  # so that what goes on beside is not of the next call
        found["search_code"] = _since(begun, told)
    return {call: _without(files, idle) for call, files in found.items()}


def _without(files: dict[str, set[str]], idle: dict[str, set[str]]) -> dict[str, set[str]]:
    left = {file: names - idle.get(file, set()) if not _is_server(file) else names for file, names in files.items()}
    return {file: names for file, names in left.items() if names}


def _is_server(file: str) -> bool:
    return file.startswith("refdesk/server/")


def _since(begun: float, told: Path) -> dict[str, set[str]]:
    """The functions of the package that were called since then, in all processes."""
    time.sleep(_TOLD_S)
    found: dict[str, set[str]] = {}
    for file in told.glob("*[0-9]"):
        for code, function, when in json.loads(file.read_text()):
            is_of_import = function.startswith("<")  # a comprehension at the top of a module
            if when >= begun and code.startswith(str(SOURCE)) and not is_of_import:
                found.setdefault(str(Path(code).relative_to(SOURCE)), set()).add(function)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--show", action="store_true", help="name the files and functions")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = paths(Path(folder))
    rows = []
    for call, files in found.items():
        served = [file for file in files if _is_server(file)]
        rows.append(
            Row(f"{call}: files", len(files) - len(served), "", _WANTED[call], note=f"{len(served)} of the server")
        )
        rows.append(Row(f"{call}: functions", sum(map(len, files.values())), ""))
        if given.show:
            print(call, *(f"  {file}: {', '.join(sorted(names))}" for file, names in sorted(files.items())), sep="\n")
    print(show_rows("files and functions a call goes through", rows))


if __name__ == "__main__":
    main()
