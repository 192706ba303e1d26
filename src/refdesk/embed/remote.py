"""Vectors from an endpoint with an OpenAI-compatible embeddings API."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from refdesk.embed.static import normalised
from refdesk.errors import AttemptFailed, EmbeddingError
from refdesk.model import EmbedderIdentity
from refdesk.system.retry import TRANSIENT, Retry, retry_after

if TYPE_CHECKING:
    import httpx

_BATCH = 64
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 30.0


class RemoteEmbedder:
    """The vectors of a remote model, requested in batches, with retries while the endpoint is busy."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        dimension: int | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._api_key = api_key
        self._asked_dimension = dimension
        self._timeout = timeout
        self._transport = transport
        self._retry = Retry(first_wait_s=_FIRST_WAIT_S, longest_wait_s=_LONGEST_WAIT_S, sleep=wait)

    @cached_property
    def identity(self) -> EmbedderIdentity:
        """The model's name, and the requested or observed dimension."""
        dimension = self._asked_dimension or len(self._ask(["dimension"])[0])
        return EmbedderIdentity(self._model, "remote", dimension)

    is_slow = True
    similarity_floor = 0.0  # a floor must be calibrated for each model, and this one is unknown

    def embed_passages(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector per text; a zero row for an empty text."""
        rows = np.zeros((len(texts), self.identity.dimension), np.float32)
        filled = [number for number, text in enumerate(texts) if text.strip()]
        for start in range(0, len(filled), _BATCH):
            chosen = filled[start : start + _BATCH]
            vectors = self._ask([texts[number] for number in chosen])
            if vectors.shape != (len(chosen), self.identity.dimension):
                raise EmbeddingError(
                    f"{self._url} answered vectors of shape {vectors.shape} for {len(chosen)} texts.",
                    f"Check that the model {self._model!r} gives {self.identity.dimension} dimensions.",
                )
            rows[chosen] = vectors
        return normalised(rows)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.embed_passages(texts)

    @cached_property
    def _client(self) -> httpx.Client:
        import httpx

        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        return httpx.Client(headers=headers, timeout=self._timeout, transport=self._transport)

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        body: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dimension:
            body["dimensions"] = self._asked_dimension
        try:
            answer = self._retry.call(lambda left_s: self._post(body))
        except AttemptFailed as failure:
            raise EmbeddingError(
                f"No embeddings from {self._url} ({failure.message}).",
                "Check embedder_url, embedder_model and embedder_key, and that the endpoint is up.",
            ) from failure
        try:
            entries = sorted(answer.json()["data"], key=lambda entry: entry["index"])
            return np.array([entry["embedding"] for entry in entries], np.float32)
        except (ValueError, KeyError, TypeError) as error:
            raise EmbeddingError(
                f"{self._url} answered something that is not a list of embeddings.",
                "Check that embedder_url points to an OpenAI-compatible API, usually ending in /v1.",
            ) from error

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            answer = self._client.post(self._url, json=body)
        except httpx.TransportError as error:
            raise AttemptFailed(f"{type(error).__name__}: {error}", is_transient=True) from error
        if answer.is_success:
            return answer
        raise AttemptFailed(
            f"HTTP {answer.status_code}: {answer.text[:200]}",
            is_transient=answer.status_code in TRANSIENT,
            wait_s=retry_after(answer.headers) or None,
        )
