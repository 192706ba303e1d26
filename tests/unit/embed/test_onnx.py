"""A transformer by path, its runtime played by a module in this process."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from refdesk.embed.onnx import OnnxEmbedder
from refdesk.errors import EmbeddingError


class Session:
    """Each token's vector is its number and a one."""

    def __init__(self, path: str, providers: list[str]) -> None:
        assert Path(path).name == "model.onnx"

    def get_inputs(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(name="input_ids"), SimpleNamespace(name="attention_mask")]

    def run(self, _: None, given: dict[str, np.ndarray]) -> list[np.ndarray]:
        assert set(given) == {"input_ids", "attention_mask"}
        ids = given["input_ids"].astype(np.float32)
        return [np.stack([ids, np.ones_like(ids)], axis=2)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runtime = ModuleType("onnxruntime")
    runtime.InferenceSession = Session  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    tokenizer = Tokenizer(models.WordLevel({"[PAD]": 0, "one": 1, "two": 2, "three": 3, "query": 4}, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "model.onnx").write_bytes(b"weights")
    return tmp_path


def test_rows_are_means_whatever_the_padding(folder: Path) -> None:
    rows = OnnxEmbedder(folder).embed_passages(["two", "one three two", "", "one"])
    assert np.allclose(rows[0], np.array([2, 1]) / np.sqrt(5))
    assert np.allclose(rows[1], rows[0])
    assert not rows[2].any()
    assert np.allclose(rows[3], np.array([1, 1]) / np.sqrt(2))


def test_queries_may_have_a_prefix(folder: Path) -> None:
    rows = OnnxEmbedder(folder, query_prefix="query ").embed_queries(["two"])
    assert np.allclose(rows[0], np.array([3, 1]) / np.sqrt(10))


def test_another_file_is_another_identity(folder: Path) -> None:
    before = OnnxEmbedder(folder).identity
    (folder / "model.onnx").write_bytes(b"other weights")
    after = OnnxEmbedder(folder).identity
    assert before.dimension == after.dimension == 2
    assert before.version != after.version


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(EmbeddingError, match=missing):
        OnnxEmbedder(folder).embed_passages(["one"])


def test_a_missing_runtime_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbeddingError, match="transformer"):
        OnnxEmbedder(folder).embed_passages(["one"])
