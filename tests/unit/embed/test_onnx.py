"""A sentence encoder by path, run by the real onnxruntime; tests/fixtures/encoder/make.py makes the encoders."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tokenizers import Tokenizer

from refdesk.app import open_desk
from refdesk.embed.onnx import OnnxEmbedder
from refdesk.errors import EmbedderMismatch, EmbeddingError
from refdesk.model import Query
from refdesk.settings import Settings

ENCODER = Path(__file__).parents[2] / "fixtures" / "encoder"
TEXTS = ["open the door", "a much longer sentence about rivers and mountains", "x"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "tiny"
    made.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(ENCODER / name, made / name)
    return made


def tokens(text: str) -> np.ndarray:
    """The vectors of one text's tokens, straight from the runtime."""
    encoded = Tokenizer.from_file(str(ENCODER / "tokenizer.json")).encode(text)
    ids = np.array([encoded.ids], np.int64)
    session = onnxruntime.InferenceSession(str(ENCODER / "model.onnx"), providers=["CPUExecutionProvider"])
    given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return np.asarray(session.run(None, given)[0][0])


def unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / np.linalg.norm(vector))


def test_rows_are_means_of_the_tokens_whatever_the_padding(folder: Path) -> None:
    rows = OnnxEmbedder(folder).embed_passages([*TEXTS, " "])
    assert rows.shape == (4, 32) and rows.dtype == np.float32
    for row, text in zip(rows, TEXTS, strict=False):
        assert np.allclose(row, unit(tokens(text).mean(0)), atol=1e-5)
    assert not rows[3].any()


def test_many_texts_come_back_in_their_order(folder: Path) -> None:
    texts = [f"text {'word ' * (number % 7)}{number}" for number in range(40)]
    embedder = OnnxEmbedder(folder)
    together = embedder.embed_passages(texts)
    alone = np.concatenate([embedder.embed_passages([text]) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)


def test_a_long_text_is_cut(folder: Path) -> None:
    embedder = OnnxEmbedder(folder)
    long = "abcdefgh " * 200
    assert np.allclose(embedder.embed_passages([long]), embedder.embed_passages([long + "tail"]), atol=1e-6)


def test_queries_and_passages_may_have_prefixes(folder: Path) -> None:
    embedder = OnnxEmbedder(folder, query_prefix="query: ", passage_prefix="passage: ")
    bare = OnnxEmbedder(folder)
    assert np.allclose(embedder.embed_queries(["door"]), bare.embed_queries(["query: door"]))
    assert np.allclose(embedder.embed_passages(["door"]), bare.embed_passages(["passage: door"]))


def test_a_model_that_pools_itself_is_taken_at_its_word(folder: Path) -> None:
    shutil.copy(ENCODER / "pooled.onnx", folder / "model.onnx")
    rows = OnnxEmbedder(folder).embed_passages(TEXTS)
    assert rows.shape == (3, 32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.allclose(rows[:1], OnnxEmbedder(folder).embed_passages(TEXTS[:1]), atol=1e-5)


def test_a_model_made_to_be_read_at_its_first_token_is_read_there(folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    assert np.allclose(OnnxEmbedder(folder).embed_passages(TEXTS[:1])[0], unit(tokens(TEXTS[0])[0]), atol=1e-5)


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx", "onnx/model_quantized.onnx"])
def test_a_model_is_found_in_its_usual_places_and_by_its_file(folder: Path, place: str) -> None:
    moved = folder / place
    moved.parent.mkdir(exist_ok=True)
    (folder / "model.onnx").rename(moved)
    assert np.array_equal(OnnxEmbedder(folder).embed_queries(TEXTS), OnnxEmbedder(moved).embed_queries(TEXTS))


def test_the_identity_is_the_file_the_prefix_and_the_dimension(folder: Path) -> None:
    first = OnnxEmbedder(folder).identity
    assert (first.name, first.dimension) == ("tiny", 32)
    assert OnnxEmbedder(folder).identity == first
    assert OnnxEmbedder(folder, query_prefix="query: ").identity == first
    assert OnnxEmbedder(folder, passage_prefix="passage: ").identity != first
    shutil.copy(ENCODER / "pooled.onnx", folder / "model.onnx")
    assert OnnxEmbedder(folder).identity.version != first.version


def test_a_library_keeps_the_identity_and_refuses_another_model(folder: Path, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "zebra.md").write_text("# Zebra\n\nzzzz zebra zoo quiz zigzag\n")
    (files / "moon.md").write_text("# Moon\n\nmoon room noon monsoon\n")
    settings = Settings(library=tmp_path / "library", embedder="onnx", embedder_path=str(folder), workers=1)
    with open_desk(settings) as desk:
        desk.index(files, "docs", name="d")
        assert desk.embedder_identity() == OnnxEmbedder(folder).identity
    with open_desk(settings) as desk:
        hits = desk.search(Query(text="zzz zoo", alpha=1.0)).hits
        assert hits[0].stored.document.path == "zebra.md"
    with (
        open_desk(Settings(library=tmp_path / "library")) as other,
        pytest.raises(EmbedderMismatch, match="tiny"),
    ):
        _ = other.embedder


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def damage(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(b"not what it should be")  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (remove("model.onnx"), "no ONNX model in .*tiny"),
        (remove("tokenizer.json"), "No tokenizer.json in .*tiny"),
        (damage("model.onnx"), "model.onnx is not a model"),
        (damage("tokenizer.json"), "tokenizer.json is not a tokenizer"),
        (shutil.rmtree, "no ONNX model in .*tiny"),
    ],
)
def test_what_is_missing_or_damaged_is_named(folder: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(folder)
    with pytest.raises(EmbeddingError, match=said):
        OnnxEmbedder(folder).embed_passages(["one"])


def test_a_missing_runtime_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EmbeddingError, match="not installed"):
        OnnxEmbedder(folder).embed_passages(["one"])
