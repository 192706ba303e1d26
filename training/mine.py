"""Mines training records from registry packages: functions with what is said of them, and sections with their headings.

    python training/mine.py --list training/packages.txt --out RECORDS --jobs 3 --pypi URL --npm URL --debian URL

A list has one package a line: registry, name==version, licence.  Records go to RECORDS/NAME.jsonl.xz, one file
a package, so a stopped run goes on where it was.  RECORDS/log.txt says what became of each package.
"""

from __future__ import annotations

import argparse
import io
import json
import lzma
import multiprocessing as mp
import re
import ssl
import tarfile
import time
import urllib.parse
import urllib.request
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path, PurePosixPath

import exclude
from sections import sections
from syntax import Unit, units

LANGUAGES = {
    "py": "python",
    "pyi": "",
    "js": "javascript",
    "mjs": "javascript",
    "cjs": "javascript",
    "jsx": "javascript",
    "ts": "typescript",
    "mts": "typescript",
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    "c": "c",
    "h": "c",
    "cc": "cpp",
    "cpp": "cpp",
    "cxx": "cpp",
    "hpp": "cpp",
    "hh": "cpp",
    "hxx": "cpp",
    "rb": "ruby",
    "php": "php",
    "lua": "lua",
    "cs": "csharp",
    "swift": "swift",
    "kt": "kotlin",
    "scala": "scala",
    "hs": "haskell",
    "sh": "bash",
}
DOCUMENTS = {"md", "markdown", "mdx", "mkd", "rst", "adoc", "asciidoc", "pod"}
DEBIAN_RELEASE = "trixie"
# Where the registries are: given on the command line, for they differ from place to place.
ADDRESSES: dict[str, str] = {}
MAX_FILE = 250_000
MAX_FUNCTIONS, MAX_SECTIONS = 6_000, 2_500
MAX_ARCHIVE = 120_000_000
PERMISSIVE = re.compile(
    r"\bMIT|\bBSD|apache|\bISC\b|zlib|\bPSF|python software foundation|unlicen[sc]e|CC0|\b0BSD|boost|BSL-1\.0|HPND"
    r"|\bZPL|zope public|public.domain|expat|\bX11\b|\bNCSA\b|blueoak|\bWTFPL|\bPostgreSQL\b|\bcurl\b"
    r"|\bCC-BY-[34]",
    re.IGNORECASE,
)
COPYLEFT = re.compile(
    r"GPL|\bMPL|mozilla|eclipse|\bEPL|CDDL|\bEUPL|proprietary|non-?commercial|\bSSPL|\bNC\b|BUSL|-SA|GFDL",
    re.IGNORECASE,
)


_TLS = ssl.create_default_context()


def permissive(licence: str) -> bool:
    """Whether a licence text or expression leaves everyone free to use what is licensed."""
    alternatives = re.split(r"\bOR\b|\bor\b|/", licence)
    return any(PERMISSIVE.search(part) and not COPYLEFT.search(part) for part in alternatives) and not (
        COPYLEFT.search(licence) and len(alternatives) == 1
    )


def fetch(url: str) -> bytes:
    """The bytes at an address of a registry."""
    for attempt in range(3):
        try:
            with urllib.request.urlopen(url, timeout=60, context=_TLS) as answer:
                return bytes(answer.read())
        except OSError as error:
            if attempt == 2 or getattr(error, "code", 0) == 404:
                raise
            time.sleep(2**attempt)
    raise AssertionError


