"""Decides which local files are read: those in allowed roots that hold no secrets and that no rule skips.

A folder's entries are skipped by the ignore rules, by their names, or by what the file system says of them.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from refdesk.errors import Forbidden, InvalidUri, LoadFailed
from refdesk.sources.ignore import CONTROL, IGNORED, Layer, outer_layer
from refdesk.text import word_set

PRIVATE = "holds secrets"
_NAME_IT = "--allow-secret names those that may be read"

# System folders: these themselves, since projects may be below some of them; and these with everything below.
_WIDE = frozenset(
    ("/", "/home", "/Users", "/usr", "/usr/local", "/usr/src", "/var", "/var/lib", "/var/www", "/opt", "/srv", "/root")
)
_SYSTEM = re.compile(
    r"/(?:etc|proc|sys|dev|boot|run|s?bin|lib\d*|usr/(?:s?bin|lib\w*|share)|var/(?:log|run|spool)|System|Library"
    r"|private/etc)(?:/|$)"
)
_WINDOWS = re.compile(
    r"[a-z]:\\?$|[a-z]:\\(?:users|program files(?: \(x86\))?)$|[a-z]:\\(?:windows|programdata)(?:\\|$)", re.IGNORECASE
)

_SAMPLE = r"(?:examples?|samples?|templates?|tmpl|dist|defaults?|schema)"
_SECRET_NAME = re.compile(
    rf"""
      \.env (?:\. (?!(?:.+\.)?{_SAMPLE}$) .+ )? | (?!{_SAMPLE}\.env$) .+\.env | \.envrc
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)? (?:[-_]\w+)? (?:\.(?:bak|old|orig|key|pem))?
    | .+\.(?:kdbx?|ppk|p12|pfx|jks|keystore|kubeconfig|tfstate|tfstate\.backup|agilekeychain|opvault|ovpn)
    | kubeconfig | credentials (?:\.(?:json|csv|ini|toml|ya?ml|db|xml))? | application_default_credentials\.json
    | client_secrets?(?:[-_.].*)?\.json | service[-_]?account(?:[-_.].*)?\.json | secrets\.(?:json|ya?ml|toml|ini)
    | [._]netrc | \.pgpass | pgpass\.conf | \.my\.cnf | \.mylogin\.cnf | \.pypirc | \.npmrc | \.yarnrc\.yml
    | \.dockercfg | \.git-credentials | \.htpasswd | \.vault[-_]token | \.boto | \.s3cfg | \.terraformrc | \.\w+_history
    | ssh_host_\w+_key | master\.key
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_PLACE = re.compile(
    r"/(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.password-store|\.config/gcloud|Keychains)(?:/|$)|/\.docker/config\.json$"
    r"|/etc/(?:g?shadow-?|sudoers(?:\.d/.*)?|master\.passwd)$|^/proc/(?:self|thread-self|\d+)/(?:environ|mem)$",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(rb"\s*(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-\d)")


def allowed_roots(offered: Iterable[Path], named: Iterable[str]) -> list[Path]:
    """The real paths of the allowed roots: those the operator named, and the offered ones that are not too wide.

    A relative name depends on the working directory, so it counts as offered.
    """
    given = [Path(one).expanduser() for one in named]
    narrow = [one for one in (*offered, *given) if not is_too_wide(Path(os.path.realpath(one)))]
    by_name = [one for one in given if one.is_absolute()]
    return list(dict.fromkeys(Path(os.path.realpath(one)) for one in (*narrow, *by_name)))


def is_too_wide(folder: Path) -> bool:
    """Whether a real folder is a system folder or a whole home folder, which must be named explicitly."""
    here = str(folder)
    if here in _WIDE or _SYSTEM.match(here) or _WINDOWS.match(here) or str(folder.parent) in ("/home", "/Users"):
        return True
    homes = [Path.home()]  # by the environment, and by the system's user database
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return any(folder == home or folder in home.parents for home in (Path(os.path.realpath(one)) for one in homes))


def confine(path: Path, roots: Sequence[Path], allow_secrets: Sequence[str] = ()) -> Path:
    """The real path, if it is in one of the roots and holds no secrets; raises Forbidden otherwise."""
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InvalidUri(f"{path!s} is not a path: {error}.") from error
    reason = why_secret(real.as_posix(), allow_secrets)
    if not any(real == root or root in real.parents for root in roots):
        outside = f"outside the allowed roots ({', '.join(map(str, roots)) or 'none'})"
        folder = real if real.is_dir() else real.parent
        # No advice on how to allow these: a misled agent would pass it on to the operator.
        if reason:
            raise Forbidden(f"{path} is refused: by its name it {PRIVATE}, and it is {outside}.")
        if is_too_wide(folder):
            raise Forbidden(
                f"{path} is refused: it is {outside}, and {folder} is a folder of the system or a whole home folder.",
                "Copy what is needed into a folder of the project.",
            )
        raise Forbidden(
            f"{path} is {outside}.",
            f"Start the server with --allow-root {folder}, or open it as a root of your client.",
        )
    if reason:
        raise Forbidden(f"{path} {reason}.")
    if not real.exists():
        raise LoadFailed(f"{path} does not exist.", "Check the path.")
    return real


def why_secret(path: str, allowed: Sequence[str]) -> str | None:
    """Why a secret at an absolute path is not read; "" for an allowed secret, None for no secret."""
    name = path.rpartition("/")[2]
    if not (_SECRET_NAME.fullmatch(name) or _SECRET_PLACE.search(path)):
        return None
    return "" if _is_named(path, name, allowed) else f"{PRIVATE}: its name says so; {_NAME_IT}"


def why_private(path: str, data: bytes, allowed: Sequence[str]) -> str:
    """Why these bytes are not indexed, if they are a private key that the operator did not allow; else ""."""
    if _PRIVATE_KEY.match(data) is None or _is_named(path, path.rpartition("/")[2], allowed):
        return ""
    return f"{PRIVATE}: a private key; {_NAME_IT}"


def _is_named(path: str, name: str, allowed: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, one) or fnmatch.fnmatchcase(path, one) for one in allowed)


