"""Candidates from the full-text and the vector index, queried at the same time, and the fusion of their scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from refdesk.model import Query, Ranking, Vector
from refdesk.ports import Embedder, Store, View
from refdesk.search import confidence
from refdesk.search.understand import Understood

_RRF_K = 60  # the usual constant of reciprocal rank fusion
# Share of the similarity floor for passages without a matching term where others have one: confidence is judged by the
# page.  Measured: +.006 of NDCG@10 by file.
_BESIDE_WORDS = 0.55
NONE = -2.0  # stands for the cosine of a passage without a vector: below all cosines


def reciprocal_rank(count: int, rankings: Sequence[tuple[float, Sequence[int]]]) -> list[float]:
    """Weighted reciprocal rank fusion of `count` candidates, scaled so that first place in all rankings is 1."""
    total = sum(weight for weight, _ in rankings) or 1.0
    fused = [0.0] * count
    for weight, ranking in rankings:
        for rank, at in enumerate(ranking):
            fused[at] += weight / total * (_RRF_K + 1) / (_RRF_K + 1 + rank)
    return fused


def convex(
    alpha: float, words: Sequence[float], cosines: Sequence[float], of: Iterable[int] | None = None
) -> list[float]:
    """alpha of the semantic score plus 1 - alpha of the keyword score, each normalised to 0..1; for `of` or for all."""
    top = max(words, default=0.0) or 1.0
    rest = 1 - alpha
    both = zip(words, cosines, strict=True) if of is None else [(words[at], cosines[at]) for at in of]
    return [(alpha * (near if near < 1.0 else 1.0) if near > 0.0 else 0.0) + rest * (word / top) for word, near in both]


def order(scores: Sequence[float], ids: Sequence[int]) -> list[int]:
    """The candidates, best first; ties are broken by id, so that the order is stable."""
    by_id = sorted(range(len(ids)), key=ids.__getitem__)
    return sorted(by_id, key=scores.__getitem__, reverse=True)


# What forms for reports ask everybody for, which says nothing of where a fault is.
_HEADING = re.compile(r"#{1,6}\s|\*\*[^*]+\*\*:?\s*$")
_ASIDE = re.compile(
    r"(?:#+|\*\*)\s*(?:(?:my|your|run-?time|system)\s+)?(?:environment|info|versions?|platform|checklist|pre-?requisites"
    r"|screenshots?|before submitting|is there an existing|code of conduct)\b",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r"(?:#+|\*\*)\s*(?:(?:(?:steps|how) )?(?:to )?reproduc|expected|actual|current|descri(?:be|ption)|bug description"
    r"|what happened|summary)",
    re.IGNORECASE,
)
_TICKED = re.compile(r"\s*[-*] \[[ xX]\] ")
_LEFT = 0.2  # of a text at least: else it is no filled-in form
_MOST_TERMS = 128  # searched at most: each costs up to 0.4 ms in a large library; a stack trace has about as many
_MOST_QUOTED = 16  # searched at most: each phrase is a search of its own
_CUT = "only the {} most telling words of {} were searched; ask a shorter question, or several"
_MESSAGE = 200  # characters of an error message at most
_MOST_SAYING, _FEW_SAYING = 1_000, 40  # passages that say a part of a message, and all of it
_ERROR_NAME = re.compile(r"^(?:[\w.\\]*(?:Error|Exception|Warning|Fault)\b(?: \[\w+\])?:?\s*)+")
_VARIABLE = re.compile(
    r"\[[^\]]*\]|<[^>]*>|\{[^}]*\}|(?<!\w)(?:`[^`]*`|'[^']*'|\"[^\"]*\")(?!\w)|%\w|\S*[\\/$@#=_]\S*|\b\d[\w.]*"
)  # the parts of a message that change: names in brackets or quotes, paths, numbers
_FLAG = re.compile(r"(?<![\w-])--[a-z0-9]+(?:-[a-z0-9]+)+(?![\w-])|^[a-z0-9]+(?:-[a-z0-9]+)+$", re.IGNORECASE)
_CUT_QUOTED = "only the first {} of {} quoted phrases were searched; ask for fewer at a time"
_KEYWORDS = "keywords only: no embedder is set"
_PARTLY = "some passages have no vectors yet and are found by their words only; `refdesk reembed` makes them"


@dataclass(frozen=True, slots=True)
class Candidates:
    """What both indexes found, as columns with one entry per chunk."""

    ids: Sequence[int] = ()
    words: Sequence[float] = ()  # the full-text index's scores, 0 for no match
    cosines: Sequence[float] = ()  # NONE for a chunk without a vector; empty for a keyword search
    cut: bool = False  # an index may have more
    nearest: Sequence[float] = ()  # the highest cosine, if any
    frequency: Mapping[str, int] = field(default_factory=dict)  # document frequencies, if confidence needs them
    passages: int = 0  # the number of passages they were counted in
    vector: Vector | None = None  # of the query, if meaning was searched
    held: Mapping[int, float] = field(default_factory=dict)  # the share of the quoted phrases in a chunk
    notes: tuple[str, ...] = ()


def narrow(view: View, asked: Understood) -> tuple[Understood, tuple[str, ...]]:
    """The query cut to the most terms and phrases that are searched, and notes on what was cut."""
    notes: list[str] = []
    if (given := len(asked.terms)) > _MOST_TERMS:
        asked = replace(asked, terms=tuple(view.most_telling(asked.terms, _MOST_TERMS)))
        notes.append(_CUT.format(len(asked.terms), given))
    if (given := len(asked.quoted)) > _MOST_QUOTED:
        asked = replace(asked, quoted=asked.quoted[:_MOST_QUOTED])
        notes.append(_CUT_QUOTED.format(_MOST_QUOTED, given))
    return asked, tuple(notes)


def without_form(text: str) -> str:
    """A report without what a form added to it: comments, ticked boxes, headings, and sections on the environment."""
    kept: list[str] = []
    is_aside = is_comment = is_code = False
    for line in text.splitlines():
        was_comment, has_comment = is_comment, "<!--" in line and not is_code
        is_comment = (was_comment or has_comment) and "-->" not in line
        if was_comment or has_comment:
            continue
        is_code ^= line.lstrip().startswith("```")
        if not is_code and _HEADING.match(line):
            is_aside = _ASIDE.match(line) is not None
            if is_aside or _ASKED.match(line):
                continue
        if not is_aside and (is_code or not _TICKED.match(line)):
            kept.append(line)
    found = "\n".join(kept)
    return found if len(found) >= _LEFT * len(text) else text


class LookUp:
    """Looks up candidates in one store, with or without an embedder."""

    def __init__(self, store: Store, embedder: Embedder | None) -> None:
        self._store = store
        self._embedder = embedder

    def find(self, view: View, query: Query, asked: Understood, pool: int) -> Candidates:
        """The best candidates, up to `pool` from each index."""
        if query.exact:
            return _by_words(self._literal(view, query, asked, pool), pool)
        found = self._by_terms(view, query, asked, pool)
        if asked.quoted:
            return _with_phrases(view, asked, pool, found)
        if asked.kind not in ("words", "error", "code"):
            return found
        if parts := constant_parts(query.text):
            return _with_message(view, parts, found)
        flags = [flag.lstrip("-").lower() for flag in _FLAG.findall(query.text)]
        return self._with_flags(flags, _with_message(view, flags, found)) if flags else found

    def _with_flags(self, flags: Sequence[str], found: Candidates) -> Candidates:
        """The same, where names of options are said as they are written, and not as `enableThis` for --enable-this."""
        stored = self._store.chunks(list(found.held))
        held = {at: 1.0 for at, one in stored.items() if all(flag in one.chunk.text.lower() for flag in flags)}
        return replace(found, held=held or found.held)

    def _by_terms(self, view: View, query: Query, asked: Understood, pool: int) -> Candidates:
        if query.vector is not None:  # its caller applies its own floor
            return self._both(view, query, asked, pool, query.vector, NONE)
        note = (_KEYWORDS,) if self._embedder is None and query.alpha != 0.0 else ()
        if query.alpha == 0.0 or self._embedder is None:
            return _by_words(_words(view, query, asked, pool), pool, *note)
        vector = self._embedder.embed_queries([query.text])[0]
        if not vector.any():
            return _by_words(_words(view, query, asked, pool), pool)
        return self._both(view, query, asked, pool, vector, self._embedder.similarity_floor)

    def _both(self, view: View, query: Query, asked: Understood, pool: int, vector: Vector, floor: float) -> Candidates:
        """The candidates of both indexes; one without a matching term must reach the similarity floor."""
        if query.alpha == 1.0:
            lexical, near = Ranking(), view.nearest(vector, pool)
        else:
            lexical, near = view.both(asked.terms, vector, pool)
        is_judged = confidence.is_judged(asked)
        frequency = view.document_frequency(asked.terms) if is_judged else {}
        passages = view.passages() if is_judged else 0
        words, by_meaning = lexical.by_chunk(), near.by_chunk()
        rest = [chunk for chunk in words if chunk not in by_meaning]
        known = view.cosines(vector, rest) if rest else {}
        floor = _BESIDE_WORDS * floor if words else floor
        enough = {chunk: cosine for chunk, cosine in by_meaning.items() if cosine >= floor or chunk in words}
        cosines = {**dict.fromkeys(words, NONE), **known, **enough}
        return Candidates(
            list(cosines),
            [words.get(chunk, 0.0) for chunk in cosines],
            list(cosines.values()) if near or known else (),
            cut=len(lexical) >= pool or (len(near) >= pool and near.scores[-1] >= floor),
            nearest=near.scores[:1],
            vector=vector,
            frequency=frequency,
            passages=passages,
            notes=(_PARTLY,) if view.has_unembedded else (),
        )

    def _literal(self, view: View, query: Query, asked: Understood, pool: int) -> Ranking:
        """Passages that contain the exact text: found by its terms, or by a scan if it has none."""
        wanted = _squeeze(query.text)
        if not asked.terms:
            return view.literal(query.text.strip(), pool)
        found = view.phrase([query.text], 20 * pool)
        stored = self._store.chunks(found.ids)
        here = [
            (chunk_id, score)
            for chunk_id, score in zip(found.ids, found.scores, strict=True)
            if chunk_id in stored and wanted in _squeeze(stored[chunk_id].chunk.text)
        ]
        return Ranking([chunk_id for chunk_id, _ in here[:pool]], [score for _, score in here[:pool]])


def _words(view: View, query: Query, asked: Understood, pool: int) -> Ranking:
    return view.lexical(asked.terms, pool) if query.alpha != 1.0 else Ranking()


def constant_parts(text: str) -> list[str]:
    """The parts of an error message that its source has: "Class" and "was not found" of "Class [A] was not found."

    None for other texts: messages end with a full stop, or have names, numbers or paths among at least four words.
    """
    if len(text) > _MESSAGE or "\n" in text.strip() or "?" in text:
        return []
    said = _ERROR_NAME.sub("", text).strip()
    parts = [part.strip(" .,:;!-()") for part in _VARIABLE.split(said)]
    words = sum(len(part.split()) for part in parts)
    is_message = (len(parts) > 1 or said.endswith(".")) and words > 3
    return [part for part in parts if " " in part] if is_message else []


def _with_message(view: View, parts: Sequence[str], found: Candidates) -> Candidates:
    """The candidates with those added that say all parts word for word, unless many do."""
    said = set.intersection(*(set(view.phrase([part], _MOST_SAYING).ids) for part in parts))
    if not 0 < len(said) <= _FEW_SAYING:
        return found
    return _with_held(found, dict.fromkeys(sorted(said), 1.0))


def _with_phrases(view: View, asked: Understood, pool: int, found: Candidates) -> Candidates:
    """The candidates with those that contain quoted phrases added, and a note if none contains all."""
    held: dict[int, int] = {}
    for phrase in asked.quoted:
        for chunk in view.phrase([phrase], pool).ids:
            held[chunk] = held.get(chunk, 0) + 1
    phrases = " and ".join(f'"{phrase}"' for phrase in asked.quoted)
    none = () if len(asked.quoted) in held.values() else (f"no passage holds {phrases} word for word",)
    shares = {chunk: number / len(asked.quoted) for chunk, number in held.items()}
    return replace(_with_held(found, shares), notes=(*found.notes, *none))


def _with_held(found: Candidates, held: Mapping[int, float]) -> Candidates:
    """The candidates with those added that hold a share of what is quoted."""
    known = set(found.ids)
    new = [chunk for chunk in held if chunk not in known]
    return replace(
        found,
        ids=[*found.ids, *new],
        words=[*found.words, *[0.0] * len(new)],
        cosines=[*found.cosines, *[NONE] * len(new)] if found.cosines else (),
        held=held,
    )


def _by_words(found: Ranking, pool: int, *notes: str) -> Candidates:
    return Candidates(found.ids, found.scores, cut=len(found) >= pool, notes=notes)


def _squeeze(text: str) -> str:
    return " ".join(text.split())
