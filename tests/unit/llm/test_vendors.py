"""The vendors' real SDKs against endpoints that speak their wire formats and fail in their ways."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from refdesk.errors import LlmError, SettingsError
from refdesk.llm.models import Anthropic, Gemini, OpenAi, RemoteModel
from refdesk.system.retry import Retry
from tests.unit.llm.endpoints import Endpoint, Reply, endpoint, settings_for

KINDS: dict[str, type[RemoteModel]] = {"gemini": Gemini, "openai": OpenAi, "anthropic": Anthropic}
LABELS = {"gemini": "Gemini", "openai": "OpenAI", "anthropic": "Anthropic"}
SCHEMA = {
    "type": "object",
    "properties": {"skill_id": {"type": "string"}},
    "required": ["skill_id"],
    "additionalProperties": False,
}
GOOD = Reply(json.dumps({"skill_id": "a1"}))
KEY = "test-key-0123456789"

pytestmark = [
    pytest.mark.parametrize("vendor", list(KINDS)),
    # The SDKs are not ours; what they deprecate is not for these tests.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@contextmanager
def model(vendor: str, *replies: Reply, **more: object) -> Iterator[tuple[RemoteModel, Endpoint]]:
    with endpoint(vendor, *replies) as state:
        settings = settings_for(vendor, state.url, KEY, **{"llm_timeout_s": 20.0, **more})
        made = KINDS[vendor](settings, Retry(first_wait_s=0.02))
        try:
            yield made, state
        finally:
            made.close()


def test_an_object_by_schema_from_the_small_model_or_the_large(vendor: str) -> None:
    with model(vendor, GOOD, llm_small_model="tiny-1", llm_large_model="huge-1") as (llm, asked):
        assert llm.answer("which?", SCHEMA, system="Be exact.") == {"skill_id": "a1"}
        llm.answer("which?", SCHEMA, size="large")
        assert llm.answer("just say", None) == '{"skill_id": "a1"}'
    first, second, plain = asked.requests
    assert "tiny-1" in json.dumps(first) + asked.paths[0]
    assert "huge-1" in json.dumps(second) + asked.paths[1]
    assert "Be exact." in json.dumps(first)
    schema = {
        "gemini": lambda sent: sent["generationConfig"]["responseJsonSchema"],
        "openai": lambda sent: sent["response_format"]["json_schema"]["schema"],
        "anthropic": lambda sent: sent["output_config"]["format"]["schema"],
    }[vendor](first)
    assert schema == SCHEMA
    assert "skill_id" not in json.dumps(plain)
    assert KEY in json.dumps(asked.sent_headers[0])


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(vendor: str, status: int) -> None:
    with model(vendor, Reply(status=status, message="busy"), GOOD) as (llm, asked):
        assert llm.answer("?", SCHEMA) == {"skill_id": "a1"}
    assert len(asked.requests) == 2


def test_the_wait_that_the_server_asks_for_is_kept(vendor: str) -> None:
    with model(vendor, Reply(status=429, message="slow down", headers={"retry-after": "1"}), GOOD) as (llm, asked):
        assert llm.answer("?", SCHEMA) == {"skill_id": "a1"}
    assert asked.times[1] - asked.times[0] >= 1.0


def test_a_wait_beyond_the_budget_is_not_begun(vendor: str) -> None:
    patient = Reply(status=429, message="quota exceeded", headers={"retry-after": "3600"})
    with model(vendor, patient, llm_timeout_s=5.0) as (llm, asked), pytest.raises(LlmError, match=r"quota exceeded"):
        llm.answer("?", SCHEMA)
    assert len(asked.requests) == 1


def test_errors_are_in_the_contracts_words(vendor: str) -> None:
    broken = Reply(status=500, message="backend on fire")
    with model(vendor, broken) as (llm, asked), pytest.raises(LlmError) as caught:
        llm.answer("?", SCHEMA)
    assert str(caught.value) == f"{LABELS[vendor]} API error: 500 backend on fire. Retry or resolve from scratch."
    assert len(asked.requests) == 4


def test_a_wrong_key_is_not_tried_again_and_not_shown(vendor: str) -> None:
    refused = Reply(status=401, message=f"bad key {KEY}")
    with model(vendor, refused) as (llm, asked), pytest.raises(LlmError) as caught:
        llm.answer("?", SCHEMA)
    assert len(asked.requests) == 1
    assert KEY not in str(caught.value)
    assert "401 bad key [key]" in str(caught.value)


def test_a_silent_server_is_left_when_the_budget_is_spent(vendor: str) -> None:
    told = rf"{LABELS[vendor]} API error: timeout.*Retry or resolve from scratch\."
    with model(vendor, Reply(hang_s=30), llm_timeout_s=1.2) as (llm, _), pytest.raises(LlmError, match=told):
        llm.answer("?", SCHEMA)


def test_no_server_at_all(vendor: str) -> None:
    gone = KINDS[vendor](settings_for(vendor, "http://127.0.0.1:9", KEY, llm_timeout_s=5.0), Retry(first_wait_s=0.01))
    with pytest.raises(LlmError, match=f"{LABELS[vendor]} API error: "):
        gone.answer("?", SCHEMA)
    gone.close()


@pytest.mark.parametrize("broken", ['{"skill_id": "a1"', "I would say a1.", '{"skill": "a1"}', "[]"])
def test_an_answer_that_does_not_fit_is_asked_for_again(vendor: str, broken: str) -> None:
    with model(vendor, Reply(broken), GOOD) as (llm, asked):
        assert llm.answer("?", SCHEMA) == {"skill_id": "a1"}
    assert len(asked.requests) == 2
    with model(vendor, Reply(broken)) as (llm, asked), pytest.raises(LlmError, match="answer"):
        llm.answer("?", SCHEMA)


def test_an_answer_in_a_fence_is_read(vendor: str) -> None:
    with model(vendor, Reply('Sure!\n```json\n{"skill_id": "a1"}\n```\n')) as (llm, _):
        assert llm.answer("?", SCHEMA) == {"skill_id": "a1"}


def test_a_body_that_is_not_the_vendors(vendor: str) -> None:
    with model(vendor, Reply(raw="<html>gateway</html>")) as (llm, _), pytest.raises(LlmError, match=LABELS[vendor]):
        llm.answer("?", SCHEMA)


def test_a_missing_sdk_names_its_extra(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = {"gemini": "google.genai", "openai": "openai", "anthropic": "anthropic"}[vendor]
    for name in [each for each in sys.modules if each == module or each.startswith(module + ".")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    if vendor == "gemini" and "google" in sys.modules:
        monkeypatch.delattr(sys.modules["google"], "genai", raising=False)
    with pytest.raises(SettingsError, match=rf"refdesk\[{vendor}\]"):
        KINDS[vendor](settings_for(vendor, "", KEY)).answer("?", SCHEMA)


def test_the_adapter_imports_without_its_sdk(vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = {"gemini": "google.genai", "openai": "openai", "anthropic": "anthropic"}[vendor]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, KINDS[vendor].__module__)
    assert importlib.import_module(KINDS[vendor].__module__)
