"""All settings. Precedence: flags, environment, refdesk.toml, defaults; unknown keys are errors."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from refdesk.errors import SettingsError

_PREFIX = "REFDESK_"
_CONFIG = "refdesk.toml"
_FOLDER = ".refdesk"
_GIVEN = ("the environment", "the command line")
SHARED_FOLDER = "shared"  # with a folder for each shared library, which has what belongs to this machine
_NOT_ENCODED = re.compile(r"%(?!(?!00)[0-9A-Fa-f]{2})|[#\s]")
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_ENDPOINT = re.compile(r"(\[[^\[\]@]+\]|[^\[\]@:\s]*)(?::([0-9]{0,5}))?")
_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
_OPENING = re.compile("qdrant_api_key|embedder.*|skills")  # what is opened follows from these too
_ENCODE = "Percent-encode / @ # ? % in the password, or leave it to PGPASSFILE."

Durability = Literal["normal", "full"]
SkillsDatabase = Literal["embedded", "neo4j"]
EmbedderName = Literal["static", "wordllama", "remote", "onnx", "none"]
ToolsetName = Literal["docs", "rag", "skills", "pages", "code"]
Transport = Literal["stdio", "http", "sse"]
LanguageModel = Literal["gemini", "openai", "anthropic", "sampling", "local", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set, with its default; a key is the same as flag, variable and toml entry."""

    library: Path = Path(_FOLDER)  # of a shared library: the folder for what belongs to this machine
    database: str = field(default="", repr=False)  # the address of a shared library, which is given as its `library`
    qdrant_api_key: str = field(default="", repr=False)

    # embedding
    embedder: EmbedderName = "static"
    embedder_url: str = ""
    embedder_model: str = ""
    embedder_path: str = ""  # the folder or file of the onnx embedder's model
    embedder_query_prefix: str = ""  # prefix of the onnx model for queries, such as "query: "
    embedder_passage_prefix: str = ""
    embedder_key: str = field(default="", repr=False)

    # limits
    max_file_bytes: int = 8_000_000  # a larger file is skipped with a reason
    max_fetch_bytes: int = 20_000_000
    fetch_timeout_s: float = 30.0
    max_answer_tokens: int = 4_000  # of a search or a research; 0: no limit
    lock_timeout_s: float = 30.0
    durability: Durability = "normal"  # normal: a power failure may lose the last commits; full: every commit is synced
    max_memory: int = 0  # bytes of this process; 0: a quarter of the machine's memory, at most 2 GB
    workers: int = 0  # parsing processes; 0: one per core
    refresh_ms: int = 300  # time that a search may spend on indexing changed files

    # access
    allow_roots: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    allow_secrets: tuple[str, ...] = ()  # globs on names or paths of files with secrets that may be read

    # serving
    toolsets: tuple[ToolsetName, ...] = get_args(ToolsetName)
    transport: Transport = "stdio"
    host: str = "127.0.0.1"
    port: int = 8750
    processes: int = 1  # worker processes for HTTP
    max_sessions: int = 500  # over HTTP; a new one then ends the longest idle one
    auth_token: str = field(default="", repr=False)
    oauth_issuer: str = ""
    oauth_audience: str = ""
    oauth_scopes: tuple[str, ...] = ()
    http_hosts: tuple[str, ...] = ()  # further host names accepted over HTTP
    http_origins: tuple[str, ...] = ()  # origins of web pages that may call the server
    public_url: str = ""  # the URL that clients see, behind a proxy
    log_level: str = "info"
    console: bool = True  # pages for people at / over HTTP
    journal: int = 2_000  # calls of tools that are kept for the console; 0: none

    # playbooks; skills.database in refdesk.toml
    skills: SkillsDatabase = "embedded"
    neo4j_uri: str = "bolt://localhost:7687"
    neo4j_user: str = "neo4j"
    neo4j_password: str = field(default="", repr=False)
    neo4j_database: str = ""  # "": the server's default

    # language models; their keys are the vendors' own variables
    llm: LanguageModel = "auto"
    llm_small_model: str = ""
    llm_large_model: str = ""
    llm_timeout_s: float = 60.0
    gemini_api_key: str = field(default="", repr=False)
    gemini_base_url: str = ""
    openai_api_key: str = field(default="", repr=False)
    openai_base_url: str = ""
    anthropic_api_key: str = field(default="", repr=False)
    anthropic_base_url: str = ""

    origins: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)  # where each value came from


