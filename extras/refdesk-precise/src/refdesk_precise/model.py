"""The model itself: three transformer layers in 8 bits, run by onnxruntime on one core."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.static import Pieces
from refdesk.errors import EmbeddingError
from refdesk.ingest.prepare import embedding_text
from refdesk.model import StoredChunk
from refdesk_precise.rows import Layout, Numbers, arrange

_DATA = Path(__file__).parent / "data"
_BATCH = 5
_LONGEST = 4_000  # characters of a passage that are looked at


class PreciseModel:
    """Reads the query together with each passage."""

    def __init__(self, folder: Path = _DATA) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        return f"{self._about['name']} {self._about['version']}"

    def judge(self, query: str, passages: Sequence[StoredChunk]) -> list[float]:
        """How well each passage answers; only comparable within one call."""
        asked = self._ids(query)[: self._about["most_query"]]
        if not passages or not len(asked):
            return [0.0] * len(passages)
        read = [self._passage(one) for one in passages]
        found = [0.0] * len(read)
        # Passages of about one length share a batch, so that little of it is padding.
        by_length = sorted(range(len(read)), key=lambda place: len(read[place]))
        for start in range(0, len(read), _BATCH):
            chosen = by_length[start : start + _BATCH]
            ids, roles = arrange(asked, [read[place] for place in chosen], self._telling, self._layout)
            for place, score in zip(chosen, self._session.run(["score"], {"ids": ids, "roles": roles})[0], strict=True):
                found[place] = float(score)
        return found

    def _passage(self, stored: StoredChunk) -> Numbers:
        """The last two names of the path, then what is embedded of the passage."""
        tail = "/".join(stored.document.path.split("/")[-2:]).rpartition(".")[0]
        where, text = self._ids(tail), self._ids(embedding_text(stored.chunk)[:_LONGEST])
        return np.concatenate([where[-self._about["most_path"] :], text])[: self._about["most_passage"]]

    def _ids(self, text: str) -> Numbers:
        special: int = self._about["special"]
        return np.frombuffer(self._pieces.ids(text), np.uint16).astype(np.int64) + special

    @cached_property
    def _about(self) -> dict[str, Any]:
        about: dict[str, Any] = json.loads(self._read("about.json"))
        return about

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self._about["places"], self._about["head"])

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._read("pieces.txt").decode().split("\n"))

    @cached_property
    def _telling(self) -> NDArray[np.float32]:
        return np.frombuffer(self._read("telling.u1"), np.uint8).astype(np.float32)

    @cached_property
    def _session(self) -> Any:
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            return onnxruntime.InferenceSession(self._read("model.onnx"), options, providers=["CPUExecutionProvider"])
        except EmbeddingError:
            raise
        except Exception as error:  # onnxruntime has a class of its own for every failure
            raise EmbeddingError(
                f"The precise model can't be loaded: {error}.", "Reinstall refdesk[precise]."
            ) from error

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / name).read_bytes()
        except OSError as error:
            raise EmbeddingError(f"The precise model's {name} can't be read.", "Reinstall refdesk[precise].") from error
