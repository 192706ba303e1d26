"""Anthropic's Claude, through Anthropic's SDK."""

from __future__ import annotations

from typing import Any

from refdesk.llm.attempts import Failed
from refdesk.llm.remote import Question, RemoteModel, lost_failure, status_failure

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
            raise status_failure(
                error.status_code, _message(error), error.response.headers.get("retry-after")
            ) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        text = "".join(block.text for block in reply.content if block.type == "text")
        if not text or reply.stop_reason == "max_tokens":
            raise Failed(f"no answer ({reply.stop_reason})")
        return text


def _message(error: Any) -> str:
    inner = error.body.get("error") if isinstance(error.body, dict) else None
    return str(inner.get("message")) if isinstance(inner, dict) else str(error.message)
