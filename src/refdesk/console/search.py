"""Search: one box over everything, filters with counts, why a hit ranks where it does, why a file is missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.responses import Response

from refdesk.console.site import View, Visit, address
from refdesk.console.words import asked_terms, code_lines
from refdesk.desk.desk import Desk
from refdesk.desk.fresh import stale_hits
from refdesk.model import Countable, Document, Filters, Found, Hit, Page, Query, Skipped
from refdesk.text.untrusted import marks

_SHOWN = 10  # hits of a page
_LONGEST = 4_000  # characters of a query, which stands in every link of the page
_LISTED = 12  # collections of the page before a search
_VALUES = 8  # of a filter that are listed
_COUNTED = 300  # values of a filter that are counted, among them the files with most matches: 1000 take 2 ms more
_CATEGORIES = 40  # values of a metadata key; with more of them it is a name or a number rather
_RANKED = 200  # hits among which a file that is missing is looked for
_NAMED = 12  # words of a query without hits that are named
_DROPPED = 5  # folders at the start of a path that are tried without
_PLAYBOOKS = "playbooks"
_FACETS: Mapping[str, tuple[Countable, str]] = {
    "collection": ("collection", "Collection"),
    "language": ("language", "Language"),
    "kind": ("kind", "Kind"),
    "path": ("path", "Folder"),
    "meta": ("metadata", ""),
}
_EMPTY = Page(hits=(), more=False, state=0)
_NOT_SIGNALS = frozenset({"query", "fused", "keywords", "meaning", "collapsed", "copies"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A search, as encoded in its URL."""

    text: str
    chosen: Mapping[str, tuple[str, ...]]  # facet → values: globs of paths, KEY=VALUE of metadata
    alpha: str  # "" for the engine's own
    other: str  # the second setting's alpha, where two are compared
    exact: bool
    page: int

    def where(self, **changed: Any) -> str:
        """The URL of this search with some fields changed; of the first page unless one is given."""
        now: dict[str, Any] = {
            "q": self.text,
            **self.chosen,
            "alpha": self.alpha,
            "other": self.other,
            "exact": "1" if self.exact else "",
        }
        return address("/", **(now | changed))

    def toggled(self, facet: str, value: str) -> str:
        """The URL with a value of a filter toggled."""
        now = self.chosen[facet]
        return self.where(**{facet: tuple(one for one in now if one != value) if value in now else (*now, value)})

    def filters(self, without: str = "") -> Filters:
        """The chosen filters, without those of one facet."""
        chosen = {**self.chosen, without: ()}
        pairs: dict[str, tuple[str, ...]] = {}
        for one in chosen["meta"]:
            key, _, value = one.partition("=")
            pairs[key] = (*pairs.get(key, ()), value)
        return Filters(
            collections=chosen["collection"],
            languages=chosen["language"],
            kinds=chosen["kind"],
            paths=chosen["path"],
            metadata=tuple(pairs.items()),
        )

    def query(self, alpha: str = "", *, filtered: bool = True, limit: int = _SHOWN, offset: int = 0) -> Query:
        return Query(
            text=self.text,
            filters=self.filters() if filtered else Filters(),
            limit=limit,
            offset=offset,
            alpha=float(alpha) if alpha else None,
            by="file",
            exact=self.exact,
            explain=True,
        )


def _share(text: str) -> str:
    try:
        return f"{min(1.0, max(0.0, float(text))):g}"
    except ValueError:
        return ""


def search(visit: Visit) -> Response:
    desk = visit.desk
    asked = Asked(
        text=visit.query("q").strip()[:_LONGEST],
        chosen={facet: visit.query_list(facet) for facet in _FACETS},
        alpha=_share(visit.query("alpha")),
        other=_share(visit.query("other")),
        exact=visit.query("exact") == "1",
        page=max(1, visit.number("page", 1, 100)),
    )
    why = visit.query("why").strip()
    if not asked.text:
        known = desk.collections()
        return visit.render(
            "search.html",
            asked=asked,
            found=None,
            collections=known[:_LISTED],
            held=visit.console.contents(),
            further=len(known[_LISTED:]),
            playbooks=desk.has_playbooks(),
        )
    found = [_found(desk, asked, alpha) for alpha in ((asked.alpha, asked.other) if asked.other else (asked.alpha,))]
    nearest = [] if found[0]["hits"] else desk.nearest_words(asked.query(asked.alpha, filtered=False))
    return visit.render(
        "results.html" if visit.is_part else "search.html",
        asked=asked,
        found=found,
        facets=_facets(desk, asked, found[0]["page"].hits),
        nearest=nearest,
        words=[] if found[0]["hits"] else _words(desk, asked),
        why=why,
        answer=list(_why(desk, asked, why)) if why else None,
    )


def _find(desk: Desk, query: Query) -> Page:
    """The hits in collections and playbooks, or in playbooks alone if only these are chosen."""
    if query.filters.collections == (_PLAYBOOKS,):
        bare = replace(query, filters=Filters())
        return desk.learner.join(bare, lambda _: _EMPTY) if desk.has_playbooks() else _EMPTY
    named = tuple(one for one in query.filters.collections if one != _PLAYBOOKS)
    query = replace(query, filters=replace(query.filters, collections=named))
    is_open = not query.filters and not query.exact and query.alpha != 0.0
    return desk.search_everything(query) if is_open else desk.search(query)


