"""Calls language models by their vendors' SDKs or the client's sampling, with retries and validated answers."""

from __future__ import annotations

import json
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refdesk.errors import AttemptFailed, Cancelled, LlmError, RefdeskError, SettingsError
from refdesk.ports import Sampler
from refdesk.settings import Settings
from refdesk.system.retry import TRANSIENT, Retry, retry_after

_MAX_TOKENS = {"small": 1024, "large": 8192}  # of an answer: a verdict, or a whole playbook
_FENCED = re.compile(r"```(?:json)?[^\S\n]*+\n(.*?)\n[^\S\n]*+```", re.S)


def read_answer(text: str, schema: Mapping[str, Any] | None) -> Any:
    """The text, or the object in it that matches the schema; raises a transient AttemptFailed if it does not."""
    if schema is None:
        return text.strip()
    from jsonschema import Draft202012Validator  # slow to import

    start, end = text.find("{"), text.rfind("}") + 1  # in a fence or among words
    fenced = _FENCED.search(text)
    try:
        value = json.loads(fenced[1] if fenced else text[start:end] if 0 <= start < end else text)
    except ValueError as error:
        raise AttemptFailed(f"the answer is not valid JSON ({error})", is_transient=True) from None
    problem = next(iter(Draft202012Validator(schema).iter_errors(value)), None)
    if problem is not None:
        where = "/".join(map(str, problem.absolute_path)) or "the answer"
        raise AttemptFailed(f"the answer does not fit its schema ({where}: {problem.message[:200]})", is_transient=True)
    return value


def with_schema(prompt: str, schema: Mapping[str, Any] | None) -> str:
    """The prompt with the schema in words, for a model without structured output."""
    if schema is None:
        return prompt
    wanted = json.dumps(schema, ensure_ascii=False)
    return f"{prompt}\n\nAnswer with one JSON object and nothing else. It must satisfy this JSON schema:\n{wanted}"


@dataclass(frozen=True, slots=True)
class Question:
    prompt: str
    system: str
    schema: Mapping[str, Any] | None
    model: str


class RemoteModel(ABC):
    """A vendor's models, called through its own SDK."""

    name: str
    label: str
    small: str
    large: str

    def __init__(self, settings: Settings, retry: Retry = Retry()) -> None:  # noqa: B008 - immutable
        self._key: str = getattr(settings, f"{self.name}_api_key")
        self._base_url: str | None = getattr(settings, f"{self.name}_base_url") or None
        self.small = settings.llm_small_model or self.small
        self.large = settings.llm_large_model or self.large
        self._timeout_s = settings.llm_timeout_s
        self._retry = retry
        self._lock = threading.Lock()
        self._made: Any = None

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """The answer as text, or as an object that matches the schema; raises LlmError with the vendor's name."""
        question = Question(prompt, system, schema, self.large if size == "large" else self.small)
        self._client()
        try:
            return self._retry.call(lambda left_s: read_answer(self._ask(question, left_s), schema), self._timeout_s)
        except AttemptFailed as failure:
            raise failed(self.label, failure.message, self._key) from failure

    def close(self) -> None:
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
        """The SDK's client; imports the SDK."""

    @abstractmethod
    def _ask(self, question: Question, timeout_s: float) -> str:
        """The model's text; raises AttemptFailed if there is none."""


def failed(label: str, detail: str, key: str = "") -> LlmError:
    """The contract's error message, on one line and without the key."""
    text = " ".join(detail.split())
    text = text.replace(key, "[key]") if key else text
    return LlmError(f"{label} API error: {text[:300].rstrip(' .')}.", "Retry or resolve from scratch.")


def status_failure(status: int, message: str, wait: str | None) -> AttemptFailed:
    wait_s = retry_after({"retry-after": wait or ""}) or None
    return AttemptFailed(f"{status} {message}".strip(), is_transient=status in TRANSIENT, wait_s=wait_s)


