"""Which playbooks belong among the hits of a search over everything?"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from refdesk import tokens
from refdesk.errors import StoreError
from refdesk.model import Chunk, Document, Hit, Page, Query, StoredChunk
from refdesk.ports import Embedder

if TYPE_CHECKING:  # most libraries have no playbooks: nothing is imported for them
    from refdesk.skills.learn import Learner
    from refdesk.skills.model import Skill
    from refdesk.skills.store import SkillStore

COLLECTION, KIND = "playbooks", "playbook"


class Playbooks:
    """The playbooks of one library, opened when they are first asked and there are any."""

    def __init__(self, opened: Callable[[], SkillStore | None], embedder: Callable[[], Embedder | None]) -> None:
        self._opened = opened
        self._embedder = embedder
        self._mutex = threading.Lock()
        self._store: SkillStore | None = None
        self._learner: Learner | None = None

    def joined(self, query: Query, search: Callable[[Query], Page]) -> Page:
        """The page of a search with the playbooks that are about the query, each before the hits that score less."""
        try:
            found = self._about(query.text)
        except StoreError as error:
            page = search(query)
            return replace(page, notes=(*page.notes, f"playbooks were not searched: {error.message}"))
        if not found:
            return search(query)
        # A page of the joined list begins up to so many hits earlier in the list without playbooks.
        offset = max(0, query.offset - len(found))
        page = search(replace(query, offset=offset, limit=query.limit + len(found)))
        hits = list(page.hits)
        for one in found:
            hits.insert(next((at for at, hit in enumerate(hits) if hit.score < one.score), len(hits)), one)
        first = query.offset - offset
        shown = tuple(hits[first : first + query.limit])
        return replace(page, hits=shown, more=page.more or len(hits) > first + query.limit)

    def close(self) -> None:
        if self._learner is not None and self._store is not None:
            self._learner.close()
            self._store.close()

    def _about(self, text: str) -> list[Hit]:
        with self._mutex:
            if self._learner is None:
                self._store = self._opened()
                if self._store is None:
                    return []
                from refdesk.skills.learn import Learner

                self._learner = Learner(self._store, self._embedder)
        return [_hit(number, skill, score) for number, (skill, score) in enumerate(self._learner.about(text), 1)]


def _hit(number: int, skill: Skill, score: float) -> Hit:
    """The playbook as a passage of a document, which is how everything else is shown."""
    when = int(datetime.fromisoformat(skill.updated_at).timestamp() * 1000)
    document = Document(
        id=skill.skill_id,
        collection=COLLECTION,
        uri=f"{KIND}:{skill.skill_id}",
        path=skill.skill_id,
        title=skill.title,
        content_type="markdown",
        content_hash="",
        size=len(skill.resolution_md),
        modified_ns=0,
        created_at=when,
        updated_at=when,
    )
    chunk = Chunk(
        text=skill.resolution_md,
        kind=KIND,
        type="prose",
        language="markdown",
        start_line=0,
        end_line=0,
        tokens=tokens.pieces(skill.resolution_md),
        key="",
        title=skill.title,
    )
    stored = StoredChunk(id=-number, index=0, document=document, chunk=chunk)
    return Hit(stored=stored, score=round(score, 4), snippet=skill.problem, snippet_line=0)