def _words(desk: Desk, asked: Asked) -> list[tuple[str, int]]:
    """The query's words without stop words, and the number of passages in the chosen collections with each."""
    terms = {word: tuple(asked_terms(word)) for word in re.findall(r"\w+", asked.text)[:_NAMED]}
    view = desk.view(Filters(collections=asked.chosen["collection"]))
    having = view.document_frequency([one for own in terms.values() for one in own])
    absent = view.unknown(list(having))
    return [(word, min(0 if one in absent else having[one] for one in own)) for word, own in terms.items() if own]


def _found(desk: Desk, asked: Asked, alpha: str) -> dict[str, Any]:
    """The hits for one alpha, with what the page shows of them."""
    page = _find(desk, asked.query(alpha, offset=_SHOWN * (asked.page - 1)))
    stale = stale_hits(desk, page.hits)
    known = {one.name: one for one in desk.collections()}
    best = max((_scored(hit.explanation.get("keywords"))[1] for hit in page.hits), default=0.0)
    corrected = [note.partition(";")[0] for note in page.notes if note.startswith("searched for ")]
    wanted = asked_terms(" ".join([asked.text, *corrected]))
    hits = []
    for rank, hit in enumerate(page.hits, _SHOWN * (asked.page - 1) + 1):
        chunk = hit.stored.chunk
        rows = code_lines(hit.snippet, "text" if chunk.language == "markdown" else chunk.language, wanted)
        first = hit.snippet_line if chunk.is_as_written else 0  # 0: its lines have no numbers
        hits.append(
            {
                "hit": hit,
                "rank": rank,
                "href": _href(hit, asked.text),
                "lines": [(first + at if first else 0, row) for at, row in enumerate(rows)],
                "stale": hit.stored.id in stale,
                "marks": marks(hit.stored, known.get(hit.stored.document.collection)),
                "why": _bars(hit, best),
            }
        )
    return {"alpha": alpha, "page": page, "hits": hits}


def _href(hit: Hit, text: str) -> str:
    document = hit.stored.document
    if document.uri.startswith("playbook:"):
        return address("/playbooks/{}", document.id)
    lines = hit.stored.chunk.lines
    part = f"#L{hit.snippet_line or hit.stored.chunk.start_line}" if lines else ""
    return address("/read/{}/{}", document.collection, document.path, lines=lines, q=text) + part


def _bars(hit: Hit, best: float) -> list[tuple[str, str, float]]:
    """Name, text and length (-1 to 1) of each part of a hit's score."""
    told = hit.explanation
    bars: list[tuple[str, str, float]] = []
    for name, most in (("keywords", best), ("meaning", 1.0)):
        rank, score = _scored(told.get(name))
        if rank:
            bars.append((name, f"{rank}, {score:g}", score / most if most else 0.0))
        elif told:
            bars.append((name, "not found by it", 0.0))
    if isinstance(fused := told.get("fused"), float):
        bars.append(("both, blended", f"{fused:g}", min(1.0, fused)))
    signals = [(name, value) for name, value in told.items() if name not in _NOT_SIGNALS and isinstance(value, float)]
    bars += [(name, f"{value:+g}", max(-1.0, min(1.0, value))) for name, value in sorted(signals, key=lambda s: -s[1])]
    return bars


def _scored(told: float | str | None) -> tuple[str, float]:
    """The rank and score in an index's explanation."""
    rank, _, score = str(told or "").partition(", ")
    return rank, float(score or 0)


