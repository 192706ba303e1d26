"""The settings files of MCP clients, and how RefDesk is added to them without changing anything else."""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from refdesk.errors import InvalidInput, ParseFailed
from refdesk.install.jsonc import NotJson, parse, set_member
from refdesk.system.files import replace_file

NAME = "refdesk"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The home and project folders, and the platform whose conventions they follow."""

    home: Path = field(default_factory=Path.home)
    project: Path = field(default_factory=Path.cwd)
    platform: str = sys.platform

    @property
    def app_settings(self) -> Path:
        """Where desktop programs keep a user's settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.home / "AppData" / "Roaming"
        return self.home / ".config"


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What a client runs to start the server."""

    command: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One MCP client: its settings files, its key for servers, and what to do after a change."""

    title: str
    user_file: Callable[[Places], Path]
    project_file: Callable[[Places], Path] | None
    key: str = "mcpServers"
    typed: bool = False
    folder: str = ""  # how its settings name the project's folder; "" where it starts servers there
    format: Literal["json", "toml"] = "json"
    then: str = "Restart it to load the server."


CLIENTS: dict[str, Client] = {
    "claude-code": Client(
        title="Claude Code",
        user_file=lambda at: at.home / ".claude.json",
        project_file=lambda at: at.project / ".mcp.json",
        typed=True,
        then="It is there in the next session; /mcp shows it.",
    ),
    "claude-desktop": Client(
        title="Claude Desktop",
        user_file=lambda at: at.app_settings / "Claude" / "claude_desktop_config.json",
        project_file=None,
    ),
    "cursor": Client(
        title="Cursor",
        user_file=lambda at: at.home / ".cursor" / "mcp.json",
        project_file=lambda at: at.project / ".cursor" / "mcp.json",
        folder="${workspaceFolder}",
        then="Turn it on under Settings, MCP.",
    ),
    "vscode": Client(
        title="VS Code",
        user_file=lambda at: at.app_settings / "Code" / "User" / "mcp.json",
        project_file=lambda at: at.project / ".vscode" / "mcp.json",
        key="servers",
        typed=True,
        folder="${workspaceFolder}",
        then="Start it with the command “MCP: List Servers”.",
    ),
    "codex": Client(
        title="Codex",
        user_file=lambda at: at.home / ".codex" / "config.toml",
        project_file=lambda at: at.project / ".codex" / "config.toml",
        key="mcp_servers",
        format="toml",
        then="It is there in the next session.",
    ),
    "gemini": Client(
        title="Gemini CLI",
        user_file=lambda at: at.home / ".gemini" / "settings.json",
        project_file=lambda at: at.project / ".gemini" / "settings.json",
        then="It is there in the next session; /mcp shows it.",
    ),
}


def own_command(
    name: str, library: Path | None = None, roots: Sequence[str] = (), *, project: bool = False
) -> ServerCommand:
    """The command that starts this RefDesk, with the folders it may read besides those that the client offers.

    A project's file is shared, so it names no path of this machine unless one is given.
    """
    if project:
        roots = roots or [one for one in [_client(name).folder] if one]
        return ServerCommand("refdesk", ("serve", *(f"--allow-root={root}" for root in roots)))
    serve = ("serve", *(f"--allow-root={Path(root).resolve()}" for root in roots))
    where = ("--library", str(library.absolute())) if library is not None else ()
    # Desktop programs do not have the shell's PATH, so the full path is written.
    script = shutil.which("refdesk", path=str(Path(sys.executable).parent)) or shutil.which("refdesk")
    if script is not None:
        return ServerCommand(script, (*where, *serve))
    return ServerCommand(sys.executable, ("-m", "refdesk", *where, *serve))


def install(name: str, command: ServerCommand, places: Places, *, project: bool = False) -> str:
    """Adds RefDesk to the client's settings; returns a message for the user."""
    client, file = _client(name), _file(name, places, project)
    text = render(name, command, places, project=project)
    target = file.resolve()  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, text, mode=target.stat().st_mode & 0o777 if target.exists() else 0o644)
    said = f"{client.title} now has RefDesk: {_short(file, places)}\n{client.then}"
    if client.project_file is None and not any(one.startswith("--allow-root") for one in command.args):
        said += f"\nIt has no projects: name what RefDesk may read with `refdesk install {name} --allow-root FOLDER`."
    return said


