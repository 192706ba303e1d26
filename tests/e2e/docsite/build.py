"""Real generators over the same pages: MkDocs and Sphinx."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parent / "pages"
_WARNING = "Revive one job first. A thousand jobs that fail again at once look like an outage to everybody else."
_NOTE = "A worker that was killed leaves its leases behind; they lapse within a minute without any help."
OPERATIONS = {
    "mkdocs": f"# Operations\n\nWhat to know at three in the morning.\n\n!!! warning\n    {_WARNING}\n\n"
    f"!!! note\n    {_NOTE}\n",
    "sphinx": f"# Operations\n\nWhat to know at three in the morning.\n\n```{{warning}}\n{_WARNING}\n```\n\n"
    f"```{{note}}\n{_NOTE}\n```\n",
}


def sources(generator: str) -> dict[str, str]:
    """The pages' sources by path without ending."""
    found = {
        file.relative_to(PAGES).with_suffix("").as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(PAGES.rglob("*.md"))
    }
    return {**found, "operations": OPERATIONS[generator]}


def source_words(markdown: str) -> list[str]:
    """The words that a reader of the page sees, from its source."""
    text = re.sub(r"^(`{3,})\{?(\w*)\}?\s*$", _admonition_name, markdown, flags=re.MULTILINE)
    text = re.sub(r"^!!! (\w+)", r"\1", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^- \[[ x]\]", "-", text, flags=re.MULTILINE)
    return [word.lower() for word in re.findall(r"\w+", text)]


def text_words(markdown: str) -> list[str]:
    """The words of a kept page; what only says how to show them is none."""
    text = re.sub(r"^\s*(`{3,})\s*[\w+-]*\s*$", "", markdown, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"^(\s*[-*]) \[[ x]\]", r"\1", text, flags=re.MULTILINE)
    return [word.lower() for word in re.findall(r"\w+", text)]


def _admonition_name(found: re.Match[str]) -> str:
    return found[2] if found[2] in ("warning", "note") else ""


def _write(generator: str, folder: Path) -> None:
    for path, text in sources(generator).items():
        file = folder / f"{path}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def build_mkdocs(folder: Path, theme: str = "mkdocs") -> Path:
    """The site as MkDocs makes it."""
    _write("mkdocs", folder / "docs")
    (folder / "mkdocs.yml").write_text(
        f"site_name: Lanternfish\nsite_url: http://site.invalid/\ntheme: {{name: {theme}}}\n"
        "copyright: Copyright by the lantern keepers\nrepo_url: https://example.org/lanternfish\n"
        "edit_uri: edit/main/docs/\n"
        "markdown_extensions: [admonition, tables, fenced_code, def_list, toc: {permalink: true}]\n",
        encoding="utf-8",
    )
    _run("mkdocs", "build", "--quiet", "--config-file", str(folder / "mkdocs.yml"), "--site-dir", str(folder / "site"))
    shutil.rmtree(folder / "site" / "search", ignore_errors=True)
    return folder / "site"


def build_sphinx(folder: Path, theme: str = "alabaster") -> Path:
    """The site as Sphinx makes it."""
    _write("sphinx", folder / "docs")
    others = "\n".join(path for path in sources("sphinx") if path != "index")
    index = folder / "docs" / "index.md"
    text = index.read_text(encoding="utf-8")
    index.write_text(f"{text}\n```{{toctree}}\n:hidden:\n\n{others}\n```\n", encoding="utf-8")
    (folder / "docs" / "conf.py").write_text(
        f"project = 'Lanternfish'\nextensions = ['myst_parser']\nhtml_theme = {theme!r}\n"
        "myst_enable_extensions = ['deflist']\nhtml_copy_source = True\ncopyright = 'the lantern keepers'\n",
        encoding="utf-8",
    )
    _run("sphinx", "-q", "-b", "html", str(folder / "docs"), str(folder / "site"))
    return folder / "site"


def _run(module: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
