"""What do all models behind an API have in common?  A key, two sizes, a budget, and errors in one form."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from refdesk.errors import LlmError, SettingsError
from refdesk.llm.attempts import RETRYABLE, Failed, Patience
from refdesk.llm.structured import described, read_answer

WHAT_NEXT = "Retry or resolve from scratch."


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where a vendor's models are and which of them are used."""

    key: str = field(repr=False)
    base_url: str = ""
    small: str = ""
    large: str = ""
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Question:
    """One request to a model."""

    prompt: str
    system: str
    schema: Mapping[str, Any] | None
    model: str


class RemoteModel(ABC):
    """A vendor's models, asked through the vendor's own SDK."""

    name: str
    label: str
    small: str
    large: str

    def __init__(self, access: Access, patience: Patience = Patience()) -> None:  # noqa: B008
        self._access = access
        self._patience = patience
        self._lock = threading.Lock()
        self._made: Any = None

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """Text, or the object that satisfies the schema; LlmError in the vendor's name when it can't be had."""
        chosen = (self._access.large or self.large) if size == "large" else (self._access.small or self.small)
        question = Question(prompt, system, schema, chosen)
        self._client()
        try:
            return self._patience.persist(
                lambda left_s: read_answer(self._ask(question, left_s), schema), self._access.timeout_s
            )
        except Failed as failure:
            raise failed(self.label, failure.detail, self._access.key) from failure

    def close(self) -> None:
        """Closes the connections, if there are any."""
        with self._lock:
            client, self._made = self._made, None
        if client is not None and hasattr(client, "close"):
            client.close()

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                try:
                    self._made = self._connect()
                except ImportError as error:
                    raise SettingsError(
                        f"The {self.label} SDK is not installed.",
                        f'Run pip install "refdesk[{self.name}]", or set REFDESK_LLM to another model or to local.',
                    ) from error
            return self._made

    @abstractmethod
    def _connect(self) -> Any:
        """The SDK's client; the SDK is imported here and nowhere else."""

    @abstractmethod
    def _ask(self, question: Question, timeout_s: float) -> str:
        """What the model wrote; Failed when it wrote nothing."""


def failed(label: str, detail: str, key: str = "") -> LlmError:
    """The error in the contract's words, on one line and without the key."""
    text = " ".join(detail.split())
    text = text.replace(key, "[key]") if key else text
    return LlmError(f"{label} API error: {text[:300].rstrip(' .')}.", WHAT_NEXT)


def with_schema(question: Question) -> str:
    """The prompt of a question to a model that takes no schema."""
    return question.prompt if question.schema is None else f"{question.prompt}\n\n{described(question.schema)}"


def status_failure(status: int, message: str, wait: str | None) -> Failed:
    """The failure that an HTTP status means."""
    try:
        wait_s = float(wait) if wait else None
    except ValueError:
        wait_s = None  # a date: the usual wait will do
    return Failed(f"{status} {message}".strip(), again=status in RETRYABLE, wait_s=wait_s)


def lost_failure(error: Exception, timeout_s: float) -> Failed:
    """The failure that an exception without a status means: too late, or not connected."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if any("Timeout" in name for name in names):
        return Failed(f"timeout after {timeout_s:.0f}s" if timeout_s >= 1 else "timeout", again=True)
    connection = bool(names & {"TransportError", "ConnectionError", "APIConnectionError", "NetworkError"})
    return Failed(f"{type(error).__name__}: {error}", again=connection)
