"""The precise mode's own model, as it is shipped."""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from refdesk_precise import PreciseModel
from refdesk_precise.rows import Layout, arrange

from refdesk.app import PARTS
from refdesk.desk.desk import Desk
from refdesk.errors import EmbeddingError
from refdesk.model import Query, StoredChunk
from refdesk.settings import Settings
from tests.conftest import Tree

EXTRA = Path(__file__).parents[3] / "extras" / "refdesk-precise"
DATA = EXTRA / "src" / "refdesk_precise" / "data"
CODE = {
    "shop/dates.py": """def read_day(text):
    year, month, day = text.split('-')
    return date(int(year), int(month), int(day))
""",
    "shop/cart.py": """def add_item(cart, item, count):
    cart.lines.append(Line(item, count))
    cart.total += item.price * count
""",
    "shop/mail.py": """def send_receipt(order, address):
    message = render(order)
    smtp.send(address, message)
""",
    "shop/stock.py": """def reserve(item, count):
    if stock[item] < count:
        raise SoldOut(item)
    stock[item] -= count
""",
}
ASKED = {
    "parse a calendar date from a string": "shop/dates.py",
    "add an item to the shopping cart": "shop/cart.py",
    "sends an order confirmation to an address": "shop/mail.py",
    "raise an error if too few items are in stock": "shop/stock.py",
}


@pytest.fixture
def stored(desk: Desk, tree: Tree) -> list[StoredChunk]:
    desk.index(tree(CODE), "code", name="shop")
    found = [one for document in desk.documents("shop", 10, 0) for one in desk.chunks_of(document.id)]
    return [one for one in found if one.chunk.kind == "function"]


def test_it_reads_what_is_meant(stored: list[StoredChunk]) -> None:
    model = PreciseModel()
    best = {query: stored[int(np.argmax(model.judge(query, stored)))].document.path for query in ASKED}
    assert len(stored) == len(CODE)
    assert best == ASKED


def test_the_same_question_gets_the_same_numbers(stored: list[StoredChunk]) -> None:
    query = "put a product into the basket"
    first = PreciseModel().judge(query, stored * 5)
    assert PreciseModel().judge(query, stored * 5) == first


def test_a_query_without_a_known_piece_says_nothing(stored: list[StoredChunk]) -> None:
    assert PreciseModel().judge("?!", stored) == [0.0] * len(stored)
    assert PreciseModel().judge("cart", []) == []


def test_it_reorders_hits_in_a_desk(desk: Desk, tree: Tree) -> None:
    desk.index(tree(CODE), "code", name="shop")
    precise = Desk(
        Settings(library=desk.settings.library, precise=True), replace(PARTS, judge=lambda _: PreciseModel())
    )
    for query, path in ASKED.items():
        hits = precise.search(Query(text=query, explain=True)).hits
        assert hits[0].stored.document.path == path
        assert "precise" in hits[0].explanation
    precise.close()


def brute(passage: np.ndarray, query: np.ndarray, telling: np.ndarray, head: int, size: int) -> int:
    """Where the best window starts, by trying all."""
    totals = {
        start: sum(telling[one] for one in passage[start : start + size] if one in query)
        for start in range(head, len(passage) - size + 1)
    }
    return max(totals, key=lambda start: (totals[start], -start))


def test_a_long_passage_keeps_its_head_and_its_most_telling_window() -> None:
    drawn = np.random.default_rng(4)
    telling = drawn.integers(1, 9, 60).astype(np.float32)
    layout = Layout(places=40, head=6)
    for _ in range(50):
        query = drawn.integers(3, 60, drawn.integers(1, 9))
        passage = drawn.integers(3, 60, drawn.integers(30, 120))
        ids, roles = arrange(query, [passage], telling, layout)
        room = 40 - 2 - len(query)
        expected = passage
        if len(passage) > room:
            start = brute(passage, query, telling, 6, room - 6)
            expected = np.concatenate([passage[:6], passage[start : start + room - 6]])
        assert ids[0].tolist() == [1, *query, 2, *expected]
        asked = [int(one in passage) for one in query]
        assert roles[0].tolist() == [0, *asked, 0, *(2 + int(one in query) for one in expected)]


def test_short_rows_are_padded() -> None:
    telling = np.ones(20, np.float32)
    ids, roles = arrange(np.array([5]), [np.array([7, 5]), np.array([8])], telling, Layout(places=40, head=6))
    assert ids.tolist() == [[1, 5, 2, 7, 5], [1, 5, 2, 8, 0]]
    assert roles.tolist() == [[0, 1, 0, 2, 3], [0, 0, 0, 2, 0]]


def test_the_files_are_the_ones_described_and_small() -> None:
    about = json.loads((DATA / "about.json").read_text())
    assert hashlib.sha256((DATA / "model.onnx").read_bytes()).hexdigest() == about["sha256"]
    pieces = (DATA / "pieces.txt").read_text(encoding="utf-8").split("\n")
    assert (DATA / "telling.u1").stat().st_size == len(pieces) + about["special"]
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 12_000_000


def test_the_package_offers_the_model() -> None:
    points = tomllib.loads((EXTRA / "pyproject.toml").read_text())["project"]["entry-points"]["refdesk.precise"]
    module, _, name = points["model"].partition(":")
    assert getattr(import_module(module), name) is PreciseModel


@pytest.mark.parametrize(
    ("name", "said"), [("model.onnx", "can't be loaded"), ("pieces.txt", "pieces.txt can't be read")]
)
def test_a_damaged_model_is_named(tmp_path: Path, stored: list[StoredChunk], name: str, said: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(DATA, folder)
    if name == "model.onnx":
        (folder / name).write_bytes(b"torn")
    else:
        (folder / name).unlink()
    with pytest.raises(EmbeddingError, match=said):
        PreciseModel(folder).judge("add an item", stored)
