"""Where are skills kept?  The port, what can go wrong behind it, and how long one waits for a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from refdesk.errors import RefdeskError, StoreError
from refdesk.skills.model import Outcome, Skill, SkillUpdate

T = TypeVar("T")

TOP_K = 5
DUPLICATE = 0.95
SERVER_TIMEOUT_S = 5.0
_HEADROOM_S = 0.2  # so that the caller has the answer within the timeout, not at it


class ConnectionFailed(StoreError):
    """A store's server can't be reached."""


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a skill and when it was made."""

    skill: Skill
    made_at: str


class SkillStore(Protocol):
    """Where skills are kept; it never computes a vector.  The first five functions are the skills contract's."""

    async def hybrid_search(
        self, query_embedding: list[float], query_text: str, top_k: int = TOP_K
    ) -> list[dict[str, Any]]:
        """`{"skill": Skill, "score": float}`, best first, by words and by vector."""

    async def create_skill(self, skill: Skill) -> Skill: ...
    async def get_skill(self, skill_id: str) -> Skill | None: ...
    async def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        """The skill at its next version; SkillNotFound (a ValueError), StaleSkill where a version was expected."""

    async def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        """The skill most similar to the vector, if it is more similar than the threshold."""

    async def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        """The skill with its confidence and counts moved; no new version."""

    async def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]: ...
    async def history(self, skill_id: str) -> list[Revision]:
        """Every version, the first one first; SkillNotFound."""

    async def embedded_by(self) -> str:
        """Which embedder made the vectors, "" when none was named yet."""

    async def replace_embeddings(self, embedder: str, vectors: Mapping[str, Sequence[float]]) -> None:
        """Gives skills new vectors and names the embedder that made them; no new versions."""

    def close(self) -> None: ...


class ServerStore:
    """A store with a server behind it: whatever hangs or can't connect becomes ConnectionFailed in time.

    `failures` are what the server's driver raises when it has no connection.
    """

    def __init__(
        self,
        store: SkillStore,
        timeout_s: float = SERVER_TIMEOUT_S,
        failures: tuple[type[Exception], ...] = (OSError,),
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._failures = failures

    async def hybrid_search(
        self, query_embedding: list[float], query_text: str, top_k: int = TOP_K
    ) -> list[dict[str, Any]]:
        return await self._bounded(lambda: self._store.hybrid_search(query_embedding, query_text, top_k))

    async def create_skill(self, skill: Skill) -> Skill:
        return await self._bounded(lambda: self._store.create_skill(skill))

    async def get_skill(self, skill_id: str) -> Skill | None:
        return await self._bounded(lambda: self._store.get_skill(skill_id))

    async def update_skill(self, skill_id: str, updates: SkillUpdate) -> Skill:
        return await self._bounded(lambda: self._store.update_skill(skill_id, updates))

    async def check_duplicate(self, embedding: list[float], threshold: float = DUPLICATE) -> Skill | None:
        return await self._bounded(lambda: self._store.check_duplicate(embedding, threshold))

    async def record_outcome(self, skill_id: str, outcome: Outcome) -> Skill:
        return await self._bounded(lambda: self._store.record_outcome(skill_id, outcome))

    async def list_skills(self, limit: int = 100, offset: int = 0) -> list[Skill]:
        return await self._bounded(lambda: self._store.list_skills(limit, offset))

    async def history(self, skill_id: str) -> list[Revision]:
        return await self._bounded(lambda: self._store.history(skill_id))

    async def embedded_by(self) -> str:
        return await self._bounded(self._store.embedded_by)

    async def replace_embeddings(self, embedder: str, vectors: Mapping[str, Sequence[float]]) -> None:
        await self._bounded(lambda: self._store.replace_embeddings(embedder, vectors))

    def close(self) -> None:
        self._store.close()

    async def _bounded(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            return await asyncio.wait_for(call(), max(0.05, self._timeout_s - _HEADROOM_S))
        except TimeoutError:
            detail = f"timeout after {self._timeout_s:g}s"
        except RefdeskError:
            raise
        except self._failures as error:
            detail = str(error) or type(error).__name__
        raise ConnectionFailed(f"Database connection failed: {detail}")