def render(name: str, command: ServerCommand, places: Places, *, project: bool = False) -> str:
    """The text of the client's settings file with RefDesk added and everything else unchanged."""
    client, file = _client(name), _file(name, places, project)
    old = _read(file)
    try:
        new = _with_toml(old, client, command) if client.format == "toml" else _with_json(old, client, command)
        if _others(new, client) != _others(old, client):
            raise ValueError("its layout is one that can't be edited safely")
    except (NotJson, ValueError) as error:
        snippet = _with_toml("", client, command) if client.format == "toml" else _with_json("", client, command)
        raise ParseFailed(
            f"Could not read {_short(file, places)}: {error}.",
            f"Nothing was changed. Correct it, or add by hand:\n{snippet}",
        ) from error
    return new


def list_clients(places: Places) -> str:
    """A line for each client: whether it is on this machine and has RefDesk."""
    lines = [_status(name, client, places) for name, client in CLIENTS.items()]
    return "\n".join(lines)


def _status(name: str, client: Client, places: Places) -> str:
    files = [client.user_file(places)]
    if client.project_file is not None:
        files.append(client.project_file(places))
    having = [file for file in files if _has_refdesk(file, client)]
    if having:
        state = "installed in " + ", ".join(_short(file, places) for file in having)
    elif files[0].exists():
        state = f"found ({_short(files[0], places)}); install with: refdesk install {name}"
    elif files[0].parent.exists() and files[0].parent != places.home:
        state = f"found; install with: refdesk install {name}"
    else:
        state = "not found"
    return f"{name:15} {state}"


def _has_refdesk(file: Path, client: Client) -> bool:
    try:
        text = _read(file)
        settings = tomllib.loads(text) if client.format == "toml" else parse(text)
    except (ValueError, OSError):
        return False
    servers = settings.get(client.key) if isinstance(settings, dict) else None
    return isinstance(servers, dict) and NAME in servers


def _client(name: str) -> Client:
    if name not in CLIENTS:
        raise InvalidInput(f"Unknown client: {name}.", f"Known ones: {', '.join(CLIENTS)}.")
    return CLIENTS[name]


def _file(name: str, places: Places, project: bool) -> Path:
    client = _client(name)
    if not project:
        return client.user_file(places)
    if client.project_file is None:
        raise InvalidInput(f"{client.title} has no settings for a project.", "Install it without --project.")
    return client.project_file(places)


def _read(file: Path) -> str:
    return file.read_bytes().decode("utf-8") if file.exists() else ""


def _with_json(text: str, client: Client, command: ServerCommand) -> str:
    entry: dict[str, Any] = {"type": "stdio"} if client.typed else {}
    entry |= {"command": command.command, "args": list(command.args)}
    _others(text, client)  # raises if the settings have an unexpected shape
    known = parse(text).get(client.key, {}).get(NAME)
    if isinstance(known, dict):  # keeps what else a person set there (env, timeouts)
        entry = known | entry
    return set_member(text, (client.key, NAME), entry)


def _with_toml(text: str, client: Client, command: ServerCommand) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    header = f"[{client.key}.{NAME}]"
    lines = text.splitlines(keepends=True)
    starts = [n for n, line in enumerate(lines) if line.split("#")[0].strip() == header]
    if not starts:
        gap = "" if not text or text.endswith("\n\n") else (newline if text.endswith("\n") else newline * 2)
        return text + gap + newline.join([header, *_toml_lines(command), ""])
    first = starts[0] + 1
    last = next((n for n in range(first, len(lines)) if lines[n].lstrip().startswith("[")), len(lines))
    kept = [line for line in lines[first:last] if line.split("=")[0].strip() not in ("command", "args")]
    body = [line + newline for line in _toml_lines(command)]
    return "".join([*lines[:first], *body, *kept, *lines[last:]])


def _toml_lines(command: ServerCommand) -> list[str]:
    # A JSON string is a TOML string, and so is a list of them.
    return [
        f"command = {json.dumps(command.command, ensure_ascii=False)}",
        f"args = {json.dumps(list(command.args), ensure_ascii=False)}",
    ]


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