def members(archive: bytes, allow_heldout: bool = False) -> Iterator[tuple[str, bytes]]:
    """The text files of a package that may be mined."""
    if archive[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
            for entry in zipped.infolist():
                if _wanted(entry.filename, entry.file_size, allow_heldout):
                    yield entry.filename, zipped.read(entry)
        return
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member in packed:
            if member.isfile() and _wanted(member.name, member.size, allow_heldout):
                file = packed.extractfile(member)
                if file is not None:
                    yield member.name, file.read()


def _wanted(name: str, size: int, allow_heldout: bool) -> bool:
    if not 60 < size < MAX_FILE or ".min." in name or name.endswith((".d.ts", "_pb2.py", ".pb.go", ".pyi")):
        return False
    parts = PurePosixPath(name).parts[1:]
    suffix = name.rsplit(".", 1)[-1].lower()
    if suffix not in LANGUAGES and suffix not in DOCUMENTS:
        return False
    return not any(exclude.is_excluded_part(part, allow_heldout) for part in parts)


def records(archive: bytes, allow_heldout: bool = False) -> list[dict[str, object]]:
    """Everything a package teaches: functions and types, sections, and outlines of files."""
    functions: list[tuple[str, str, Unit]] = []
    found: list[dict[str, object]] = []
    # Tests come last, so that a package's limit is spent on what they test.
    seen: set[tuple[str, int]] = set()
    for name, content in sorted(members(archive, allow_heldout), key=lambda member: "test" in member[0].lower()):
        path = "/".join(PurePosixPath(name).parts[1:])
        # The same module built twice for two module systems has one name and about one size.
        twin = (PurePosixPath(name).stem, len(content) // 400)
        if twin in seen and len(content) > 1_000:
            continue
        seen.add(twin)
        suffix = name.rsplit(".", 1)[-1].lower()
        head = content[:3000].decode("utf-8", "ignore")
        if "\0" in head or exclude.FOREIGN_MARKS.search(head) or _COPYLEFT_TEXT.search(head):
            continue
        if suffix in DOCUMENTS:
            if len(found) < MAX_SECTIONS:
                for headings, body in sections(content.decode("utf-8", "replace"), suffix):
                    found.append({"k": "s", "p": path, "h": headings, "b": body})
        elif LANGUAGES[suffix] and len(functions) < MAX_FUNCTIONS and not _machine_made(content):
            in_file = units(content, LANGUAGES[suffix])
            functions += [(path, LANGUAGES[suffix], unit) for unit in in_file]
            if len(in_file) >= 4:
                found.append({"k": "o", "p": path, "b": [unit.name for unit in in_file][:80]})
    return found[: 2 * MAX_SECTIONS] + _with_uses(functions[:MAX_FUNCTIONS])


def _machine_made(content: bytes) -> bool:
    head = content[:600].lower()
    if b"do not edit" in head or b"@generated" in head or b"auto-generated" in head or b"autogenerated" in head:
        return True
    return len(content) > 120 * (content.count(b"\n") + 1)


_CALL = re.compile(r"\b([A-Za-z_]\w{5,})\s*\(")
_DEFINES = re.compile(r"\b(def|function|func|fn|void|int|static|new)\s+\*?$")


def _with_uses(functions: list[tuple[str, str, Unit]]) -> list[dict[str, object]]:
    by_name: dict[str, list[int]] = defaultdict(list)
    for number, (_, _, unit) in enumerate(functions):
        by_name[unit.name].append(number)
    unique = {name: numbers[0] for name, numbers in by_name.items() if len(numbers) == 1 and len(name) > 5}
    joined = {name.replace("_", "").lower(): number for name, number in unique.items()}
    calls: dict[int, list[str]] = defaultdict(list)
    tests: dict[int, list[str]] = defaultdict(list)
    found = []
    for number, (path, language, unit) in enumerate(functions):
        for call in _CALL.finditer(unit.body if unit.kind == "function" else ""):
            called = unique.get(call[1])
            is_definition = _DEFINES.search(unit.body, max(0, call.start() - 12), call.start())
            if called is not None and called != number and len(calls[called]) < 2 and not is_definition:
                calls[called].append(f"{unit.name}: {_lines_around(unit.body, call.start())}")
        is_test = "test" in path.lower()
        tested = _tested(unit.name, joined) if is_test else None
        if tested is not None and tested != number:
            tests[tested].append(unit.name)
        found.append(
            {
                "k": "f",
                "l": language,
                "p": path,
                "n": unit.name,
                "o": unit.owner,
                "t": unit.kind,
                "s": unit.signature,
                "b": unit.body,
                "d": unit.doc,
                "x": is_test,
            }
        )
    for number, sites in calls.items():
        found[number]["c"] = sites
    for number, names in tests.items():
        found[number]["e"] = names[:2]
    return [one for one in found if _teaches(one)]


def _teaches(record: dict[str, object]) -> bool:
    if record["d"] or record.get("e") or (record.get("c") and not record["x"]):
        return True
    return not record["x"] and record["t"] != "declaration" and len(str(record["b"])) > 120


def _lines_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, max(0, text.rfind("\n", 0, position)))
    end = text.find("\n", position)
    end = text.find("\n", end + 1) if end != -1 else -1
    return text[max(0, start) : end if end != -1 else len(text)].strip()[:300]


def _tested(name: str, joined: dict[str, int]) -> int | None:
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    if not parts or parts[0].lower() not in ("test", "it", "should", "check"):
        return None
    rest = [part.lower() for part in parts[1:]]
    for size in range(len(rest), 0, -1):
        candidate = "".join(rest[:size])
        if len(candidate) > 5 and candidate in joined:
            return joined[candidate]
    return None


def _pypi(name: str, version: str) -> tuple[str, str, list[str]]:
    answer = json.loads(fetch(f"{ADDRESSES['pypi']}/pypi/{name}/json"))
    info = answer["info"]
    classifiers = [line.split("::")[-1] for line in info["classifiers"] if line.startswith("License")]
    licence = (
        info.get("license_expression") or "; ".join(classifiers) or " ".join((info.get("license") or "").split())[:200]
    )
    addresses = [info.get("home_page") or "", *(info.get("project_urls") or {}).values()]
    files = [entry for entry in answer["releases"][version] if entry["packagetype"] == "sdist"]
    if not files or files[0]["size"] > MAX_ARCHIVE:
        return "", licence, addresses
    return urllib.parse.urljoin(f"{ADDRESSES['pypi']}/simple/{name}/", files[0]["url"]), licence, addresses


def _npm(name: str, version: str) -> tuple[str, str, list[str]]:
    answer = json.loads(fetch(f"{ADDRESSES['npm']}/{name.replace('/', '%2f')}/{version}"))
    repository = answer.get("repository") or ""
    address = repository.get("url", "") if isinstance(repository, dict) else repository
    return answer["dist"]["tarball"], str(answer.get("license") or ""), [address, str(answer.get("homepage") or "")]


_LICENCE_FILE = re.compile(r"(licen[sc]e|copying|copyright|notice)[^/]*$", re.IGNORECASE)
_LICENCE_TEXTS = {
    "MIT": "permission is hereby granted, free of charge",
    "BSD": "redistribution and use in source and binary forms",
    "Apache-2.0": "apache license",
    "ISC": "permission to use, copy, modify, and",
    "Zlib": "this software is provided 'as-is', without any express",
    "BSL-1.0": "boost software license",
    "Unlicense": "released into the public domain",
}
_COPYLEFT_TEXT = re.compile(
    r"GNU\s+(Lesser |Library |Affero )?General\s+Public|GNU [AL]?GPL|Mozilla\s+Public\s+Licen|Eclipse\s+Public|CDDL",
    re.I,
)


def _licence_inside(archive: bytes) -> str:
    """The licence by the licence files at an archive's root; nothing unless all of them are permissive."""
    found: set[str] = set()
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        for member in packed:
            if not member.isfile() or member.name.count("/") > 1 or not _LICENCE_FILE.search(member.name):
                continue
            file = packed.extractfile(member)
            text = " ".join(file.read(40_000).decode("utf-8", "replace").lower().split()) if file else ""
            if _COPYLEFT_TEXT.search(text):
                return ""
            found |= {name for name, mark in _LICENCE_TEXTS.items() if mark in text}
    return " AND ".join(sorted(found))


@lru_cache(1)
def debian_index() -> dict[tuple[str, str], tuple[str, list[str]]]:
    """The folder and files of each source package of the Debian release."""
    text = lzma.decompress(fetch(f"{ADDRESSES['debian']}/dists/{DEBIAN_RELEASE}/main/source/Sources.xz")).decode()
    index = {}
    for entry in text.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Version|Directory): (.+)$", entry, re.MULTILINE))
        files = re.findall(r"^ [0-9a-f]{64} \d+ (\S+\.(?:tar\.\w+|tgz))$", entry, re.MULTILINE)
        if files:
            index[fields["Package"], fields["Version"]] = (fields["Directory"], files)
    return index


