"""Google's Gemini, through Google's SDK."""

from __future__ import annotations

from typing import Any

from refdesk.llm.attempts import Failed
from refdesk.llm.remote import Question, RemoteModel, lost_failure, status_failure


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
            raise status_failure(error.code, error.message or str(error.status), _wait(error)) from error
        except Exception as error:
            raise lost_failure(error, timeout_s) from error
        if reply.text:
            return str(reply.text)
        candidate = reply.candidates[0] if reply.candidates else None
        reason = candidate.finish_reason if candidate else getattr(reply.prompt_feedback, "block_reason", None)
        raise Failed(f"no answer ({getattr(reason, 'name', reason) or 'empty'})")


def _wait(error: Any) -> str | None:
    headers = getattr(error.response, "headers", None)
    if headers and (after := headers.get("retry-after")):
        return str(after)
    details = error.details.get("error", {}).get("details", []) if isinstance(error.details, dict) else []
    delays = (str(each["retryDelay"]) for each in details if isinstance(each, dict) and each.get("retryDelay"))
    return next((delay.removesuffix("s") for delay in delays), None)
