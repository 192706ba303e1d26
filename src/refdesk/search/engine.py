"""The read path in order: understand, look up, fuse, rerank, group by file, cut a page, show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from refdesk.model import Chunk, Countable, Filters, Hit, Origin, Page, Query
from refdesk.ports import Embedder, Store, View, WordMatching
from refdesk.search import confidence, group, rerank
from refdesk.search import lookup as fuse
from refdesk.search.group import Ranked, snippet
from refdesk.search.lookup import Candidates, LookUp, narrow, without_form
from refdesk.search.understand import QUOTED, Understood, alike, spelt
from refdesk.system.memory import gc_paused

_POOL = 120  # candidates from each index, for every page alike
_POOL_OF_COPIES = 8 * _POOL
RERANKED = 48  # candidates that are reranked
# Share of what a path's kind is worth that counts when the candidates to rerank are chosen: else tests, and docs beside
# code, take half of the places only to rank last.  Measured: +.017 of NDCG@10 by file; shares of .3 to 1 do the same.
_FIRST_SHARE = 0.4
_SPREAD = 72  # candidates among which files take turns; if hits are files, all are read, and listed in them
_PER_FILE = 3  # candidates of a file that go before those of other files; measured: +.012 of NDCG@10 by file
_PER_HIT = 3  # candidates per requested hit: copies, parts and further passages of a file are dropped
_RERANKED_BY_PATH = 24  # for a path, whose file is among the first of either index
_WEAK = "weak match: nothing here answers this for certain; read the hits as what comes nearest"
_NO_WORD = "no passage holds a word of the query, and none is near it"
_NOTHING = "nothing relevant was found; a search by keywords alone shows what shares a word with the query"
_END = "Only the best {} {}s are ranked, and these were the last of them: narrow the query or the filters."
_PHRASE = 2.0  # more than all features together: passages with the quoted phrases come first
_REPORT = 300  # characters; longer texts are found by rare words as much as by meaning
_READ = frozenset({"words", "error", "code"})  # kinds whose passages are compared word by word


class Engine:
    """Searches one store, with an optional embedder."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._matcher = embedder if isinstance(embedder, WordMatching) else None
        self._look_up = LookUp(store, embedder)

    def search(self, query: Query) -> Page:
        """The page of hits that the query asks for."""
        with gc_paused():
            return self._search(query)

    def nearest_words(self, query: Query) -> list[str]:
        """Indexed words that are spelt like the query's unknown words, a few for each."""
        return alike(self._store.view(query.filters), self._store, self._matcher, query.text)

    def tally(self, query: Query, within: Mapping[Countable, Filters], most: int) -> dict[Countable, dict[str, int]]:
        """How many passages share a word with the query, for each value of some properties, each within its filters."""
        view = self._store.view(query.filters)
        terms = narrow(view, spelt(view, self._store, query, self._matcher).asked)[0].terms
        views = {filters: self._store.view(filters) for filters in set(within.values())}
        return {of: views[filters].tally(of, terms, most) for of, filters in within.items()}

    def _search(self, query: Query) -> Page:
        view = self._store.view(query.filters)
        state = view.sequence
        if len(query.text) > _REPORT and not query.exact:
            query = replace(query, text=without_form(query.text))
        meant = spelt(view, self._store, query, self._matcher)
        query = meant.query
        asked, narrowed = narrow(view, meant.asked)
        narrowed = () if query.exact else (*meant.notes, *narrowed)  # an exact search is not corrected
        close = closely(asked)
        last = query.offset + query.limit
        wanted = max(_SPREAD if query.by == "file" and asked.kind in _READ else close, _PER_HIT * last)
        found, fused, window = self._candidates(view, query, asked, wanted)
        narrowed = (*view.notices, *narrowed)
        best, rest = self._rerank(query, asked, found, fused, window, close)
        sure = self._confidence(query, asked, found, best or rest)
        if sure is not None and sure < confidence.judgement().hidden:
            return Page(hits=(), more=False, state=state, notes=(*narrowed, *found.notes, _NOTHING), confidence=sure)
        topics: group.Topics = partial(view.topics, found.vector) if found.vector is not None else lambda _: {}
        rare = confidence.rarity(asked.terms, found.frequency, found.passages) if found.frequency else {}
        ranked = group.grouped(best, rest, asked, query.by, query.prefer, topics, rare)
        is_defined = any("definition" in one.signals for one in ranked[:1])
        way = "keywords" if not found.cosines else "name" if is_defined else asked.kind
        of_files = query.by == "file" and way == "words" and sure is not None
        # A passage with the phrase comes first, but is a certain answer only if the query is nothing but the phrase.
        held = found.held if asked.quoted and QUOTED.sub("", query.text).strip() else {}
        upto = ranked[: max(2, last)]  # the first hit is judged by its lead, whatever the limit
        scores = [one.score + of_files * one.beside - _PHRASE * held.get(one.stored.id, 0.0) for one in upto]
        for one, score in zip(upto, confidence.of_hits(scores, "files" if of_files else way, sure), strict=True):
            one.score = score
        page = upto[query.offset : last]
        why = _explanations(view, page, asked, found) if query.explain else {}
        more = len(ranked) > query.offset + query.limit
        ended = (_END.format(len(ranked), query.by),) if found.cut and not more else ()
        nothing: tuple[str, ...] = ()
        if not (ranked or query.exact or not asked.terms) and not replace(query.filters, collections=()):
            nothing = (_NO_WORD,)  # the toolsets explain filters that match nothing
        is_weak = bool(page) and sure is not None and sure < confidence.judgement().weak
        return Page(
            hits=tuple(_show(one, asked, why.get(one.stored.id, {})) for one in page),
            more=more,
            state=state,
            notes=(*narrowed, *((_WEAK,) if is_weak else ()), *found.notes, *nothing, *ended),
            confidence=sure,
            weak=is_weak,
        )

    def _candidates(
        self, view: View, query: Query, asked: Understood, wanted: int
    ) -> tuple[Candidates, list[float], list[int]]:
        """The candidates, their scores at first sight, and the best `wanted` of distinct texts in order.

        If most of them are copies of each other, as in worktrees of one repository, more are looked up. The test uses
        the same candidates for every page. If hits are files and the best ones are of too few, those of others follow.
        """
        of_path = group.path_worth(rerank.unasked_places(asked.terms), query.prefer)
        for pool in (_POOL, _POOL_OF_COPIES):
            found = self._look_up.find(view, query, asked, pool)
            kind = "report" if len(query.text) > _REPORT else asked.kind
            seen = _fuse(query, found, rerank.weights().window[kind])
            origins = view.origins(found.ids)
            owners = list(map(origins.get, found.ids))
            if asked.kind in _READ:
                seen = [
                    score + _FIRST_SHARE * of_path(one.path) if one is not None else score
                    for one, score in zip(owners, seen, strict=True)
                ]
            ordered = [(at, owners[at]) for at in fuse.order(seen, found.ids)]
            if len(query.filters.collections) == 1 and not query.exact:
                ordered = group.in_one_language(ordered, asked)
            window = in_turn(ordered, _SPREAD if asked.kind in _READ else 0, max(wanted, RERANKED + 1))
            if len(window) > RERANKED or len(seen) < _POOL:
                break
        first = window[:wanted]
        if query.by == "file" and len(first) == wanted:
            own = {origins[found.ids[at]].document: origins[found.ids[at]].path for at in first}
            if len({group.page_of(path) or path for path in own.values()}) <= query.offset + query.limit:
                every = in_turn(ordered, _SPREAD if asked.kind in _READ else 0, len(ordered))
                first += [at for at in every[wanted:] if origins[found.ids[at]].document not in own]
        return found, seen, first

    def _rerank(
        self,
        query: Query,
        asked: Understood,
        found: Candidates,
        fused: Sequence[float],
        window: Sequence[int],
        closely: int,
    ) -> tuple[list[Ranked], list[Ranked]]:
        """The reranked candidates, best first, and the others in their order."""
        ids = found.ids
        stored = self._store.chunks([ids[at] for at in window])
        there = [at for at in window if ids[at] in stored]  # another process may have removed some since
        scores = _fuse(query, found, rerank.weights().blend[asked.kind], there[:closely])
        close = [Ranked(stored[ids[at]], score) for at, score in zip(there, scores, strict=False)]
        matcher = self._matcher if found.cosines and asked.kind in _READ else None
        counting = rerank.weighing(with_words=matcher is not None)
        known = rerank.values([one.stored for one in close], scores, asked, query.text, matcher, counting)
        for one, values in zip(close, known, strict=True):
            one.signals = rerank.gains(values, counting) if query.explain else values
            one.words = values.get("words", values.get("prose words", 0.0))
            one.heading = values.get("heading words", values.get("prose heading words", 0.0))
            one.score = one.fused + sum([counting[name] * values[name] for name in values if name in counting])
        close.sort(key=lambda one: (-one.score, one.stored.id))
        rest = [Ranked(stored[ids[at]], fused[at], fused[at]) for at in there[closely:]]
        return close, rest

    def _confidence(self, query: Query, asked: Understood, found: Candidates, ranked: Sequence[Ranked]) -> float | None:
        """The probability that something relevant was found; None if it can't be judged."""
        matcher = self._matcher
        if query.exact or query.alpha == 1.0 or not found.cosines or matcher is None or not confidence.is_judged(asked):
            return None
        if any("definition" in one.signals for one in ranked[:1]):
            return 1.0
        sense = confidence.sense(asked, found.frequency, matcher.knows_word)
        sure = confidence.of_words(asked, found.frequency, sense)
        if sure is not None or asked.kind != "words":
            return sure
        known, learned = evidence(asked, found, ranked, sense), confidence.judgement()
        least = learned.weak if any(one.stored.id in found.held for one in ranked[:1]) else 0.0
        if not group.is_english(asked) and known["covered"]:
            # The model knows English alone, and a name in the question may be all that counts.
            least = max(least, learned.hidden)
        if found.passages <= confidence.FEW and known["covered"]:
            is_said = known["covered"] == 1.0 and len(asked.terms) > 1
            is_about = any(
                rerank.is_prose(one.stored) and (is_said or confidence.names(one.stored, asked)) for one in ranked[:1]
            )
            least = max(least, learned.weak if is_about else learned.hidden)
        return max(confidence.confidence(known), least)