def archives(registry: str, name: str, version: str) -> tuple[str, list[bytes]]:
    """The licence of a package and its archives; no archive if it may not be mined."""
    if registry == "debian":
        folder, files = debian_index()[name, version]
        base = f"{ADDRESSES['debian']}/{folder}/"
        sources = [file for file in files if ".orig" in file and ".orig-" not in file]
        archive = fetch(base + sources[0]) if sources else b""
        licence = _licence_inside(archive) if archive else ""
        return licence, [archive] if licence else []
    url, licence, addresses = (_pypi if registry == "pypi" else _npm)(name, version)
    if not url or not permissive(licence) or any(exclude.is_excluded_address(address) for address in addresses):
        return licence, []
    return licence, [fetch(url)]


def mine(job: tuple[str, str, str, Path]) -> str:
    """Mines one package into its file; says how many records it gave."""
    registry, name, version, out = job
    safe = re.sub(r"\W+", "_", f"{registry}_{name}_{version}")
    target = out / f"{safe}.jsonl.xz"
    if exclude.is_excluded(name):
        return f"excluded {registry} {name}"
    try:
        licence, contents = archives(registry, name, version)
        found = [record for content in contents for record in records(content)]
    except Exception as error:  # one broken package must not stop the run
        return f"failed {registry} {name}=={version} {error!r:.200}"
    if not found:
        return f"empty {registry} {name}=={version} [{licence[:60]}]"
    lines = "\n".join(json.dumps(record, ensure_ascii=False) for record in found)
    target.write_bytes(lzma.compress(lines.encode("utf-8", "replace"), preset=0))
    return f"mined {registry} {name}=={version}  {licence[:80]}  {len(found)}"


