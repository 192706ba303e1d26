"""An endpoint of the OpenAI embeddings protocol, played by a transport in this process."""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest

from refdesk.embed.remote import RemoteEmbedder
from refdesk.errors import EmbeddingError


class Endpoint:
    """Answers each text with its length and a one, after as many failures as asked for."""

    def __init__(self, failures: list[httpx.Response] | None = None, width: int = 2) -> None:
        self.failures = failures or []
        self.width = width
        self.bodies: list[dict[str, object]] = []
        self.keys: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.failures:
            return self.failures.pop(0)
        body = json.loads(request.content)
        self.bodies.append(body)
        self.keys.append(request.headers.get("authorization", ""))
        data = [
            {"index": n, "embedding": [float(len(t))] + [1.0] * (self.width - 1)} for n, t in enumerate(body["input"])
        ]
        return httpx.Response(200, json={"data": data[::-1]})


def embedder(endpoint: Endpoint, waits: list[float] | None = None, **options: object) -> RemoteEmbedder:
    waited = waits if waits is not None else []
    return RemoteEmbedder(
        "http://localhost/v1/", "tiny", transport=httpx.MockTransport(endpoint), wait=waited.append, **options
    )  # type: ignore[arg-type]


def test_rows_keep_their_order_and_have_length_one() -> None:
    endpoint = Endpoint()
    rows = embedder(endpoint, api_key="secret").embed_passages(["aaa", "", "a"])
    assert np.allclose(rows[0], np.array([3, 1]) / np.sqrt(10))
    assert not rows[1].any()
    assert np.allclose(rows[2], np.array([1, 1]) / np.sqrt(2))
    assert set(endpoint.keys) == {"Bearer secret"}


def test_many_texts_go_in_batches() -> None:
    endpoint = Endpoint()
    assert embedder(endpoint, dimension=2).embed_queries(["x"] * 130).shape == (130, 2)
    assert [len(body["input"]) for body in endpoint.bodies] == [64, 64, 2]  # type: ignore[arg-type]
    assert endpoint.bodies[0]["dimensions"] == 2


def test_a_busy_endpoint_is_asked_again() -> None:
    waits: list[float] = []
    endpoint = Endpoint([httpx.Response(429, headers={"retry-after": "7"}), httpx.Response(503)])
    assert embedder(endpoint, waits, dimension=2).embed_queries(["x"]).shape == (1, 2)
    assert waits[0] == 7.0 and 1.5 < waits[1] < 2.5


def test_a_refusal_is_not_repeated() -> None:
    waits: list[float] = []
    endpoint = Endpoint([httpx.Response(401, text="bad key")])
    with pytest.raises(EmbeddingError, match="401: bad key"):
        embedder(endpoint, waits, dimension=2).embed_queries(["x"])
    assert waits == []


def test_an_endpoint_that_stays_down_is_given_up() -> None:
    with pytest.raises(EmbeddingError, match="HTTP 500"):
        embedder(Endpoint([httpx.Response(500)] * 9), dimension=2).embed_queries(["x"])


def test_another_dimension_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="3 dimensions"):
        embedder(Endpoint(), dimension=3).embed_queries(["x"])


@pytest.mark.parametrize(
    "answer",
    [{"oops": 1}, {"data": [{"index": 0, "embedding": ["a", "b"]}]}, {"data": [{"index": 0, "embedding": [1, [2]]}]}],
)
def test_an_answer_without_embeddings_is_refused(answer: object) -> None:
    with pytest.raises(EmbeddingError, match="not a list of embeddings"):
        embedder(Endpoint([httpx.Response(200, json=answer)]), dimension=2).embed_queries(["x"])


def test_the_dimension_is_learned_when_not_given() -> None:
    assert embedder(Endpoint(width=5)).identity.dimension == 5