# ── names of files and folders that are generated or not text ──

HIDDEN = "hidden"
VENDORED = "vendored"
GENERATED = "generated"
MINIFIED = "minified"
LOCK = "a lock file"
NOT_TEXT = "not text by its name"
OUTPUT = "build output"


_VENDORED = word_set(
    "node_modules bower_components jspm_packages vendor vendors third_party third-party thirdparty site-packages "
    "dist-packages Pods Carthage virtualenv"
)
_GENERATED_FOLDERS = word_set("__pycache__ __snapshots__ DerivedData CMakeFiles _build htmlcov")
_GENERATED_FOLDER_ENDS = (".egg-info", ".dist-info", ".xcframework", ".framework", ".dSYM", ".egg")
_MAYBE_OUTPUT = word_set("build dist out target")

# How a project is built, checked and released is code, though hidden: "which workflow publishes the image".
_TOLD_BY_DOTS = re.compile(
    r"""
      \.github | \.gitlab | \.circleci | \.buildkite | \.forgejo | \.gitea | \.woodpecker | \.ci | \.devcontainer
    | \.(?:gitlab-ci|travis|appveyor|drone|cirrus|woodpecker|azure-pipelines|goreleaser|pre-commit-config|readthedocs
           |golangci|rubocop|mergify|codecov)\.ya?ml
    | \.eslintrc(?:\.\w+)? | \.prettierrc(?:\.\w+)? | \.stylelintrc(?:\.\w+)? | \.babelrc(?:\.\w+)?
    | \.clang-(?:format|tidy) | \.credo\.exs | \.formatter\.exs | \.swiftlint\.yml | \.tool-versions
    """,
    re.VERBOSE,
)
# Forms that people fill in share their words with every bug report that is asked about.
_FORMS = word_set("ISSUE_TEMPLATE issue_templates PULL_REQUEST_TEMPLATE merge_request_templates DISCUSSION_TEMPLATE")
_FORM = re.compile(r"(?:pull_request|issue|merge_request)_template\.\w+", re.IGNORECASE)
FORM = "a form for reports"

