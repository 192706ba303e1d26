"""How is a model asked?  Again after a busy or broken answer within one budget, and its answers are checked."""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from jsonschema import Draft202012Validator

from refdesk.errors import AttemptFailed, Cancelled, LlmError, RefdeskError, SettingsError
from refdesk.system.retry import TRANSIENT, Retry, retry_after

# --- answers by schema -----------------------------------------------------------------------------------


_FENCED = re.compile(r"```(?:json)?[^\S\n]*+\n(.*?)\n[^\S\n]*+```", re.S)


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """The text, or the object in it that satisfies the schema; AttemptFailed, to be tried again, when it does not."""
    if schema is None:
        return text.strip()
    try:
        value = json.loads(_json_in(text))
    except ValueError as error:
        raise AttemptFailed(f"the answer is not valid JSON ({error})", is_transient=True) from None
    problem = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the answer"
        raise AttemptFailed(f"the answer does not fit its schema ({where}: {problem.message[:200]})", is_transient=True)
    return value


def described(schema: Mapping[str, Any]) -> str:
    """The request for an object of that schema, for a model that takes no schema."""
    wanted = json.dumps(schema, ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must satisfy this JSON schema:\n{wanted}"


def _json_in(text: str) -> str:
    """The JSON of an answer that may stand in a fence or among words."""
    if fenced := _FENCED.search(text):
        return fenced[1]
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


# --- models behind an API --------------------------------------------------------------------------------


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

    def __init__(self, access: Access, retry: Retry = Retry()) -> None:  # noqa: B008 - immutable
        self._access = access
        self._retry = retry
        self._lock = threading.Lock()
        self._made: Any = None

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """Text, or the object that satisfies the schema; LlmError in the vendor's name when it can't be had."""
        chosen = (self._access.large or self.large) if size == "large" else (self._access.small or self.small)
        question = Question(prompt, system, schema, chosen)
        self._client()
        try:
            return self._retry.call(
                lambda left_s: read_answer(self._ask(question, left_s), schema), self._access.timeout_s
            )
        except AttemptFailed as failure:
            raise failed(self.label, failure.message, self._access.key) from failure

    def close(self) -> None:
        """Closes the connections, if there are any."""
        with self._lock:
            client, self._made = self._made, None
        if client is not None:
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
        """What the model wrote; AttemptFailed when it wrote nothing."""


def failed(label: str, detail: str, key: str = "") -> LlmError:
    """The error in the contract's words, on one line and without the key."""
    text = " ".join(detail.split())
    text = text.replace(key, "[key]") if key else text
    return LlmError(f"{label} API error: {text[:300].rstrip(' .')}.", WHAT_NEXT)


def with_schema(question: Question) -> str:
    """The prompt of a question to a model that takes no schema."""
    return question.prompt if question.schema is None else f"{question.prompt}\n\n{described(question.schema)}"


def status_failure(status: int, message: str, wait: str | None) -> AttemptFailed:
    """The failure that an HTTP status means."""
    wait_s = retry_after({"retry-after": wait or ""}) or None
    return AttemptFailed(f"{status} {message}".strip(), is_transient=status in TRANSIENT, wait_s=wait_s)


def lost_failure(error: Exception, timeout_s: float) -> AttemptFailed:
    """The failure that an exception without a status means: too late, or not connected."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if any("Timeout" in name for name in names):
        return AttemptFailed(f"timeout after {timeout_s:.0f}s" if timeout_s >= 1 else "timeout", is_transient=True)
    connection = bool(names & {"TransportError", "ConnectionError", "APIConnectionError", "NetworkError"})
    return AttemptFailed(f"{type(error).__name__}: {error}", is_transient=connection)


# --- the client's own model, by MCP sampling -------------------------------------------------------------


_MAX_TOKENS = {"small": 1024, "large": 8192}
_ASKED_TWICE = Retry(attempts=2, first_wait_s=0.0)


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

        def attempt(left_s: float) -> Any:
            sampled = self._sampler(asked, system=system or None, max_tokens=_MAX_TOKENS.get(size, 1024))
            return read_answer(sampled.text, schema)

        try:
            return _ASKED_TWICE.call(attempt)
        except Cancelled:
            raise
        except RefdeskError as error:
            raise failed(self.label, str(error)) from error
