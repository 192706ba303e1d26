"""Why an entry of a folder is skipped: by the ignore rules, by its name, or by what the file system says."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from refdesk.sources.allowed import why_secret
from refdesk.sources.ignore import CONTROL, Layer, outer_layer

# ── names of files and folders that are generated or not text ──

HIDDEN = "hidden"
VENDORED = "vendored"
GENERATED = "generated"
MINIFIED = "minified"
LOCK = "a lock file"
NOT_TEXT = "not text by its name"
OUTPUT = "build output"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VENDORED = _words(
    "node_modules bower_components jspm_packages vendor vendors third_party third-party thirdparty site-packages "
    "dist-packages Pods Carthage virtualenv"
)
_GENERATED_FOLDERS = _words("__pycache__ __snapshots__ DerivedData CMakeFiles _build htmlcov")
_GENERATED_FOLDER_ENDS = (".egg-info", ".dist-info", ".xcframework", ".framework", ".dSYM", ".egg")
_MAYBE_OUTPUT = _words("build dist out target")

_LOCK_FILES = _words(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock Cargo.lock "
    "poetry.lock uv.lock pdm.lock pixi.lock Pipfile.lock Gemfile.lock composer.lock go.sum go.work.sum mix.lock "
    "pubspec.lock Podfile.lock Package.resolved Cartfile.resolved packages.lock.json gradle.lockfile flake.lock "
    "conan.lock"
)
_NOT_TEXT = _words(
    # images, audio, video, fonts
    "png jpg jpeg gif bmp ico icns webp tif tiff svg psd ai eps heic avif xcf mp3 wav ogg flac m4a aac mid mp4 mov avi "
    "mkv webm wmv ttf otf woff woff2 eot "
    # archives and packages
    "zip gz tgz bz2 tbz xz txz zst lz4 7z rar tar jar war ear aar whl egg deb rpm dmg iso pkg apk ipa cab msi gem "
    # machine code and compiler output
    "so dylib dll exe o a lib obj pyc pyo pyd class wasm bc elc beam swiftmodule pdb ilk pch gch node rlib rmeta "
    # binary data
    "bin dat db sqlite sqlite3 mdb parquet arrow feather orc avro npy npz pkl pickle joblib h5 hdf5 pt pth onnx "
    "safetensors gguf tflite pb mo ds_store keystore jks p12 pfx p7b p8 pem csr der crt "
    # office formats without a parser
    "doc xls xlsx ppt pptx odt ods odp pages numbers key epub mobi"
)
_MINIFIED = re.compile(r"[.-]min\.(?:js|mjs|cjs|css)$", re.IGNORECASE)
_GENERATED = re.compile(
    r"""
      \.(?:js|css|ts|mjs|cjs)\.map$ | \.bundle\.(?:js|css)$ | \.chunk\.(?:js|css)$
    | _pb2(?:_grpc)?\.pyi?$ | \.pb\.(?:go|h|cc|swift)$ | _pb\.(?:js|d\.ts)$ | \.grpc\.swift$ | \.pbobjc\.[hm]$
    | \.(?:g|freezed|mocks)\.dart$ | \.(?:designer|g|g\.i)\.cs$ | \.generated\.[a-z]+$
    | (?:^|[._-])generated\.(?:go|swift)$
    | ^zz_generated | \.snap$ | \.pbxproj$ | \.(?:xcworkspacedata|storyboard|xib)$ | \.tsbuildinfo$
    """,
    re.VERBOSE | re.IGNORECASE,
)

# Files beside a folder of build output, and files in a folder that a person made.
_BUILD_FILES = _words(
    "package.json setup.py setup.cfg pyproject.toml CMakeLists.txt build.gradle build.gradle.kts pom.xml Cargo.toml "
    "build.sbt Makefile meson.build tsconfig.json gulpfile.js webpack.config.js Package.swift"
)
_WRITTEN_FILES = _words(
    "__init__.py CMakeLists.txt Makefile BUILD BUILD.bazel mod.rs go.mod package.json README.md README.rst README "
    "Dockerfile setup.py pyproject.toml tsconfig.json"
)
_WRITTEN_ENDS = (
    ".py",
    ".go",
    ".rs",
    ".java",
    ".kt",
    ".swift",
    ".ts",
    ".tsx",
    ".c",
    ".cc",
    ".cpp",
    ".md",
    ".rst",
    ".sh",
)
_OUTPUT_FILES = _words("CACHEDIR.TAG CMakeCache.txt build.ninja .ninja_log .rustc_info.json")


def why_not_file_name(name: str) -> str:
    """Why a file of this name is not indexed; "" if it is."""
    if name[0] == ".":
        return HIDDEN
    if name in _LOCK_FILES:
        return LOCK
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending in _NOT_TEXT:
        return f"{NOT_TEXT} (.{ending})"
    if _MINIFIED.search(name):
        return MINIFIED
    return GENERATED if _GENERATED.search(name) else ""


def why_not_folder_name(name: str) -> str:
    """Why a folder of this name is not entered; "" if it is."""
    if name[0] == ".":
        return HIDDEN
    if name in _VENDORED:
        return VENDORED
    if name in _GENERATED_FOLDERS or name.endswith(_GENERATED_FOLDER_ENDS) or name.startswith("cmake-build-"):
        return GENERATED
    return ""


def why_not_contents(folder: str, name: str, siblings: Iterable[str]) -> str:
    """Why a folder is not entered because of its contents: a virtual environment or build output."""
    if name not in _MAYBE_OUTPUT and "env" not in name:
        return ""
    try:
        inside = frozenset(entry.name for entry in Path(folder).iterdir())
    except OSError:
        return ""
    if "pyvenv.cfg" in inside:
        return f"{VENDORED}: a virtual environment"
    if name not in _MAYBE_OUTPUT:
        return ""
    if inside & _OUTPUT_FILES:
        return OUTPUT
    written = inside & _WRITTEN_FILES or any(
        entry.endswith(_WRITTEN_ENDS) and not entry.endswith(".d.ts") for entry in inside
    )
    return OUTPUT if not written and not _BUILD_FILES.isdisjoint(siblings) else ""


IGNORED = "ignored by "
_NEVER = {".git": "git's own", ".refdesk": "a RefDesk library"}
# Reasons that stay valid while the rules are unchanged; others are checked again on every walk.
LASTING = (IGNORED, HIDDEN, VENDORED, GENERATED, MINIFIED, LOCK, NOT_TEXT)


def why_not_folder(folder: str, name: str, layer: Layer, siblings: Iterable[str]) -> str:
    """Why a subfolder of an absolute folder is not entered; "" if it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (own := layer.own_verdict(folder, name, True)) is not None:
        return IGNORED + own.rule if own.ignored else ""
    if (git := layer.git_verdict(folder, name, True)) is not None and git.ignored:
        return IGNORED + git.rule
    return why_not_folder_name(name) or why_not_contents(f"{folder}/{name}", name, siblings)


