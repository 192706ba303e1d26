"""The word vectors of the `wordllama` package: the baseline our own model is measured against."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.static import normalised
from refdesk.errors import EmbeddingError
from refdesk.model import EmbedderIdentity

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DIMENSION = 256
_BATCH = 512


class WordllamaEmbedder:
    """Means of wordllama's token vectors, read from its files without importing it."""

    def __init__(self) -> None:
        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise EmbeddingError("The package wordllama is not installed.", "Run pip install wordllama.")
        self._folder = Path(spec.origin).parent

    identity = EmbedderIdentity("wordllama", "l2-supercat", _DIMENSION)
    is_slow = False
    similarity_floor = 0.0  # not calibrated: wordllama is a baseline

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One row per text: the direction of the mean of its token vectors."""
        rows = [self._embed(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)]
        return np.concatenate(rows) if rows else np.zeros((0, _DIMENSION), np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_passages(texts)

    def _embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        ids = [encoding.ids for encoding in encoded]
        lengths = np.array([len(row) for row in ids], np.int64)
        sums = np.zeros((len(texts), _DIMENSION), np.float32)
        filled = np.flatnonzero(lengths)
        if filled.size:
            starts = (np.cumsum(lengths) - lengths)[filled]
            tokens = np.concatenate([np.array(row, np.int64) for row in ids if row])
            # Along the outer axis reduceat adds row by row, so the result depends on neither batch nor platform.
            sums[filled] = np.add.reduceat(self._weights[tokens].astype(np.float32), starts, axis=0)
        return normalised(sums)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        tokenizer: Tokenizer = Tokenizer.from_file(str(self._folder / "tokenizers/l2_supercat_tokenizer_config.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def _weights(self) -> NDArray[np.float16]:
        path = self._folder / "weights" / f"l2_supercat_{_DIMENSION}.safetensors"
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(header_size))
        (tensor,) = (entry for name, entry in header.items() if name != "__metadata__")
        offset = 8 + header_size + tensor["data_offsets"][0]
        return np.memmap(path, np.dtype("<f2"), "r", offset, tuple(tensor["shape"]))
