"""Which packages and files stay out of training?  Reserved and held-out projects, under every name we know."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

HERE = Path(__file__).parent
RESERVED = HERE.parent.parent / "shared" / "reserved-projects.txt"

# Other names of reserved projects: organisations, forks, import names, Debian's names.
RESERVED_ALIASES = [
    "abseil",
    "absl",
    "afnetworking",
    "aioredis",
    "hiredis",
    "anthropic",
    "bats",
    "cpython",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "fmtlib",
    "gonic",
    "gingonic",
    "guzzlehttp",
    "illuminate",
    "jackson",
    "kotlinx",
    "laravel",
    "nlohmann",
    "messagepack",
    "msgpackcsharp",
    "newtonsoft",
    "neovim",
    "nvim",
    "pandoc",
    "preact",
    "reduxjs",
    "sklearn",
    "springframework",
    "vitejs",
    "vitest",
    "tailwind",
    "json-net",
    "libcurl",
    "pycurl",
    "libuv1",
    "rapidjson-fmt",
    "ziglang",
    "elixir-lang",
    "activesupport",
    "activerecord",
    "actionpack",
    "activemodel",
    "railties",
    "psr7-guzzle",
    "lazy-nvim",
]
# Other names of held-out projects, and the libraries whose source they carry.
HELDOUT_ALIASES = [
    "zstd",
    "libzstd",
    "zstandard",
    "harfbuzz",
    "chipmunk",
    "openlayers",
    "skimage",
    "attr",
    "brotli",
    "python-attrs",
    "node-three",
    "threejs",
    "h3-js",
    "tree-sitter-c",
    "libtree-sitter",
    "dmlc",
    "hatchling",
    "js-effect",
    "effect-ts",
    "moment-luxon",
    "datefns",
    "pybind",
    "rust-tokenizers",
]
# Words so common that only a whole package name counts, not a part of one or of a path.
COMMON = {"async", "three", "effect", "ol", "h3", "arrow", "commander", "attr", "attrs", "lark", "coverage", "hatch"}

VENDOR_PARTS = frozenset(
    [
        "vendor",
        "_vendor",
        "vendored",
        "_vendored",
        "third_party",
        "third-party",
        "thirdparty",
        "3rdparty",
        "external",
        "externals",
        "extern",
        "deps",
        "node_modules",
        "bundled",
        "bower_components",
        "site-packages",
        "dist-packages",
        "godeps",
        "submodules",
        "subprojects",
        "embedded-libs",
        "__pycache__",
        ".git",
        "generated",
        "gen",
        "fixtures",
        "testdata",
        "snapshots",
        "locale",
        "locales",
        "i18n",
    ]
)
# Copyright lines of reserved projects that are often carried as single files.
FOREIGN_MARKS = re.compile(
    r"Niels Lohmann|Victor Zverovich|github\.com/fmtlib|Daniel Stenberg|Salvatore Sanfilippo|libuv project contributors"
    r"|Kenneth Reitz|Facebook, Inc\. and its affiliates.{0,400}react|The Abseil Authors|Yann Collet|tailwindcss v"
    r"|Armin Ronacher|Pallets|Evan You|Redis Ltd|JS Foundation and other contributors.{0,200}redux",
    re.DOTALL,
)
_DEBIAN = re.compile(
    r"^(python3?|golang-(github|gitlab|google|gopkg)|golang|rust|ruby|node|haskell|php|lua|lib|r-cran)-"
)


def words(name: str) -> tuple[str, ...]:
    """The words of a package or project name, without version digits at the end of a word."""
    found = (part.rstrip("0123456789") or part for part in re.split(r"[^a-z0-9]+", name.lower()))
    return tuple(part for part in found if part)


@lru_cache(1)
def reserved() -> frozenset[tuple[str, ...]]:
    """Word sequences that name a reserved project."""
    lines = [line for line in RESERVED.read_text().splitlines() if not line.startswith("#")]
    return frozenset(words(name) for name in " ".join(lines).split() + RESERVED_ALIASES)


@lru_cache(1)
def heldout() -> frozenset[tuple[str, ...]]:
    """Word sequences that name a held-out project."""
    lines = (HERE / "heldout.txt").read_text().splitlines()
    names = [line.split()[2].split("==")[0] for line in lines if line and not line.startswith("#")]
    return frozenset(words(name) for name in names + HELDOUT_ALIASES)


def is_excluded(name: str) -> bool:
    """Whether a package may not be mined, judged by its name."""
    parts = words(name)
    runs = {parts[i:j] for i in range(len(parts)) for j in range(i + 1, min(len(parts), i + 3) + 1)}
    if runs & reserved():
        return True
    distinctive = {run for run in heldout() if run[0] not in COMMON or len(run) > 1}
    return bool(runs & distinctive) or words(_DEBIAN.sub("", name)) in heldout() or parts in heldout()


def is_excluded_address(url: str) -> bool:
    """Whether a repository or home page address belongs to a reserved or held-out project."""
    match = re.search(r"(?:github|gitlab|bitbucket|codeberg)\.[a-z]+[/:]([^/\s]+)/([^/\s#?]+)", url)
    if not match:
        host = re.sub(r"^\w+://(www\.)?", "", url.lower()).split("/")[0]
        return words(host.rsplit(".", 1)[0]) in reserved()
    owner, repository = match[1], match[2].removesuffix(".git")
    return is_excluded(repository) or words(owner) in reserved()


@lru_cache(200_000)
def is_excluded_part(part: str, allow_heldout: bool = False) -> bool:
    """Whether a folder or file name marks other projects' code."""
    lowered = part.lower()
    if lowered in VENDOR_PARTS:
        return True
    stem = lowered.split(".")[0]
    if stem in COMMON or len(stem) < 3:
        return False
    return words(stem) in reserved() or (not allow_heldout and words(stem) in heldout())