_LOCK_FILES = word_set(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock Cargo.lock "
    "poetry.lock uv.lock pdm.lock pixi.lock Pipfile.lock Gemfile.lock composer.lock go.sum go.work.sum mix.lock "
    "pubspec.lock Podfile.lock Package.resolved Cartfile.resolved packages.lock.json gradle.lockfile flake.lock "
    "conan.lock"
)
_NOT_TEXT = word_set(
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
    "doc xls xlsx ppt pptx odt ods odp pages numbers key mobi"
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
_BUILD_FILES = word_set(
    "package.json setup.py setup.cfg pyproject.toml CMakeLists.txt build.gradle build.gradle.kts pom.xml Cargo.toml "
    "build.sbt Makefile meson.build tsconfig.json gulpfile.js webpack.config.js Package.swift"
)
_WRITTEN_FILES = word_set(
    "__init__.py CMakeLists.txt Makefile BUILD BUILD.bazel mod.rs go.mod package.json README.md README.rst README "
    "Dockerfile setup.py pyproject.toml tsconfig.json"
)
_WRITTEN_ENDS = (
    ".py", ".go", ".rs", ".java", ".kt", ".swift", ".ts", ".tsx", ".c", ".cc", ".cpp", ".md", ".rst", ".sh",
)  # fmt: skip
_OUTPUT_FILES = word_set("CACHEDIR.TAG CMakeCache.txt build.ninja .ninja_log .rustc_info.json")


def why_not_file_name(name: str) -> str:
    """Why a file of this name is not indexed; "" if it is."""
    if name[0] == "." and not _TOLD_BY_DOTS.fullmatch(name):
        return HIDDEN
    if _FORM.fullmatch(name):
        return FORM
    if name in _LOCK_FILES:
        return LOCK
    ending = name.rpartition(".")[2].lower() if "." in name else ""
    if ending in _NOT_TEXT:
        return f"{NOT_TEXT} (.{ending})"
    if _MINIFIED.search(name):
        return MINIFIED
    return GENERATED if _GENERATED.search(name) else ""


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


_LINK = "a symbolic link"
_NEVER = {".git": "git's own", ".refdesk": "a RefDesk library"}
# Reasons that stay valid while the rules are unchanged; others are checked again on every walk.
LASTING = (IGNORED, HIDDEN, FORM, VENDORED, GENERATED, MINIFIED, LOCK, NOT_TEXT)


def why_not_folder(folder: str, name: str, layer: Layer, siblings: Iterable[str]) -> str:
    """Why a subfolder of an absolute folder is not entered; "" if it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (decided := layer.decision(folder, name, True)) is not None:
        return decided
    if name[0] == "." and not _TOLD_BY_DOTS.fullmatch(name):
        return HIDDEN
    if name in _FORMS:
        return FORM
    if name in _VENDORED:
        return VENDORED
    if name in _GENERATED_FOLDERS or name.endswith(_GENERATED_FOLDER_ENDS) or name.startswith("cmake-build-"):
        return GENERATED
    return why_not_contents(f"{folder}/{name}", name, siblings)


def why_not_file(folder: str, name: str, layer: Layer, allow_secrets: Sequence[str] = ()) -> str:
    """Why a file of an absolute folder is not read, by the rules and its name; "" if it is."""
    if reason := _NEVER.get(name, "") or _why_not_name(name):
        return reason
    if (secret := why_secret(f"{folder}/{name}", allow_secrets)) is not None:
        return secret  # an allowed secret is read whatever the rules say
    if (decided := layer.decision(folder, name, False)) is not None:
        return decided
    return why_not_file_name(name)


def why_not_stat(root: str, file: str, found: os.stat_result, max_bytes: int) -> str:
    """Why a file is not read because of its type or size on disk; "" if it is."""
    if stat.S_ISLNK(found.st_mode):
        try:
            target = os.path.realpath(file, strict=True)
        except OSError as error:
            return f"a symbolic link that leads nowhere: {error.strerror}"
        if target == root or target.startswith(root.rstrip(os.sep) + os.sep):
            return f"a symbolic link to {os.path.relpath(target, root)}, which is looked at there"
        return "a symbolic link that leaves the root"
    if not stat.S_ISREG(found.st_mode):
        return "not a regular file"
    return too_large(found.st_size, max_bytes) if found.st_size > max_bytes else ""


def too_large(size: int, limit: int) -> str:
    return f"too large: {size} bytes, more than the {limit} that max_file_bytes allows"


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
        self._found: dict[str, tuple[Layer, str]] = {}

    def of(self, folder: str) -> tuple[Layer, str]:
        """The rules in a folder given relative to the root, and why it or one around it is not entered, or ""."""
        if folder not in self._found:
            here = f"{self.root}/{folder}".rstrip("/")
            above, _, name = folder.rpartition("/")
            layer, reason = self.of(above) if folder else (outer_layer(self.root or "/")[0], "")
            if folder and not reason:
                around = str(Path(here).parent)
                reason = _LINK if Path(here).is_symlink() else why_not_folder(around, name, layer, _names_in(around))
            present = [] if reason else [name for name in CONTROL if os.path.lexists(f"{here}/{name}")]
            if present:
                layer, _ = layer.below(here, folder + "/" if folder else "", present)
            self._found[folder] = (layer, reason)
        return self._found[folder]


def _names_in(folder: str) -> Iterator[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        yield from (entry.name for entry in entries)
