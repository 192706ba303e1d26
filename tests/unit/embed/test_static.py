"""The shipped model and what its vectors must be."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np
import pytest

from refdesk.embed.onnx import OnnxEmbedder
from refdesk.embed.remote import RemoteEmbedder
from refdesk.embed.static import StaticEmbedder
from refdesk.errors import EmbeddingError

TEXTS = [
    "def read_file(path, encoding='utf-8'):\n    with open(path, encoding=encoding) as f:\n        return f.read()",
    "class HttpServer: listens on a port and answers requests",
    "",
    "Sort the list of numbers in ascending order",
    "?!",
    "日本語の文書",
    "größe naïve café",
]


@pytest.fixture(scope="module")
def model() -> StaticEmbedder:
    return StaticEmbedder()


def test_rows_have_length_one_or_are_zero(model: StaticEmbedder) -> None:
    rows = model.embed_passages(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), model.identity.dimension)
    lengths = np.linalg.norm(rows, axis=1)
    assert np.allclose(lengths[[0, 1, 3]], 1, atol=1e-6)
    assert lengths[2] == lengths[4] == 0


@pytest.mark.parametrize("side", ["embed_passages", "embed_queries"])
def test_a_batch_changes_no_bit(model: StaticEmbedder, side: str) -> None:
    embed = getattr(model, side)
    together = embed(TEXTS * 40)
    assert np.array_equal(together, np.concatenate([embed([text]) for text in TEXTS] * 40))
    assert np.array_equal(together[: len(TEXTS)][::-1], embed(TEXTS[::-1]))


def test_nothing_gives_no_rows(model: StaticEmbedder) -> None:
    assert model.embed_queries([]).shape == (0, 256)


def test_vectors_are_the_recorded_ones_on_every_platform(model: StaticEmbedder) -> None:
    digest = hashlib.sha256(model.embed_passages(TEXTS).astype("<f4").tobytes()).hexdigest()
    recorded = json.loads((Path(__file__).parent / "vectors.json").read_text())
    assert digest == recorded[model.identity.version]


def test_meaning_beats_chance(model: StaticEmbedder) -> None:
    passages = model.embed_passages(
        [
            "def load(p):\n    with open(p) as handle:\n        return json.load(handle)",
            "def connect(host, port):\n    sock = socket.create_connection((host, port))\n    return sock",
            "int compare(const void *a, const void *b) { return *(int*)a - *(int*)b; }",
            "Install the package with pip. Then run the command to check the version.",
        ]
    )
    queries = model.embed_queries(
        ["parse a file of json", "open a network connection to a server", "order two integers", "how to install"]
    )
    assert (queries @ passages.T).argmax(1).tolist() == [0, 1, 2, 3]


def test_identity_and_floor(model: StaticEmbedder) -> None:
    assert model.identity.name == "refdesk-static"
    assert 0 < model.similarity_floor < 1


def test_the_package_carries_at_most_16_megabytes() -> None:
    folder = Path(str(StaticEmbedder.__init__.__globals__["_DATA"]))
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 16_000_000


def test_it_is_quick() -> None:
    fresh = StaticEmbedder()
    began = time.process_time()
    fresh.embed_queries(["warm"])
    assert time.process_time() - began < 0.25  # 35 ms alone on a core
    texts = [TEXTS[0] * 3] * 1_000
    began = time.process_time()
    fresh.embed_passages(texts)
    assert 1_000 / (time.process_time() - began) > 1_000


def test_missing_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="Reinstall"):
        StaticEmbedder(tmp_path)


def test_it_is_not_one_that_others_wait_for() -> None:
    assert not StaticEmbedder().is_slow
    assert RemoteEmbedder.is_slow
    assert OnnxEmbedder.is_slow
