"""RefDesk's static embedding model."""

from __future__ import annotations

from refdesk.embed.wordllama import WordllamaEmbedder


class StaticEmbedder(WordllamaEmbedder):
    """The embedder that needs no key, no download and no GPU."""
