"""OpenAI and whatever speaks its protocol: Ollama, vLLM, LM Studio, a gateway."""

from __future__ import annotations

from typing import Any

from refdesk.llm.attempts import Failed
from refdesk.llm.remote import Question, RemoteModel, lost_failure, status_failure, with_schema


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
            raise status_failure(
                error.status_code, _message(error), error.response.headers.get("retry-after")
            ) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        return _text(reply)


def _format(question: Question) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": question.schema}}


def _message(error: Any) -> str:
    body = error.body if isinstance(error.body, dict) else {}
    return str(body.get("message") or error.message)


def _text(reply: Any) -> str:
    choice = reply.choices[0] if reply.choices else None
    if choice is None:
        raise Failed("no answer (no choices)", again=True)
    if choice.message.content:
        return str(choice.message.content)
    raise Failed(f"no answer ({choice.message.refusal or choice.finish_reason})")
