"""Gemini, OpenAI and whatever speaks its protocol, and Anthropic: each through its own SDK, imported when used."""

from __future__ import annotations

from typing import Any

from refdesk.errors import AttemptFailed
from refdesk.llm.remote import Question, RemoteModel, lost_failure, status_failure, with_schema


class Gemini(RemoteModel):
    """A small Gemini judges, a large one extracts."""

    name = "gemini"
    label = "Gemini"
    small = "gemini-flash-latest"
    large = "gemini-pro-latest"

    def _connect(self) -> Any:
        from google import genai

        # One attempt: the waiting is ours, since the SDK's own does not heed what the server asks for.
        options = genai.types.HttpOptions(
            base_url=self._access.base_url or None, retry_options=genai.types.HttpRetryOptions(attempts=1)
        )
        return genai.Client(api_key=self._access.key, vertexai=False, http_options=options)

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

        # A local endpoint asks for no key, but the SDK does.
        return openai.OpenAI(api_key=self._access.key or "none", base_url=self._access.base_url or None, max_retries=0)

    def _ask(self, question: Question, timeout_s: float) -> str:
        import openai

        structured = question.schema is not None and self._takes_schema
        messages = [{"role": "system", "content": question.system}] if question.system else []
        prompt = question.prompt if structured else with_schema(question)
        more: dict[str, Any] = {"response_format": _format(question)} if structured else {}
        try:
            reply = self._client().chat.completions.create(
                model=question.model,
                messages=[*messages, {"role": "user", "content": prompt}],
                timeout=timeout_s,
                **more,
            )
        except openai.APIStatusError as error:
            if structured and error.status_code in (400, 422) and "response_format" in str(error):
                self._takes_schema = False  # an endpoint that knows no schemas is told in words from now on
                return self._ask(question, timeout_s)
            raise _refusal(error) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        return _text(reply)


def _format(question: Question) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": question.schema}}


def _text(reply: Any) -> str:
    choice = reply.choices[0] if reply.choices else None
    if choice is None:
        raise AttemptFailed("no answer (no choices)", is_transient=True)
    if choice.message.content:
        return str(choice.message.content)
    raise AttemptFailed(f"no answer ({choice.message.refusal or choice.finish_reason})")


_MAX_TOKENS = 8192


class Anthropic(RemoteModel):
    """Messages with structured output."""

    name = "anthropic"
    label = "Anthropic"
    small = "claude-haiku-5-5"
    large = "claude-sonnet-5-5"

    def _connect(self) -> Any:
        import anthropic

        return anthropic.Anthropic(api_key=self._access.key, base_url=self._access.base_url or None, max_retries=0)

    def _ask(self, question: Question, timeout_s: float) -> str:
        import anthropic

        more: dict[str, Any] = {"system": question.system} if question.system else {}
        if question.schema is not None:
            more["output_config"] = {"format": {"type": "json_schema", "schema": dict(question.schema)}}
        try:
            reply = self._client().messages.create(
                model=question.model,
                max_tokens=_MAX_TOKENS,
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
    """The failure behind an HTTP status; OpenAI's SDK unwraps the body's `error`, Anthropic's does not."""
    body = error.body if isinstance(error.body, dict) else {}
    inner = body.get("error")
    message = (inner if isinstance(inner, dict) else body).get("message") or error.message
    return status_failure(error.status_code, str(message), error.response.headers.get("retry-after"))
