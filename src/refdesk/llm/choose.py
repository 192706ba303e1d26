"""Which model thinks?  The one that is set; with `auto` one that has a key, else the client's own, else none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from refdesk.errors import SettingsError
from refdesk.llm.local import LocalThinker
from refdesk.llm.playbooks import PromptedThinker
from refdesk.llm.remote import Access, RemoteModel
from refdesk.llm.sampling import Sampler, Sampling
from refdesk.ports import Embedder, Llm
from refdesk.settings import Settings
from refdesk.skills.judge import Thinker

CHOICES = ("gemini", "openai", "anthropic", "sampling", "local", "auto")


def _gemini(settings: Settings) -> RemoteModel:
    from refdesk.llm.gemini import Gemini

    return Gemini(_access(settings, settings.gemini_api_key, settings.gemini_base_url))


def _openai(settings: Settings) -> RemoteModel:
    from refdesk.llm.openai import OpenAi

    return OpenAi(_access(settings, settings.openai_api_key, settings.openai_base_url))


def _anthropic(settings: Settings) -> RemoteModel:
    from refdesk.llm.anthropic import Anthropic

    return Anthropic(_access(settings, settings.anthropic_api_key, settings.anthropic_base_url))


# What each vendor's model is made by, where its SDK is, and which variable its key has; in the order auto looks.
_VENDORS: Mapping[str, tuple[Callable[[Settings], RemoteModel], str, str]] = {
    "gemini": (_gemini, "google.genai", "GEMINI_API_KEY"),
    "openai": (_openai, "openai", "OPENAI_API_KEY"),
    "anthropic": (_anthropic, "anthropic", "ANTHROPIC_API_KEY"),
}


class Models:
    """The models that the settings name, each made once."""

    def __init__(self, settings: Settings) -> None:
        if settings.llm not in CHOICES:
            raise SettingsError(f"There is no language model {settings.llm!r}.", f"Take one of {', '.join(CHOICES)}.")
        self._settings = settings
        self._lock = threading.Lock()
        self._made: dict[str, RemoteModel] = {}

    def choose(self, sampler: Sampler | None = None) -> Llm | None:
        """The model for a call whose client may offer its own; None is `local`, which has no model."""
        wanted = self._settings.llm
        if wanted == "auto":
            wanted = next(filter(self._is_ready, _VENDORS), "sampling" if sampler is not None else "local")
        if wanted == "local":
            return None
        if wanted == "sampling":
            if sampler is None:
                raise SettingsError(
                    "The client offers no sampling.", "Set REFDESK_LLM to local, or to a vendor whose key is set."
                )
            return Sampling(sampler)
        if not self._has_key(wanted):
            raise SettingsError(
                f"REFDESK_LLM is {wanted}, but {_VENDORS[wanted][2]} is not set.",
                "Set it, or set REFDESK_LLM to local.",
            )
        with self._lock:
            if wanted not in self._made:
                self._made[wanted] = _VENDORS[wanted][0](self._settings)
            return self._made[wanted]

    def close(self) -> None:
        """Closes the vendors' connections."""
        with self._lock:
            made, self._made = self._made, {}
        for model in made.values():
            model.close()

    def _has_key(self, vendor: str) -> bool:
        settings = self._settings
        # An OpenAI-compatible endpoint on one's own machine has no key, so its address will do.
        keys = {"gemini": settings.gemini_api_key, "anthropic": settings.anthropic_api_key}
        return bool(keys.get(vendor, settings.openai_api_key or settings.openai_base_url))

    def _is_ready(self, vendor: str) -> bool:
        # A key that lies around for other programs must not break a RefDesk without that vendor's SDK.
        return self._has_key(vendor) and _is_installed(_VENDORS[vendor][1])


class Thinkers:
    """Who judges, extracts and refines playbooks, for each call."""

    def __init__(self, models: Models, embedder: Callable[[], Embedder | None]) -> None:
        self._models = models
        self._embedder = embedder
        self._local: LocalThinker | None = None

    def choose(self, sampler: Sampler | None = None) -> Thinker:
        """A thinker with the model that the call gets, or the one that needs none."""
        if (model := self._models.choose(sampler)) is not None:
            return PromptedThinker(model)
        if self._local is None:
            self._local = LocalThinker(self._embedder())
        return self._local


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _access(settings: Settings, key: str, base_url: str) -> Access:
    return Access(
        key=key,
        base_url=base_url,
        small=settings.llm_small_model,
        large=settings.llm_large_model,
        timeout_s=settings.llm_timeout_s,
    )
