"""Any sentence encoder in a local ONNX file, for those who have the time a transformer takes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.rows import normalised
from refdesk.errors import EmbeddingError
from refdesk.model import EmbedderIdentity

_BATCH = 16
_LONGEST = 256
_PLACES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")


class OnnxEmbedder:
    """Means of a transformer's token vectors, from a folder with an ONNX file and its tokenizer.json."""

    def __init__(self, folder: Path, *, query_prefix: str = "", passage_prefix: str = "") -> None:
        self._folder = folder
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """The folder's name, the hash of the model file, and the dimension it is seen to give."""
        with self._model_file.open("rb") as file:
            version = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        return EmbedderIdentity(self._folder.name, version, self._embed(["dimension"], "").shape[1])

    @property
    def similarity_floor(self) -> float:
        """Zero: a floor is calibrated for one model, and this one is not known."""
        return 0.0

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text of length one; a zero row for an empty text."""
        return self._rows(texts, self._passage_prefix)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, self._query_prefix)

    def _rows(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.identity.dimension), np.float32)
        # Texts of about one length share a batch, so that little of it is padding.
        filled = sorted((n for n, text in enumerate(texts) if text.strip()), key=lambda n: len(texts[n]))
        for start in range(0, len(filled), _BATCH):
            chosen = filled[start : start + _BATCH]
            rows[chosen] = self._embed([texts[number] for number in chosen], prefix)
        return rows

    def _embed(self, texts: list[str], prefix: str) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch([prefix + text for text in texts])
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        given = {
            "input_ids": np.array([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        wanted = {one.name for one in self._session.get_inputs()}
        hidden = self._session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        if hidden.ndim == 3:
            hidden = (hidden * mask[:, :, None]).sum(1)
        return normalised(np.asarray(hidden, np.float32))

    @cached_property
    def _model_file(self) -> Path:
        for place in _PLACES:
            if (self._folder / place).is_file():
                return self._folder / place
        raise EmbeddingError(
            f"No ONNX model in {self._folder}.", f"Put one there as {_PLACES[0]}, with tokenizer.json."
        )

    @cached_property
    def _session(self) -> Any:
        try:
            onnxruntime = import_module("onnxruntime")
        except ImportError as error:
            raise EmbeddingError("onnxruntime is not installed.", "Run pip install 'refdesk[transformer]'.") from error
        return onnxruntime.InferenceSession(str(self._model_file), providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self._folder / "tokenizer.json"
        if not path.is_file():
            raise EmbeddingError(f"No tokenizer.json in {self._folder}.", "Put the model's tokenizer beside it.")
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.enable_truncation(_LONGEST)
        tokenizer.enable_padding()
        return tokenizer
