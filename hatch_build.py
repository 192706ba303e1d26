"""Packs the grammars into the wheel, each compressed: 12 MB in place of 190, of which most are never used."""

from __future__ import annotations

import lzma
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACK = "tree-sitter-language-pack"
# The pack takes these from wheels of their own.
_ELSEWHERE = {
    "csharp": "tree-sitter-c-sharp",
    "embeddedtemplate": "tree-sitter-embedded-template",
    "yaml": "tree-sitter-yaml",
}


class Grammars(BuildHookInterface[Any]):
    """Puts `refdesk/parse/code/grammars/NAME.SIZE.xz` into the wheel, which then is for one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # reads them from the pack
            build_data["dependencies"] += self.config["dependencies"]
            return
        pack = distribution(_PACK)
        bindings = [file for file in pack.files or () if file.parts[-2] == "bindings" and file.suffix != ".py"]
        found = {file.name.partition(".")[0]: file for file in bindings}
        for name, package in _ELSEWHERE.items():
            (found[name],) = (file for file in distribution(package).files or () if file.name.startswith("_binding."))
        self._folder = tempfile.mkdtemp(prefix="refdesk-grammars-")

        def compress(name: str) -> None:
            library = Path(str(found[name].locate())).read_bytes()
            Path(self._folder, f"{name}.{len(library)}.xz").write_bytes(lzma.compress(library))

        with ThreadPoolExecutor() as threads:
            list(threads.map(compress, sorted(found)))
        build_data["force_include"][self._folder] = "refdesk/parse/code/grammars"
        tags = [line.rpartition("-")[2] for line in (pack.read_text("WHEEL") or "").split("\n") if "Tag:" in line]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{'.'.join(tags)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)