def evidence(asked: Understood, found: Candidates, ranked: Sequence[Ranked], sense: float) -> dict[str, float]:
    """The features by which confidence is judged."""
    best = ranked[: confidence.LOOKED_AT]
    return {
        "similarity": max(found.nearest[:1], default=0.0),
        "covered": confidence.covered([one.stored for one in best], asked.terms, found.frequency, found.passages),
        "sense": sense,
        **confidence.usual(asked.terms, found.frequency, found.passages),
        "words": max((one.words for one in best), default=0.0),
        "heading": max((one.heading for one in best), default=0.0),
    }


def closely(asked: Understood) -> int:
    """The number of candidates to rerank."""
    return _RERANKED_BY_PATH if asked.kind == "path" else RERANKED


def in_turn(ordered: Sequence[tuple[int, Origin | None]], spread: int, most: int) -> list[int]:
    """The first candidates with distinct texts, at most `most` beyond `spread`.

    Of the best `spread`, those beyond a document's first few are last.
    """
    owners: dict[int, Origin] = {}
    texts: set[int] = set()
    for at, origin in ordered:
        if origin is not None and origin.text not in texts:  # None: removed by another process since the lookup
            texts.add(origin.text)
            owners[at] = origin
            if len(owners) >= most and len(owners) >= spread:
                break
    window = list(owners)
    many: Counter[int] = Counter()
    later: set[int] = set()
    for at in window[:spread]:
        many[owners[at].document] += 1
        if many[owners[at].document] > _PER_FILE:
            later.add(at)
    window[:spread] = sorted(window[:spread], key=later.__contains__)
    return window