# Read from the vendors' own variables only: keys in files and flags leak.
_VENDOR_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "gemini_api_key": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "gemini_base_url": ("GEMINI_BASE_URL",),
    "openai_api_key": ("OPENAI_API_KEY",),
    "openai_base_url": ("OPENAI_BASE_URL",),
    "anthropic_api_key": ("ANTHROPIC_API_KEY",),
    "anthropic_base_url": ("ANTHROPIC_BASE_URL",),
    "neo4j_uri": ("NEO4J_URI",),
    "neo4j_user": ("NEO4J_USER", "NEO4J_USERNAME"),
    "neo4j_password": ("NEO4J_PASSWORD",),
    "neo4j_database": ("NEO4J_DATABASE",),
}


# Not allowed in a refdesk.toml that is found in a folder: it may have come with somebody else's repository.
_FOR_OPERATORS = frozenset({
    "allow_roots", "allow_hosts", "allow_secrets", "embedder", "embedder_url", "embedder_model",
    "embedder_path", "embedder_key", "transport", "host", "port", "processes", "auth_token", "oauth_issuer",
    "oauth_audience", "oauth_scopes", "http_hosts", "http_origins", "public_url", "llm", "llm_small_model",
    "llm_large_model", "qdrant_api_key",
})  # fmt: skip


