"""The client's own model, asked by MCP sampling."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from refdesk.errors import Cancelled, RefdeskError
from refdesk.llm.attempts import Failed
from refdesk.llm.remote import failed
from refdesk.llm.structured import described, read_answer

_MAX_TOKENS = {"small": 1024, "large": 8192}
_ATTEMPTS = 2


class Sampled(Protocol):
    """What the client's model wrote."""

    @property
    def text(self) -> str: ...


class Sampler(Protocol):
    """How the client's model is asked."""

    def __call__(
        self, prompt: str, *, system: str | None = None, max_tokens: int = 1024, temperature: float | None = None
    ) -> Sampled: ...


class Sampling:
    """The model of whoever called."""

    name = "sampling"
    label = "Sampling"

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """Text, or the object that satisfies the schema; asked once more when an answer does not fit."""
        asked = prompt if schema is None else f"{prompt}\n\n{described(schema)}"
        failure = Failed("no answer")
        for _ in range(_ATTEMPTS):
            try:
                sampled = self._sampler(asked, system=system or None, max_tokens=_MAX_TOKENS.get(size, 1024))
                return read_answer(sampled.text, schema)
            except Failed as error:
                failure = error
            except Cancelled:
                raise
            except RefdeskError as error:
                raise failed(self.label, str(error)) from error
        raise failed(self.label, failure.detail) from failure
