"""`install`: adds RefDesk to the settings of an MCP client without changing anything else."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import click

from refdesk.commands.desk import settings_from
from refdesk.errors import InvalidInput, ParseFailed
from refdesk.settings import is_found, library_argument, opening_variables
from refdesk.system.files import replace_file

NAME = "refdesk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The home and project folders, and the platform whose conventions they follow."""

    home: Path = field(default_factory=Path.home)
    project: Path = field(default_factory=Path.cwd)
    platform: str = sys.platform

    def path(self, template: str) -> Path:
        """The file that a template names by {home}, {project} and {app}, where desktop programs keep settings."""
        apps = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}
        app = self.home / apps.get(self.platform, ".config")
        return Path(template.format(home=self.home, project=self.project, app=app))


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What a client runs to start the server."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client: its settings files, its key for servers, and what to do after a change."""

    title: str
    user_file: str
    project_file: str  # "" where it has no projects
    then: str
    key: str = "mcpServers"
    typed: bool = False
    folder: str = ""  # how its settings name the project's folder; "" where it starts servers there
    format: Literal["json", "toml"] = "json"


_THERE = "It is there in the next session; /mcp shows it."
_FOLDER = "${workspaceFolder}"
CLIENTS: dict[str, Client] = {
    "claude-code": Client("Claude Code", "{home}/.claude.json", "{project}/.mcp.json", _THERE, typed=True),
    "claude-desktop": Client(
        "Claude Desktop", "{app}/Claude/claude_desktop_config.json", "", "Restart it to load the server."
    ),
    "cursor": Client(
        "Cursor", "{home}/.cursor/mcp.json", "{project}/.cursor/mcp.json", "Turn it on under Settings, MCP.",
        folder=_FOLDER,
    ),
    "vscode": Client(
        "VS Code", "{app}/Code/User/mcp.json", "{project}/.vscode/mcp.json",
        "Start it with the command “MCP: List Servers”.", key="servers", typed=True, folder=_FOLDER,
    ),
    "codex": Client(
        "Codex", "{home}/.codex/config.toml", "{project}/.codex/config.toml", "It is there in the next session.",
        key="mcp_servers", format="toml",
    ),
    "gemini": Client("Gemini CLI", "{home}/.gemini/settings.json", "{project}/.gemini/settings.json", _THERE),
}  # fmt: skip


@click.command()
@click.argument("client", required=False)
@click.option("--project", is_flag=True, help="Write this folder's settings file, which others share.")
@click.option("--allow-root", "roots", multiple=True, type=click.Path(), help="A folder that the server may read.")
@click.option("--print", "only_print", is_flag=True, help="Show the settings file as it would be; write nothing.")
@click.option("--list", "listing", is_flag=True, help="Show which clients are here and which know RefDesk.")
@click.pass_context
def install(
    context: click.Context, client: str | None, project: bool, roots: tuple[str, ...], only_print: bool, listing: bool
) -> None:
    """Add the server to the settings of CLIENT, keeping everything else."""
    settings = settings_from(context)
    library = "" if is_found(settings) else library_argument(settings)
    is_named = bool((context.find_root().obj or {}).get("library"))
    if listing or client is None:
        click.echo(list_clients(Places(), library if is_named else ""))
        return
    is_for_all = bool(settings.database) or is_named
    command = own_command(client, library if is_for_all or not project else "", roots, project=project)
    act = render if only_print else add_to_settings
    click.echo(act(client, command, Places(), project=project))
    if variables := opening_variables(settings):
        click.echo(
            f"The server needs {', '.join(variables)} too, which may be secret, so no value is written: set them for"
            f" {_client(client).title}.", err=True,
        )  # fmt: skip
    if library and library not in command.args:
        click.echo(f"Others use a project's file, so it does not name the library {library}.", err=True)


def own_command(name: str, library: str = "", roots: Sequence[str] = (), *, project: bool = False) -> ServerCommand:
    """The command that starts this RefDesk, with the folders it may read besides those that the client offers.

    A project's file is shared, so it names no path of this machine unless one is given.
    """
    where = ("--library", library) if library else ()
    if project:
        roots = roots or [one for one in [_client(name).folder] if one]
        return ServerCommand("refdesk", (*where, "serve", *(f"--allow-root={root}" for root in roots)))
    serve = ("serve", *(f"--allow-root={Path(root).resolve()}" for root in roots))
    # Desktop programs do not have the shell's PATH, so the full path is written.
    script = shutil.which("refdesk", path=str(Path(sys.executable).parent)) or shutil.which("refdesk")
    if script is not None:
        return ServerCommand(script, (*where, *serve))
    return ServerCommand(sys.executable, ("-m", "refdesk", *where, *serve))