def _jobs(path: Path, out: Path) -> Iterator[tuple[str, str, str, Path]]:
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            registry, pinned = line.split()[:2]
            name, _, version = pinned.partition("==")
            yield registry, name, version, out


def take_addresses(arguments: argparse.ArgumentParser) -> argparse.Namespace:
    """The options, with the registries' addresses among them."""
    for registry in ("pypi", "npm", "debian"):
        arguments.add_argument(f"--{registry}", default="", help=f"the address of the {registry} registry")
    options = arguments.parse_args()
    ADDRESSES.update({name: getattr(options, name).rstrip("/") for name in ("pypi", "npm", "debian")})
    return options


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--list", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--documents", action="store_true", help="sections only, no code")
    options = take_addresses(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.documents:
        for suffix in LANGUAGES:
            LANGUAGES[suffix] = ""
    log = options.out / "log.txt"
    done = {" ".join(line.split()[1:3]) for line in log.read_text().splitlines()} if log.exists() else set()
    jobs = [job for job in _jobs(options.list, options.out) if f"{job[0]} {job[1]}=={job[2]}" not in done]
    if any(job[0] == "debian" for job in jobs):
        debian_index()  # once, before the workers are forked
    with mp.Pool(options.jobs, maxtasksperchild=200) as pool, log.open("a") as file:
        for answer in pool.imap_unordered(mine, jobs):
            print(answer, file=file, flush=True)


if __name__ == "__main__":
    main()
