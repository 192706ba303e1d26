"""What are models told?  One file a task, its version in its name; data goes in between marks it can't forge."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import NamedTuple

_VERSIONS = {"judge": 1, "extract": 1, "repair": 1, "refine": 1}


class Instructions(NamedTuple):
    """What a model is told to do, and which version of it."""

    text: str
    version: str


@cache
def instructions(task: str) -> Instructions:
    """The instructions in force for a task."""
    name = f"{task}.v{_VERSIONS[task]}"
    text = resources.files("refdesk.llm.prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")
    return Instructions(text.strip(), name)


def quoted(label: str, text: str) -> str:
    """Text as data: between marks that carry its own digest, so that nothing in it can end it early."""
    mark = hashlib.sha256(text.encode()).hexdigest()[:16]
    return f'<data name="{label}" mark="{mark}">\n{text}\n</data mark="{mark}">'
