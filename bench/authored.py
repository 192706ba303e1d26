"""Questions written by hand over packages that were read for it: what people ask, not what authors wrote."""

from __future__ import annotations

from pathlib import Path

import yaml  # type: ignore[import-untyped]

from bench import corpora
from bench.sets import Item, KnownItems

FILE = Path(__file__).parent / "authored.yaml"


def known_items(cache: Path) -> KnownItems:
    """The authored set: whole packages as they are, and questions with the place that answers each."""
    folder = cache / "sets" / "authored"
    folder.mkdir(parents=True, exist_ok=True)
    known = corpora.pins()
    items: list[Item] = []
    for name, questions in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        pin = known["pypi", name]
        link = folder / pin.folder
        if not link.is_dir():
            corpora.copy(corpora.fetch(pin, cache), link)
        items += [_item(pin.folder, one) for one in questions]
    return KnownItems(name="authored", folder=folder, report=tuple(items), tune=())


def _item(package: str, question: dict[str, str]) -> Item:
    path, _, lines = question["at"].partition("#")
    first, _, last = lines.partition("-")
    return Item(question["ask"], package, f"{package}/{path}", int(first or 1), int(last or first or 10**9))