def _fuse(query: Query, found: Candidates, alpha: float, of: Sequence[int] | None = None) -> list[float]:
    """The fused scores, with `alpha` as the share of meaning unless the query has its own; for `of` or for all."""
    alpha = alpha if query.alpha is None else query.alpha
    by_words, by_meaning = any(found.words), bool(found.cosines)
    if query.fusion == "rank" and by_words and by_meaning:
        fused = fuse.reciprocal_rank(
            len(found.ids),
            [(1 - alpha, _ranked(found, found.words, 0.0)), (alpha, _ranked(found, found.cosines, fuse.NONE))],
        )
        fused = fused if of is None else [fused[at] for at in of]
    elif not by_meaning:
        fused = fuse.convex(0.0, found.words, found.words, of)
    else:
        fused = fuse.convex(alpha if by_words else 1.0, found.words, found.cosines, of)
    if found.held:
        ids = found.ids if of is None else [found.ids[at] for at in of]
        fused = [score + _PHRASE * found.held.get(chunk, 0.0) for chunk, score in zip(ids, fused, strict=True)]
    return fused


def _ranked(found: Candidates, scores: Sequence[float], none: float) -> list[int]:
    """The candidates that an index has a score for, best first."""
    return [at for at in fuse.order(scores, found.ids) if scores[at] > none]


def _explanations(
    view: View, page: Sequence[Ranked], asked: Understood, found: Candidates
) -> dict[int, dict[str, float | str]]:
    """For each hit: the kind of query, its rank in both indexes, the fused score, what each feature added, copies."""
    texts = {chunk_id: origin.text for chunk_id, origin in view.origins(found.ids).items()}
    many = Counter(texts.values())
    bm25, cosine = _places(found, found.words, 0.0), _places(found, found.cosines, fuse.NONE)
    why: dict[int, dict[str, float | str]] = {}
    for one in page:
        said = why[one.stored.id] = {"query": asked.kind, "fused": round(one.fused, 4)}
        for name, ranks in (("keywords", bm25), ("meaning", cosine)):
            if one.stored.id in ranks:
                said[name] = ranks[one.stored.id]
        said |= {name: round(value, 3) for name, value in one.signals.items()}
        if one.beside:
            said["whole file"] = round(one.beside, 3)
        if one.collapsed:
            said["collapsed"] = one.collapsed
        if (copies := many[texts.get(one.stored.id, -1)]) > 1:
            said["copies"] = copies - 1
    return why


def _places(found: Candidates, scores: Sequence[float], none: float) -> dict[int, str]:
    """The rank and score of each chunk in one index."""
    if not scores:
        return {}
    return {found.ids[at]: f"rank {rank}, {scores[at]:.3f}" for rank, at in enumerate(_ranked(found, scores, none), 1)}


def _show(one: Ranked, asked: Understood, explanation: Mapping[str, float | str]) -> Hit:
    cut = partial(_excerpt, one.stored.chunk, asked.terms)
    return Hit(stored=one.stored, score=one.score, excerpt=cut, more=one.more, explanation=explanation)


def _excerpt(chunk: Chunk, terms: tuple[str, ...]) -> tuple[str, int]:
    text, first = snippet(chunk.text, terms)
    return text, chunk.start_line + (first if chunk.is_as_written else 0)