def lost_failure(error: Exception, timeout_s: float) -> AttemptFailed:
    """The failure for an exception without a status: a timeout or a lost connection."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if any("Timeout" in name for name in names):
        return AttemptFailed(f"timeout after {timeout_s:.0f}s" if timeout_s >= 1 else "timeout", is_transient=True)
    connection = bool(names & {"TransportError", "ConnectionError", "APIConnectionError", "NetworkError"})
    return AttemptFailed(f"{type(error).__name__}: {error}", is_transient=connection)


# --- the vendors: each by its own SDK, which is imported when it is used ---------------------------------------


class Gemini(RemoteModel):
    """A small Gemini judges, a large one extracts."""

    name = "gemini"
    label = "Gemini"
    small = "gemini-flash-latest"
    large = "gemini-pro-latest"

    def _connect(self) -> Any:
        from google import genai

        # One attempt: we retry ourselves, since the SDK ignores how long the server asks to wait.
        options = genai.types.HttpOptions(
            base_url=self._base_url, retry_options=genai.types.HttpRetryOptions(attempts=1)
        )
        return genai.Client(api_key=self._key, vertexai=False, http_options=options)

    def _ask(self, question: Question, timeout_s: float) -> str:
        from google.genai import errors, types

        config = types.GenerateContentConfig(
            system_instruction=question.system or None,
            response_mime_type="application/json" if question.schema is not None else None,
            response_json_schema=dict(question.schema) if question.schema is not None else None,
            http_options=types.HttpOptions(timeout=max(1, int(timeout_s * 1000))),
        )
        try:
            reply = self._client().models.generate_content(
                model=question.model, contents=question.prompt, config=config
            )
        except errors.APIError as error:
            raise status_failure(error.code, error.message or str(error.status), _gemini_wait(error)) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        if reply.text:
            return str(reply.text)
        candidate = reply.candidates[0] if reply.candidates else None
        reason = candidate.finish_reason if candidate else getattr(reply.prompt_feedback, "block_reason", None)
        raise AttemptFailed(f"no answer ({getattr(reason, 'name', reason) or 'empty'})")


def _gemini_wait(error: Any) -> str | None:
    headers = getattr(error.response, "headers", None)
    if headers and (after := headers.get("retry-after")):
        return str(after)
    details = error.details.get("error", {}).get("details", []) if isinstance(error.details, dict) else []
    delays = (str(each["retryDelay"]) for each in details if isinstance(each, dict) and each.get("retryDelay"))
    return next((delay.removesuffix("s") for delay in delays), None)


class OpenAi(RemoteModel):
    """Chat completions with structured output."""

    name = "openai"
    label = "OpenAI"
    small = "gpt-5.4-mini"
    large = "gpt-5.5"

    _takes_schema = True

    def _connect(self) -> Any:
        import openai

        # The SDK requires a key even if a local endpoint does not.
        return openai.OpenAI(api_key=self._key or "none", base_url=self._base_url, max_retries=0)

    def _ask(self, question: Question, timeout_s: float) -> str:
        import openai

        structured = question.schema is not None and self._takes_schema
        messages = [{"role": "system", "content": question.system}] if question.system else []
        prompt = question.prompt if structured else with_schema(question.prompt, question.schema)
        answer = {"name": "answer", "strict": True, "schema": question.schema}
        more = {"response_format": {"type": "json_schema", "json_schema": answer}} if structured else {}
        try:
            reply = self._client().chat.completions.create(
                model=question.model,
                messages=[*messages, {"role": "user", "content": prompt}],
                timeout=timeout_s,
                **more,
            )
        except openai.APIStatusError as error:
            if structured and error.status_code in (400, 422) and "response_format" in str(error):
                self._takes_schema = False  # from now on the schema is given in words
                return self._ask(question, timeout_s)
            raise _refusal(error) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        if not reply.choices:
            raise AttemptFailed("no answer (no choices)", is_transient=True)
        choice = reply.choices[0]
        if choice.message.content:
            return str(choice.message.content)
        raise AttemptFailed(f"no answer ({choice.message.refusal or choice.finish_reason})")


class Anthropic(RemoteModel):
    """Messages with structured output."""

    name = "anthropic"
    label = "Anthropic"
    small = "claude-haiku-5-5"
    large = "claude-sonnet-5-5"

    def _connect(self) -> Any:
        import anthropic

        return anthropic.Anthropic(api_key=self._key, base_url=self._base_url, max_retries=0)

    def _ask(self, question: Question, timeout_s: float) -> str:
        import anthropic

        more: dict[str, Any] = {"system": question.system} if question.system else {}
        if question.schema is not None:
            more["output_config"] = {"format": {"type": "json_schema", "schema": dict(question.schema)}}
        try:
            reply = self._client().messages.create(
                model=question.model,
                max_tokens=_MAX_TOKENS["large"],
                messages=[{"role": "user", "content": question.prompt}],
                timeout=timeout_s,
                **more,
            )
        except anthropic.APIStatusError as error:
            raise _refusal(error) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        text = "".join(block.text for block in reply.content if block.type == "text")
        if not text or reply.stop_reason == "max_tokens":
            raise AttemptFailed(f"no answer ({reply.stop_reason})")
        return text


def _refusal(error: Any) -> AttemptFailed:
    """The failure for an HTTP status; OpenAI's SDK unwraps the body's `error`, Anthropic's does not."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    message = (inner if isinstance(inner, dict) else body).get("message") or error.message
    return status_failure(error.status_code, str(message), error.response.headers.get("retry-after"))


# --- the client's own model, by MCP sampling -------------------------------------------------------------


_ASKED_TWICE = Retry(attempts=2, first_wait_s=0.0)


class Sampling:
    name = "sampling"
    label = "Sampling"

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def answer(self, prompt: str, schema: Mapping[str, Any] | None, *, size: str = "small", system: str = "") -> Any:
        """The answer as text, or as an object that matches the schema; asks once more if it does not match."""
        asked = with_schema(prompt, schema)

        def attempt(left_s: float) -> Any:
            text = self._sampler(asked, system=system or None, max_tokens=_MAX_TOKENS.get(size, 1024))
            return read_answer(text, schema)

        try:
            return _ASKED_TWICE.call(attempt)
        except Cancelled:
            raise
        except RefdeskError as error:
            raise failed(self.label, str(error)) from error