def add_to_settings(name: str, command: ServerCommand, places: Places, *, project: bool = False) -> str:
    """Adds RefDesk to the client's settings; returns a message for the user."""
    client, file = _client(name), _file(name, places, project)
    text = render(name, command, places, project=project)
    target = file.resolve()  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text, mode=target.stat().st_mode & 0o777 if target.exists() else 0o644)
    said = f"{client.title} now has RefDesk: {_short(file, places)}\n{client.then}"
    if not client.project_file and not any(one.startswith("--allow-root") for one in command.args):
        said += f"\nIt has no projects: name what RefDesk may read with `refdesk install {name} --allow-root FOLDER`."
    return said


def render(name: str, command: ServerCommand, places: Places, *, project: bool = False) -> str:
    """The text of the client's settings file with RefDesk added and everything else unchanged."""
    client, file = _client(name), _file(name, places, project)
    old = _read(file)
    try:
        new = _with_entry(old, client, command)
        if _others(new, client) != _others(old, client):
            raise ValueError("its layout is one that can't be edited safely")
    except ValueError as error:
        raise ParseFailed(
            f"Could not read {_short(file, places)}: {error}.",
            f"Nothing was changed. Correct it, or add by hand:\n{_with_entry('', client, command)}",
        ) from error
    return new


def list_clients(places: Places, library: str = "") -> str:
    """A line for each client: whether it is on this machine and has RefDesk."""
    return "\n".join(f"{name:15} {_status(name, library, places)}" for name in CLIENTS)


def clients_here(library: str) -> list[dict[str, str]]:
    """Each client with its state, its settings file and what would be added there, for the console."""
    places = Places()
    return [
        {
            "name": name,
            "title": client.title,
            "state": _status(name, library, places),
            "file": _short(places.path(client.user_file), places),
            "command": _installing(name, library),
            "entry": _with_entry("", client, own_command(name, library)),
            "then": client.then,
        }
        for name, client in CLIENTS.items()
    ]


def _installing(name: str, library: str) -> str:
    return shlex.join(["refdesk", *(["--library", library] if library else []), "install", name])


def _status(name: str, library: str, places: Places) -> str:
    client = CLIENTS[name]
    files = [places.path(template) for template in (client.user_file, client.project_file) if template]
    having = []
    for file in files:
        with contextlib.suppress(ValueError, OSError, AttributeError):  # unreadable, or no object
            text = _read(file)
            servers = (tomllib.loads(text) if client.format == "toml" else parse(text)).get(client.key)
            having += [_short(file, places)] if isinstance(servers, dict) and NAME in servers else []
    if having:
        return f"installed in {', '.join(having)}"
    if files[0].exists():
        return f"found ({_short(files[0], places)}); install with: {_installing(name, library)}"
    if files[0].parent.exists() and files[0].parent != places.home:
        return f"found; install with: {_installing(name, library)}"
    return "not found"


