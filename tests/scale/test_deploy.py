"""The deployment has the topology that the tests start as processes, and names no secret."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import yaml

from refdesk.cli import COMMANDS
from refdesk.commands.serve import serve
from refdesk.settings import Settings
from refdesk.store.shared.address import parse
from tests.scale import servers

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text().splitlines()
SECRETS = {name: f"s3cret-{name}" for name in COMPOSE["secrets"]}


def _named(kind: str) -> dict[str, dict[str, Any]]:
    return {name: one for name, one in SERVICES.items() if name.startswith(kind)}


def _started(service: dict[str, Any], folder: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    """The service's entry point with its command, as Compose runs it, on secrets in the folder."""
    for name, secret in SECRETS.items():
        (folder / name).write_text(secret + "\n")
    entry = [part.replace("$$", "$").replace("/run/secrets", str(folder)) for part in service["entrypoint"]]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.Popen(
        [*entry, *service["command"], *more], env={**os.environ, "PATH": path, **environment}, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_servers_are_given_every_node_and_no_password() -> None:
    nodes = {f"{name}:6334" for name in _named("qdrant")}
    assert (len(nodes), len(_named("server"))) == (3, 2)
    for server in _named("server").values():
        address = parse(server["environment"]["REFDESK_LIBRARY"])
        assert set(address.nodes) == nodes and "postgres" in SERVICES
        assert ":" not in address.record.partition("//")[2].partition("@")[0]
        assert server["command"][0] in COMMANDS
        assert {"postgres", "qdrant", "token"} == set(server["secrets"])
        assert server["ports"][0].endswith(f":{Settings().port}")


def test_a_server_starts_as_it_is_deployed_and_shows_no_secret(tmp_path: Path) -> None:
    server = _named("server")["server1"]
    with _started(server, tmp_path, "--port", "0", REFDESK_LIBRARY=str(tmp_path / "library")) as process:
        try:
            assert process.stderr is not None
            url = next(said["url"] for line in process.stderr if "url" in (said := json.loads(line)))
            root = re.sub(r"//[^:]+", "//127.0.0.1", url).removesuffix("/mcp")
            assert httpx.get(f"{root}/metrics").status_code == 401
            allowed = {"authorization": f"Bearer {SECRETS['token']}", "host": "127.0.0.1:8751"}
            assert httpx.get(f"{root}/metrics", headers=allowed).status_code == 200
            assert httpx.get(f"{root}/healthz").status_code == 200  # what the image asks
            given = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
            wanted = {"PGPASSWORD": "postgres", "REFDESK_QDRANT_API_KEY": "qdrant", "REFDESK_AUTH_TOKEN": "token"}
            assert {f"{name}={SECRETS[of]}" for name, of in wanted.items()} <= set(given)
            shown = Path(f"/proc/{process.pid}/cmdline").read_text()
            assert "serve" in shown and not any(secret in shown for secret in SECRETS.values())
        finally:
            process.terminate()


def test_nodes_make_one_cluster_with_the_key_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "entrypoint.sh").write_text('#!/bin/sh\necho "$QDRANT__SERVICE__API_KEY" "$@"\n')
    (tmp_path / "entrypoint.sh").chmod(0o755)
    for name, node in _named("qdrant").items():
        with _started(node, tmp_path) as process:
            said = process.communicate(timeout=60)[0].split()
        joins = [] if name == "qdrant1" else ["--bootstrap", "http://qdrant1:6335"]
        assert said == [SECRETS["qdrant"], "--uri", f"http://{name}:6335", *joins]
        assert {one.removeprefix("QDRANT__") for one in node["environment"]} <= servers.SETTINGS
        assert node["image"] == f"qdrant/qdrant:v{servers.VERSION}"


def test_secrets_are_made_where_they_are_declared_and_git_ignores_them(tmp_path: Path) -> None:
    compose = tmp_path / "deploy/compose.yaml"
    compose.parent.mkdir()
    shutil.copy(ROOT / "deploy/compose.yaml", compose)
    shutil.copy(ROOT / ".gitignore", tmp_path)
    make, up = re.findall(r"^#   (.+)", compose.read_text(), re.MULTILINE)
    subprocess.run(["sh", "-c", make], cwd=tmp_path, check=True)
    assert str(compose.relative_to(tmp_path)) in up.split()
    made = [(compose.parent / one["file"]).resolve() for one in COMPOSE["secrets"].values()]
    assert len({one.read_text() for one in made}) == len(SECRETS)
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    for one in made:
        subprocess.run(["git", "check-ignore", "--quiet", str(one)], cwd=tmp_path, check=True)


def test_what_is_named_is_declared() -> None:
    for name, service in SERVICES.items():
        assert "image" in service or (ROOT / "deploy" / service["build"]["context"] / "pyproject.toml").exists(), name
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert {one.partition(":")[0] for one in service.get("volumes", ())} <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        assert not service.get("image", "x:1").endswith(":latest") and service["restart"] == "unless-stopped"


def test_the_image_has_what_it_copies_installs_and_runs() -> None:
    copied = [line.split()[1:-1] for line in DOCKERFILE if line.startswith("COPY ") and "--from" not in line]
    assert copied and all((ROOT / name).exists() for names in copied for name in names)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r'"\.\[(.+)\]"', "\n".join(DOCKERFILE))
    assert set(extras.split(",")) <= set(project["optional-dependencies"]) and "scale" in extras
    versions = {line.split()[1] for line in DOCKERFILE if line.startswith("FROM ")}
    assert len(versions) == 1 and re.fullmatch(r"python:3\.1[1-9]-slim", versions.pop())
    assert "USER refdesk" in DOCKERFILE and f"EXPOSE {Settings().port}" in DOCKERFILE
    [entry] = [json.loads(line.removeprefix("ENTRYPOINT ")) for line in DOCKERFILE if line.startswith("ENTRYPOINT ")]
    [command] = [json.loads(line.removeprefix("CMD ")) for line in DOCKERFILE if line.startswith("CMD ")]
    assert entry == ["refdesk"] and "refdesk" in project["scripts"]
    assert command[0] == "serve"
    serve.make_context("serve", command[1:])  # which refuses options that it does not know
