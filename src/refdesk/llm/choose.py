"""Which model thinks?  The one that is set; with `auto` one that has a key, else the client's own, else none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from refdesk.errors import SettingsError
from refdesk.llm.remote import Access, RemoteModel, Sampler, Sampling
from refdesk.llm.thinkers import LocalThinker, PromptedThinker
from refdesk.ports import Embedder, Llm
from refdesk.settings import Settings
from refdesk.skills.judge import Thinker

CHOICES = ("gemini", "openai", "anthropic", "sampling", "local", "auto")


# Each vendor's class in `vendors`, where its SDK is, and which variable its key has; in the order auto looks.
_VENDORS: Mapping[str, tuple[str, str, str]] = {
    "gemini": ("Gemini", "google.genai", "GEMINI_API_KEY"),
    "openai": ("OpenAi", "openai", "OPENAI_API_KEY"),
    "anthropic": ("Anthropic", "anthropic", "ANTHROPIC_API_KEY"),
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
                self._made[wanted] = self._make(wanted)
            return self._made[wanted]

    def close(self) -> None:
        """Closes the vendors' connections."""
        with self._lock:
            made, self._made = self._made, {}
        for model in made.values():
            model.close()

    def _make(self, vendor: str) -> RemoteModel:
        from refdesk.llm import vendors

        settings = self._settings
        access = Access(
            key=getattr(settings, f"{vendor}_api_key"),
            base_url=getattr(settings, f"{vendor}_base_url"),
            small=settings.llm_small_model,
            large=settings.llm_large_model,
            timeout_s=settings.llm_timeout_s,
        )
        model: RemoteModel = getattr(vendors, _VENDORS[vendor][0])(access)
        return model

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