def _client(name: str) -> Client:
    if name not in CLIENTS:
        raise InvalidInput(f"Unknown client: {name}.", f"Known ones: {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def _file(name: str, places: Places, project: bool) -> Path:
    client = _client(name)
    if project and not client.project_file:
        raise InvalidInput(f"{client.title} has no settings for a project.", "Install it without --project.")
    return places.path(client.project_file if project else client.user_file)


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _with_entry(text: str, client: Client, command: ServerCommand) -> str:
    """The text of a settings file with our own entry."""
    if client.format == "toml":
        newline = "\r\n" if "\r\n" in text else "\n"
        # A JSON string is a TOML string, and so is a list of them.
        values = {"command": command.command, "args": list(command.args)}
        body = [f"{key} = {json.dumps(value, ensure_ascii=False)}{newline}" for key, value in values.items()]
        header = f"[{client.key}.{NAME}]"
        lines = text.splitlines(keepends=True)
        starts = [n for n, line in enumerate(lines) if line.split("#")[0].strip() == header]
        if not starts:
            gap = "" if not text or text.endswith("\n\n") else (newline if text.endswith("\n") else newline * 2)
            return "".join([text, gap, header, newline, *body])
        first = starts[0] + 1
        last = next((n for n in range(first, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
        kept = [line for line in lines[first:last] if line.split("=")[0].strip() not in values]
        return "".join([*lines[:first], *body, *kept, *lines[last:]])
    entry: dict[str, Any] = {"type": "stdio"} if client.typed else {}
    entry |= {"command": command.command, "args": list(command.args)}
    _others(text, client)  # raises if the settings have an unexpected shape
    known = parse(text).get(client.key, {}).get(NAME)
    if isinstance(known, dict):  # keeps what else a person set there (env, timeouts)
        entry = known | entry
    return set_member(text, (client.key, NAME), entry)


def _others(text: str, client: Client) -> Any:
    """The settings without our own entry."""
    settings = tomllib.loads(text) if client.format == "toml" else parse(text)
    if not isinstance(settings, dict):
        raise ValueError("it holds no object")
    if not isinstance(settings.get(client.key, {}), dict):
        raise ValueError(f"{client.key} is no object")
    servers = {name: value for name, value in settings.get(client.key, {}).items() if name != NAME}
    return {**settings, client.key: servers}


def _short(file: Path, places: Places) -> str:
    try:
        return str(Path("~") / file.relative_to(places.home))
    except ValueError:
        return str(file)


# ── JSON with comments: one value is set, and comments and spacing stay as they are ──

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|\ufeff', re.S)  # strings, so that they are passed over
_LAST_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_DECODER = json.JSONDecoder()


def parse(text: str) -> Any:
    """The value in JSON that may have comments and trailing commas; an empty text is an empty object."""
    plain = _blanked(_LAST_COMMA, _blanked(_COMMENT, text))
    return json.loads(plain) if plain.strip() else {}


def set_member(text: str, path: tuple[str, ...], value: Any) -> str:
    """The text with the object member at `path` set to `value` and everything else unchanged."""
    newline = "\r\n" if "\r\n" in text else "\n"
    without_comments = _blanked(_COMMENT, text)
    plain = _blanked(_LAST_COMMA, without_comments)
    if not plain.strip():
        return json.dumps(_nested(path, value), indent=2, ensure_ascii=False).replace("\n", newline) + newline
    json.loads(plain)  # raises if it is not JSON: from here on it is
    indented = re.search(r"^([ \t]+)\"", text, re.M)
    step = indented[1] if indented else "  "
    start, depth = _skip(plain, 0), 0
    members, end = _members(plain, start)
    while depth < len(path) - 1 and path[depth] in members:
        start = members[path[depth]][0]
        members, end = _members(plain, start)
        depth += 1
    outer, inner = newline + step * depth, newline + step * (depth + 1)
    written = json.dumps(_nested(path[depth + 1 :], value), indent=step, ensure_ascii=False).replace("\n", inner)
    if path[depth] in members:
        start, end = members[path[depth]]
        return text[:start] + written + text[end:]
    head, tail = text[: start + 1], text[start + 1 : end]
    if members:  # a comma may follow the last one already, with comments before or after it
        last = max(after for _, after in members.values())
        comma = _skip(without_comments, last)
        has_comma = without_comments[comma] == ","
        head, tail = (text[: comma + 1], text[comma + 1 : end]) if has_comma else (f"{text[:last]},", text[last:end])
    return f"{head}{tail.rstrip()}{inner}{json.dumps(path[depth], ensure_ascii=False)}: {written}{outer}{text[end:]}"


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """The text with what the pattern finds, but for strings, replaced by as many spaces."""
    return pattern.sub(lambda found: found[0] if found[0][0] == '"' else re.sub(r"[^\r\n]", " ", found[0]), text)


def _members(plain: str, start: int) -> tuple[dict[str, tuple[int, int]], int]:
    """Where the value of each member of an object begins and ends, and where the object's closing brace is."""
    if plain[start] != "{":
        raise ValueError(f"line {plain.count(chr(10), 0, start) + 1} has no object")
    members: dict[str, tuple[int, int]] = {}
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, colon = _DECODER.raw_decode(plain, at)
        begin = _skip(plain, _skip(plain, colon) + 1)
        _, end = _DECODER.raw_decode(plain, begin)
        members[key] = (begin, end)
        at = _skip(plain, end)
        at = _skip(plain, at + 1) if plain[at] == "," else at
    return members, at


def _skip(text: str, at: int) -> int:
    """Where the next character after white space is."""
    return len(text) - len(text[at:].lstrip())


def _nested(path: tuple[str, ...], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value