def _facets(desk: Desk, asked: Asked, hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """The filters: their values, the number of matching passages of each, and the URL that toggles it.

    A filter's counts respect the other filters, so they show what choosing another value would give.
    """
    within = {of: asked.filters(without=facet) for facet, (of, _) in _FACETS.items()}
    counts = desk.tally(asked.query(asked.alpha, filtered=False), within, _COUNTED)
    if learned := sum(hit.stored.document.uri.startswith("playbook:") for hit in hits):
        counts["collection"][_PLAYBOOKS] = learned
    counts["path"] = _folders(counts["path"], asked.chosen["path"])
    facets = [
        _facet(asked, facet, title, [(one, one.removesuffix("**"), count) for one, count in counts[of].items() if one])
        for facet, (of, title) in _FACETS.items()
        if facet != "meta"
    ]
    by_key: dict[str, list[tuple[str, str, int]]] = {}
    for pair in dict.fromkeys((*counts["metadata"], *asked.chosen["meta"])):
        key, _, value = pair.partition("=")
        by_key.setdefault(key, []).append((pair, value, counts["metadata"].get(pair, 0)))
    for key, listed in by_key.items():
        is_chosen = any(pair in asked.chosen["meta"] for pair, _, _ in listed)
        if is_chosen or 1 < len(listed) <= _CATEGORIES:
            facets.append(_facet(asked, "meta", key, listed))
    return [one for one in facets if one["values"]]


def _folders(paths: Mapping[str, int], chosen: Sequence[str]) -> dict[str, int]:
    """The counts of the chosen folders and of those below the last one, or below the common folder; as globs."""
    named = [one.removesuffix("/**").split("/") for one in chosen if one.endswith("/**")]
    files = [(path.split("/")[:-1], count) for path, count in paths.items() if "://" not in path]
    under = named[-1] if named else []
    while True:
        found: Counter[str] = Counter()
        for parts, count in files:
            for folder in named:
                if parts[: len(folder)] == folder:
                    found["/".join(folder)] += count
            if len(parts) > len(under) and parts[: len(under)] == under:
                found["/".join(parts[: len(under) + 1])] += count
        if named or len(found) != 1:
            return {f"{folder}/**": count for folder, count in found.most_common()}
        under = next(iter(found)).split("/")


def _facet(asked: Asked, facet: str, title: str, listed: Sequence[tuple[str, str, int]]) -> dict[str, Any]:
    chosen = asked.chosen[facet]
    known = [one for one in listed if one[0] in chosen]
    if facet != "meta":
        known += [(one, one, 0) for one in chosen if one not in {value for value, _, _ in listed}]
    shown = [*known, *(one for one in listed if one[0] not in chosen)][: max(_VALUES, len(known))]
    return {
        "title": title,
        "values": [
            {"name": name, "count": count, "chosen": value in chosen, "href": asked.toggled(facet, value)}
            for value, name, count in shown
        ],
    }


# --- why is it not here? -------------------------------------------------------------------------------


def _why(desk: Desk, asked: Asked, text: str) -> Iterator[tuple[str, str, str]]:
    """Why a file or a passage is not among the hits: rows of CSS class, text and URL."""
    document, told = _named(desk, text)
    if document is None:
        yield from told
        return
    place = address("/read/{}/{}", document.collection, document.path)
    yield "good", f"Indexed: {document.path} in {document.collection}.", place
    own = replace(asked.query(asked.alpha, filtered=False, limit=1), filters=Filters(documents=(document.id,)))
    own_best = desk.search(own)
    rank = _rank(desk, asked, document, filtered=True)
    if rank:
        yield "good", f"It is hit {rank} of this search.", asked.where(page=(rank - 1) // _SHOWN + 1)
        return
    unfiltered = _rank(desk, asked, document, filtered=False)
    if unfiltered:
        bare = address("/", q=asked.text, alpha=asked.alpha)
        yield "bad", f"The filters leave it out: without them it is hit {unfiltered}.", bare
    elif not own_best.hits:
        yield "bad", "No passage of it has a word of the query or is near it in meaning.", ""
    else:
        hit = own_best.hits[0]
        told_by = [f"{name} {hit.explanation[name]}" for name in ("keywords", "meaning") if name in hit.explanation]
        where = hit.stored.chunk.place(document.path)
        yield "bad", f"It is not among the hits that are ranked; its best passage is {where}.", _href(hit, asked.text)
        yield "", f"Looked for in it alone: {', '.join(told_by) or 'found by neither index'}.", ""


def _rank(desk: Desk, asked: Asked, document: Document, *, filtered: bool) -> int:
    """The document's rank among the hits, 0 for none."""
    page = _find(desk, asked.query(asked.alpha, filtered=filtered, limit=_RANKED))
    ids = [hit.stored.document.id for hit in page.hits]
    return ids.index(document.id) + 1 if document.id in ids else 0


def _named(desk: Desk, text: str) -> tuple[Document | None, list[tuple[str, str, str]]]:
    """The document that a path, an address or a passage means, or why there is none."""
    known = desk.collections()
    if found := desk.document_by_uri(text):
        return found, []
    parts = text.split("/")
    for at in range(min(len(parts), _DROPPED)):  # a path may begin with the collection's name or folders around it
        for one in known:
            is_told = at == 0 or len(parts) - at > 1 or parts[0] == one.name
            if is_told and (found := desk.document_by_path(one.name, "/".join(parts[at:]))):
                return found, []
    for one in known:
        if not one.root or "://" in one.root or "\n" in text:
            continue
        collection, document, walked = desk.why(Path(one.root, text))
        if document is not None:
            return document, []
        if collection is not None and desk.other_machine(collection):
            continue
        if isinstance(walked, Skipped) and collection is not None and Path(collection.root, walked.path).exists():
            return None, [("bad", f"Not indexed in {collection.name}: {walked.reason}.", "")]
        if isinstance(walked, Found) and collection is not None:
            again = address("/library/{}", collection.name)
            kept = {skipped.path: skipped.reason for skipped in desk.skipped(collection.name)}
            reason = kept.get(walked.path, "it came after the last run: index again")
            return None, [("bad", f"It is a file of {collection.name} that is not indexed: {reason}.", again)]
    page = desk.search(Query(text=text, exact=True, limit=1)) if len(text) > 2 else _EMPTY
    if page.hits:
        return page.hits[0].stored.document, []
    return None, [("bad", "No indexed file has this path, and no passage has this text, to the letter.", "")]


VIEWS: Mapping[str, View] = {"GET /": search}