def load(
    flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Settings:
    """Loads the settings, each from the first of flags, environment, refdesk.toml and defaults that has it."""
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    given = {key: value for key, value in (flags or {}).items() if value not in (None, ())}
    file, in_file = _from_file(environ, cwd)
    layers = ((str(file), in_file), (_GIVEN[0], _from_environ(environ)), (_GIVEN[1], given))
    values = {key: value for _, layer in layers for key, value in layer.items()}
    origins = {key: name for name, layer in layers for key in layer}
    if shared := str(values.get("library", "")) if "://" in str(values.get("library", "")) else "":
        values |= {"database": shared, "library": _folder_of(shared, is_flag="library" in given)}
    hints = get_type_hints(Settings)
    coerced = {key: _coerce(key, value, hints[key]) for key, value in values.items()}
    library = coerced.get("library") or _default_library(cwd)
    coerced["library"] = (cwd / library).absolute()
    return Settings(**coerced, origins=origins)


def _folder_of(shared: str, *, is_flag: bool) -> Path:
    """The folder for what belongs to this machine of a shared library; raises if its address can't be used."""
    import hashlib

    import platformdirs

    parts = address_parts(shared)
    if is_flag and _without_secrets(shared) != shared:
        raise SettingsError(
            "The library's address has a password, which everybody on this machine can see in the list of processes.",
            "Set REFDESK_LIBRARY to the address instead, or leave the password to PGPASSFILE or a service file.",
        )
    hosts = ",".join(f"{host.strip('[]').lower() or None}:{port or None}" for host, port in parts.hosts)
    named = f"{hosts}{parts.database}?{parts.open_query}"
    folder = Path(platformdirs.user_data_dir("refdesk", appauthor=False)) / SHARED_FOLDER
    return folder / hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressParts:
    """The parts of a shared library's address, as they are written."""

    user_info: str = field(repr=False)  # user:password
    hosts: tuple[tuple[str, str], ...]  # each with its port
    server: str = field(repr=False)  # all before the database: both of these
    database: str  # with the slash before it
    query: str = field(repr=False)
    given: Mapping[str, str] = field(repr=False)  # its parameters, decoded

    @property
    def open_query(self) -> str:
        """The query without its secrets."""
        return "&".join(one for one in self.query.split("&") if one.partition("=")[0] not in _SECRETS)


def address_parts(shared: str) -> AddressParts:
    """Takes an address apart as libpq does; raises SettingsError, which shows nothing that may be of a password."""
    from urllib.parse import unquote

    scheme, _, rest = shared.partition("://")
    if scheme.lower() not in ("postgres", "postgresql"):
        at = f"{scheme}://" if scheme.isalnum() else "that address"
        raise SettingsError(f"A library can't be at {at}.", "Name a folder or a postgres:// address.")
    before, _, query = rest.partition("?")
    server, slash, database = before.partition("/")
    user_info, at, listed = server.rpartition("@")
    pairs = [each.partition("=") for each in query.split("&") if each]
    # What of a password comes after one of these would be taken for a host, a port, a database or a parameter, and
    # messages name those.
    is_misread = "@" in user_info or "@" in database or (not at and not slash and "@" in query)
    is_misread = is_misread or "#" in query or "%00" in query
    if is_misread or _NOT_ENCODED.search(before) or not all(_PARAMETER.fullmatch(name) for name, _, _ in pairs):
        raise SettingsError("The library's address can't be read: some of it is not encoded.", _ENCODE)
    given = {name: unquote(value) for name, _, value in pairs}
    hosts = endpoints(listed)
    endpoints(",".join(f":{port}" for port in given.get("port", "").split(",")))
    return AddressParts(
        user_info=user_info, hosts=hosts, server=server, database=slash + database, query=query, given=given
    )


def endpoints(listed: str) -> tuple[tuple[str, str], ...]:
    """The hosts and ports of HOST:PORT,…, each of which may be empty; raises SettingsError, which shows none."""
    found = [_ENDPOINT.fullmatch(one) for one in listed.split(",")]
    if not all(one is not None and 0 < int(one[2] or 1) < 1 << 16 for one in found):
        raise SettingsError(
            "The library's address has a host or a port that can't be one.",
            f"Ports are 1 to 65535; put IPv6 in brackets. {_ENCODE}",
        )
    return tuple((one[1], one[2] or "") for one in found if one is not None)


def _without_secrets(shared: str) -> str:
    parts = address_parts(shared)
    _, has_password, password = parts.user_info.partition(":")
    server = parts.server.replace(f":{password}@", "@", 1) if has_password else parts.server
    return f"{shared.partition('://')[0]}://{server}{parts.database}" + f"?{parts.open_query}" * ("?" in shared)


def library_argument(settings: Settings) -> str:
    """What `--library` takes to open the same library: its folder, or its address without passwords."""
    return _without_secrets(settings.database) if settings.database else str(settings.library)


def is_found(settings: Settings, environ: Mapping[str, str] | None = None) -> bool:
    """Whether the library was found by the current folder, so that another folder may have another one."""
    environ = os.environ if environ is None else environ
    origin = settings.origins.get("library")
    return origin is None or (origin not in _GIVEN and not environ.get(_PREFIX + "CONFIG"))


def opening_variables(settings: Settings, environ: Mapping[str, str] | None = None) -> list[str]:
    """The variables besides the library's own without which another process opens something else, or nothing."""
    environ = os.environ if environ is None else environ
    given = {key for key, origin in settings.origins.items() if origin == _GIVEN[0]}
    names = {_PREFIX + key.upper() for key in given if _OPENING.fullmatch(key)} | {_PREFIX + "CONFIG"}
    if "library" not in settings.origins:
        names.add("XDG_DATA_HOME")  # where the default one is
    if settings.skills == "neo4j":
        names.update(*(these for key, these in _VENDOR_VARIABLES.items() if key.startswith("neo4j")))
    if settings.database:
        names |= {name for name in environ if name.startswith("PG") and name != "PGDATA"}  # libpq's
    found = {name for name in names if environ.get(name)}
    if settings.database and library_argument(settings) != settings.database and "PGPASSFILE" not in found:
        found.add("PGPASSWORD")  # in place of the address's
    return sorted(found)


def set_for_native(variable: str, value: str) -> None:
    """Sets an environment variable for a native library, unless the user has set it."""
    os.environ.setdefault(variable, value)


def _default_library(cwd: Path) -> Path:
    for folder in (cwd, *cwd.parents):
        if (folder / _FOLDER).is_dir():
            return folder / _FOLDER
    import platformdirs

    return Path(platformdirs.user_data_dir("refdesk", appauthor=False))


def _from_file(environ: Mapping[str, str], cwd: Path) -> tuple[Path | None, dict[str, Any]]:
    """The file that REFDESK_CONFIG names, else the first refdesk.toml in this folder or a parent, and its values."""
    if named := environ.get(_PREFIX + "CONFIG"):
        if not Path(named).is_file():
            raise SettingsError(f"REFDESK_CONFIG names {named}, which is not a file.", "Correct or unset it.")
        return Path(named), _from_toml(Path(named))
    file = next((f for folder in (cwd, *cwd.parents) if (f := folder / _CONFIG).is_file()), None)
    values = _from_toml(file) if file else {}
    named = values.get("library", "")
    is_within = isinstance(named, Path) and file and named.resolve().is_relative_to(file.parent.resolve())
    outside = bool(named) and not is_within
    if refused := sorted(_FOR_OPERATORS & values.keys()) + ["library"] * bool(outside):
        raise SettingsError(
            f"{file} sets {', '.join(refused)}, which a file found in a folder may not: it could be anybody's.",
            f"Set REFDESK_CONFIG={file} if it is yours, or use flags or REFDESK_… variables.",
        )
    return file, values


def _from_toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file} can't be read: {error}.", "Correct it or move it away.") from error
    if isinstance(table := values.get("skills"), dict):
        _refuse_unknown({f"skills.{key}": value for key, value in table.items() if key != "database"}, str(file))
        values["skills"] = table.get("database", "embedded")
    _refuse_unknown(values, str(file))
    if "library" in values and "://" not in str(values["library"]):
        values["library"] = file.parent / str(values["library"])
    return values


