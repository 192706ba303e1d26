"""The client's own model."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from refdesk.errors import Cancelled, ClientCannot, LlmError
from refdesk.llm.models import Sampling

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass
class Client:
    """A client that says what it is told to, in turn."""

    replies: list[str | Exception] = field(default_factory=lambda: list[str | Exception](['{"n": 1}']))
    asked: list[tuple[str, str | None, int]] = field(default_factory=list)

    def __call__(self, prompt: str, *, system: str | None = None, max_tokens: int = 1024) -> str:
        self.asked.append((prompt, system, max_tokens))
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_the_schema_is_asked_for_in_words_and_checked() -> None:
    client = Client(['Here you go: ```json\n{"n": 2}\n```'])
    assert Sampling(client).answer("count", SCHEMA, system="Be brief.") == {"n": 2}
    prompt, system, _ = client.asked[0]
    assert prompt.startswith("count")
    assert '"required": ["n"]' in prompt
    assert system == "Be brief."


def test_a_broken_answer_is_asked_for_once_more() -> None:
    client = Client(["no idea", '{"n": 3}'])
    assert Sampling(client).answer("count", SCHEMA) == {"n": 3}
    with pytest.raises(LlmError, match=r"Sampling API error: the answer is not valid JSON.*from scratch\."):
        Sampling(Client(["no idea"])).answer("count", SCHEMA)


def test_a_client_that_cannot_and_a_call_that_was_cancelled() -> None:
    with pytest.raises(LlmError, match=r"Sampling API error: The user said no\. Retry"):
        Sampling(Client([ClientCannot("The user said no.")])).answer("count", SCHEMA)
    with pytest.raises(Cancelled):
        Sampling(Client([Cancelled("stop")])).answer("count", SCHEMA)


def test_a_large_task_gets_room_to_answer() -> None:
    client = Client()
    Sampling(client).answer("count", SCHEMA, size="large")
    assert client.asked[0][2] >= 4096
