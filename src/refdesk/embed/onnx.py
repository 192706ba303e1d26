"""Any sentence encoder in a local ONNX file: slower than the static model by orders of magnitude."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.static import normalised
from refdesk.errors import EmbeddingError
from refdesk.model import EmbedderIdentity

_BATCH = 16
_LONGEST = 256
_POOLING = "1_Pooling/config.json"  # where sentence-transformers keeps how token vectors become one
_PLACES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")


class OnnxEmbedder:
    """Mean-pooled token vectors of a transformer, from an ONNX file, or a folder with one, and its tokenizer.json.

    A model that returns one vector a text is used as is; one with CLS pooling is read at its first token.
    """

    def __init__(self, path: Path, *, query_prefix: str = "", passage_prefix: str = "") -> None:
        self._path = path
        self._query_prefix = query_prefix
        self._passage_prefix = passage_prefix

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """The model's name, a hash of the model file and the passages' prefix, and the dimension of its vectors."""
        with self._model_file.open("rb") as file:
            read = hashlib.file_digest(file, "sha256")
        read.update(self._passage_prefix.encode())
        dimension = self._embed(["dimension"], "").shape[1]
        return EmbedderIdentity(self._path.name, read.hexdigest()[:16], dimension)

    is_slow = True
    similarity_floor = 0.0  # a floor must be calibrated for each model, and this one is unknown

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector per text; a zero row for an empty text."""
        return self._rows(texts, self._passage_prefix)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self._rows(texts, self._query_prefix)

    def _rows(self, texts: Sequence[str], prefix: str) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.identity.dimension), np.float32)
        # Texts of similar length share a batch, to save padding.
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
        if unknown := wanted - given.keys():
            raise EmbeddingError(
                f"{self._model_file} asks for {', '.join(sorted(unknown))}.", "Export it as a sentence encoder."
            )
        hidden = self._session.run(None, {name: value for name, value in given.items() if name in wanted})[0]
        if hidden.ndim == 3:
            hidden = hidden[:, 0] if self._reads_first else (hidden * mask[:, :, None]).sum(1)
        return normalised(np.asarray(hidden, np.float32))

    @cached_property
    def _folder(self) -> Path:
        """The folder with the tokenizer: the given one, or for a file the nearest that has one."""
        if not self._path.is_file():
            return self._path
        near = (self._path.parent, self._path.parent.parent)
        return next((one for one in near if (one / "tokenizer.json").is_file()), self._path.parent)

    @cached_property
    def _reads_first(self) -> bool:
        try:
            said = json.loads((self._folder / _POOLING).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return isinstance(said, dict) and said.get("pooling_mode_cls_token") is True

    @cached_property
    def _model_file(self) -> Path:
        if self._path.is_file():
            return self._path
        for place in _PLACES:
            if (self._folder / place).is_file():
                return self._folder / place
        raise EmbeddingError(
            f"There is no ONNX model in {self._path}.", f"Put one there as {_PLACES[0]}, with tokenizer.json."
        )

    @cached_property
    def _session(self) -> Any:
        try:
            onnxruntime = import_module("onnxruntime")
        except ImportError as error:
            raise EmbeddingError("onnxruntime is not installed.", "Run pip install 'refdesk[transformer]'.") from error
        file = self._model_file
        try:
            return onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's own errors derive from Exception only
            raise EmbeddingError(f"{file} is not a model that onnxruntime can run.", "Export it again.") from error

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        path = self._folder / "tokenizer.json"
        if not path.is_file():
            raise EmbeddingError(f"No tokenizer.json in {self._folder}.", "Put the model's tokenizer beside it.")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises Exception itself
            raise EmbeddingError(f"{path} is not a tokenizer.", "Put the model's own tokenizer.json there.") from error
        tokenizer.enable_truncation(_LONGEST)
        tokenizer.enable_padding()
        return tokenizer