def _from_environ(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {
        key.removeprefix(_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(_PREFIX) and key != _PREFIX + "CONFIG" and value != ""
    }
    _refuse_unknown(values, "the environment (REFDESK_…)")
    vendors = {key: next(filter(None, map(environ.get, names)), "") for key, names in _VENDOR_VARIABLES.items()}
    return values | {key: value for key, value in vendors.items() if value}


def _refuse_unknown(values: Mapping[str, Any], where: str) -> None:
    known = {each.name for each in fields(Settings)} - _VENDOR_VARIABLES.keys() - {"origins", "database"}
    if unknown := sorted(set(values) - known):
        raise SettingsError(f"Unknown setting in {where}: {', '.join(unknown)}.", f"Known: {', '.join(sorted(known))}.")


_SAID = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


def _coerce(key: str, value: Any, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise SettingsError(f"Setting {key} can't be {value!r}.", f"Take one of {', '.join(get_args(kind))}.")
        return value
    try:
        if get_origin(kind) is tuple:
            items = value.split(",") if isinstance(value, str) else value
            stripped = (str(item).strip() for item in items)
            return tuple(_coerce(key, item, get_args(kind)[0]) for item in stripped if item)
        if kind is Path:
            return Path(value).expanduser()
        if kind is bool and not isinstance(value, bool):
            return _SAID[str(value).strip().lower()]
        if kind in (int, float) and isinstance(value, bool):
            raise ValueError(f"{value} is not a number")
        found = kind(value)
        if kind in (int, float) and not 0 <= found < math.inf:
            raise ValueError("it must be 0 or more")
        return found
    except (KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"Setting {key} is {value!r}: {error}.", f"It takes {getattr(kind, '__name__', kind)}."
        ) from error
