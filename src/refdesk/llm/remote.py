"""How is a model asked?  Again after a busy or broken answer within one budget, and its answers are checked."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from jsonschema import Draft202012Validator

from refdesk.errors import Cancelled, LlmError, RefdeskError, SettingsError

# --- attempts --------------------------------------------------------------------------------------------


T = TypeVar("T")

RETRYABLE = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


class Failed(Exception):
    """One attempt that gave no answer."""

    def __init__(self, detail: str, *, again: bool = False, wait_s: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.again = again
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Patience:
    """How many attempts there are, and how long one waits between them."""

    attempts: int = 4
    first_wait_s: float = 0.5
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def persist(self, attempt: Callable[[float], T], budget_s: float) -> T:
        """What an attempt gives; each is told how long it may take.  Failed when none gives anything in time."""
        ends = self.clock() + budget_s
        for number in range(1, self.attempts + 1):
            try:
                return attempt(max(0.001, ends - self.clock()))
            except Failed as failure:
                wait = self._wait(failure, number)
                left = ends - self.clock()
                if not failure.again or number == self.attempts or wait >= left:
                    raise
                self.sleep(wait)
        raise AssertionError("unreachable")

    def _wait(self, failure: Failed, number: int) -> float:
        # What the server asks for is kept; otherwise the wait doubles, with some chance in it so that callers spread.
        if failure.wait_s is not None:
            return failure.wait_s
        return self.first_wait_s * float(2 ** (number - 1)) * random.uniform(0.75, 1.25)


# --- answers by schema -----------------------------------------------------------------------------------


_FENCED = re.compile(r"```(?:json)?[^\S\n]*+\n(.*?)\n[^\S\n]*+```", re.S)


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """The text, or the object in it that satisfies the schema; Failed, to be tried again, when it does not."""
    if schema is None:
        return text.strip()
    try:
        value = json.loads(_json_in(text))
    except ValueError as error:
        raise Failed(f"the answer is not valid JSON ({error})", again=True) from None
    problem = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the answer"
        raise Failed(f"the answer does not fit its schema ({where}: {problem.message[:200]})", again=True)
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


# --- the client's own model, by MCP sampling -------------------------------------------------------------


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
