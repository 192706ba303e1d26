"""Which model a call gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk.errors import SettingsError
from refdesk.llm import thinkers as module
from refdesk.llm.models import RemoteModel, Sampling
from refdesk.llm.thinkers import LocalThinker, Models
from refdesk.settings import Settings, load
from tests.unit.llm.test_sampling import Client


def settings(tmp_path: Path, **environ: str) -> Settings:
    return load(environ=environ, cwd=tmp_path)


def chosen(settings: Settings, sampler: Client | None = None) -> str:
    model = Models(settings).choose(sampler)
    return model.name if model else "local"


def test_auto_takes_what_has_a_key_then_the_client_then_none(tmp_path: Path) -> None:
    assert chosen(settings(tmp_path)) == "local"
    assert chosen(settings(tmp_path), Client()) == "sampling"
    assert chosen(settings(tmp_path, ANTHROPIC_API_KEY="a"), Client()) == "anthropic"
    assert chosen(settings(tmp_path, ANTHROPIC_API_KEY="a", OPENAI_API_KEY="o")) == "openai"
    assert chosen(settings(tmp_path, OPENAI_BASE_URL="http://127.0.0.1:11434/v1")) == "openai"
    assert chosen(settings(tmp_path, OPENAI_API_KEY="o", GOOGLE_API_KEY="g")) == "gemini"
    assert chosen(settings(tmp_path, GEMINI_API_KEY="g"), Client()) == "gemini"


def test_auto_passes_over_a_vendor_whose_sdk_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: name if name == "anthropic" else None)
    assert chosen(settings(tmp_path, OPENAI_API_KEY="o")) == "local"
    assert chosen(settings(tmp_path, OPENAI_API_KEY="o", ANTHROPIC_API_KEY="a")) == "anthropic"


def test_a_named_model_is_taken_or_refused(tmp_path: Path) -> None:
    assert chosen(settings(tmp_path, REFDESK_LLM="local", GEMINI_API_KEY="g"), Client()) == "local"
    assert chosen(settings(tmp_path, REFDESK_LLM="anthropic", GEMINI_API_KEY="g", ANTHROPIC_API_KEY="a")) == "anthropic"
    with pytest.raises(SettingsError, match="GEMINI_API_KEY is not set"):
        chosen(settings(tmp_path, REFDESK_LLM="gemini"))
    with pytest.raises(SettingsError, match="offers no sampling"):
        chosen(settings(tmp_path, REFDESK_LLM="sampling"))
    with pytest.raises(SettingsError, match="llm can't be 'gpt'"):
        settings(tmp_path, REFDESK_LLM="gpt")


def test_a_model_is_made_once_and_with_the_settings(tmp_path: Path) -> None:
    models = Models(settings(tmp_path, GEMINI_API_KEY="g", REFDESK_LLM_SMALL_MODEL="s", REFDESK_LLM_TIMEOUT_S="7"))
    model = models.choose()
    assert models.choose(Client()) is model
    assert isinstance(model, RemoteModel)
    assert (model._key, model.small, model._timeout_s) == ("g", "s", 7.0)
    models.close()


def test_keys_are_read_from_the_environment_only_and_never_shown(tmp_path: Path) -> None:
    found = settings(tmp_path, OPENAI_API_KEY="sk-very-secret")
    assert found.openai_api_key == "sk-very-secret"
    assert "very-secret" not in repr(found)
    (tmp_path / "refdesk.toml").write_text('openai_api_key = "sk-very-secret"\n')
    with pytest.raises(SettingsError, match="Unknown setting"):
        settings(tmp_path)


def test_models_keep_the_local_thinker(tmp_path: Path) -> None:
    models = Models(settings(tmp_path))
    local = models.thinker()
    assert isinstance(local, LocalThinker)
    assert models.thinker() is local
    assert models.thinker(Client()).name == Sampling.name