def why_not_file(folder: str, name: str, layer: Layer, allow_secrets: Sequence[str] = ()) -> str:
    """Why a file of an absolute folder is not read, by the rules and its name; "" if it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (secret := why_secret(f"{folder}/{name}", allow_secrets)) is not None:
        return secret  # an allowed secret is read whatever the rules say
    if (own := layer.own_verdict(folder, name, False)) is not None:
        return IGNORED + own.rule if own.ignored else ""
    if (git := layer.git_verdict(folder, name, False)) is not None and git.ignored:
        return IGNORED + git.rule
    return why_not_file_name(name)


def why_not_stat(root: str, file: str, found: os.stat_result, max_bytes: int) -> str:
    """Why a file is not read because of its type or size on disk; "" if it is."""
    if stat.S_ISLNK(found.st_mode):
        return _why_not_link(root, file)
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    return too_large(found.st_size, max_bytes) if found.st_size > max_bytes else ""


def too_large(size: int, limit: int) -> str:
    """The reason for a file over the size limit."""
    return f"too large: {size} bytes, more than the {limit} that max_file_bytes allows"


def _why_not_link(root: str, link: str) -> str:
    """Why a link is skipped: its target is inside the root and indexed there, or outside."""
    try:
        target = os.path.realpath(link, strict=True)
    except OSError as error:
        return f"a symbolic link that leads nowhere: {error.strerror}"
    if target == root or target.startswith(root.rstrip(os.sep) + os.sep):
        return f"a symbolic link to {os.path.relpath(target, root)}, which is looked at there"
    return "a symbolic link that leaves the root"


def _why_not_name(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""


class Layers:
    """The current rules of each folder below a root, read on demand."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.outer, self.outside = outer_layer(self.root or "/")
        self._found: dict[str, Layer | None] = {}

    def of(self, folder: str) -> Layer | None:
        """The layer of a folder given relative to the root; None if the rules exclude it."""
        if folder not in self._found:
            self._found[folder] = self._read(folder)
        return self._found[folder]

    def _read(self, folder: str) -> Layer | None:
        here, layer = f"{self.root}/{folder}" if folder else self.root, self.outer
        if folder:
            above, _, name = folder.rpartition("/")
            outer = self.of(above)
            if outer is None or Path(here).is_symlink() or why_not_folder(str(Path(here).parent), name, outer, ()):
                return None
            layer = outer
        present = [name for name in CONTROL if os.path.lexists(f"{here}/{name}")]
        return layer.below(here, folder + "/" if folder else "", present)[0] if present else layer
