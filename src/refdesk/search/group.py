"""Ranked passages become hits: grouped by file, without copies, each with the lines that match."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Literal

from refdesk.model import Origin, StoredChunk, Topic
from refdesk.search.rerank import counted, is_prose, places_in, unasked_places, weights
from refdesk.search.understand import Understood
from refdesk.text import analyse

_PROSE = frozenset(["md", "markdown", "mdx", "rst", "adoc", "org", "txt", "html", "htm", "ipynb"])
_CODE = frozenset(
    re.findall(
        r"\w+",
        "asm astro bash bat bzl c cc cjs clj cljc cljs cmake cmd cpp cs cshtml css cu cxx d dart el elm erl ex exs f90"
        " fs fsi fsx gd gleam go gradle graphql groovy h hcl hh hpp hrl hs hxx inl ipp java jl jq js jsx kt kts l less"
        " lua m mjs mk ml mli mm mts nim nix pas php pl pm proto ps1 purs py pyi pyx r rake razor rb rkt rs s sbt scala"
        " scss sh sol sql sv svelte swift tf ts tsx v vhd vim vue y zig zsh",
    )
)
_TEMPLATES = frozenset(["ejs", "erb", "hbs", "j2", "jinja", "jinja2", "mustache", "tmpl", "tpl"])
_MANUAL = re.compile(r"\.(?:pdf|[1-9](?:\.\w+)?)$", re.IGNORECASE)
_OF_DOCS = re.compile(r"(?:^|/)(?:docs?|man)/", re.IGNORECASE)
_VENDORED = re.compile(r"(?:^|/)(?:bundled|vendor(?:ed)?|third[_-]?party|3rdparty|external|node_modules)/", re.I)
_DECLARATIONS = re.compile(r"\.d\.[cm]?ts$|\.pyi$", re.IGNORECASE)
_HEADERS, _IMPLEMENTATIONS = frozenset(["h", "hh", "hpp", "hxx"]), frozenset(["c", "cc", "cpp", "cxx", "m", "mm"])
_INLINE = re.compile(r"(?<=.)[-_]inl$", re.IGNORECASE)
_HISTORY = re.compile(r"(?:change|history|news|releases?\b|whatsnew|licen[cs]e|authors|copying)", re.IGNORECASE)
_FORM = re.compile(r"\.(?:html?|(?:md|mdx|markdown|rst|adoc|txt)(?:\.txt)?)$", re.IGNORECASE)
# Languages of documentation, in names of folders (docs/pt-br/x.md) or files (README.zh-CN.md).  Those that are also
# English words or usual names count only beside another one.
_LANGUAGE = re.compile(
    r"(ar|az|bg|bn|ca|cs|da|de|el|en|es|eu|fa|fi|fr|gl|he|hi|hr|hu|hy|id|it|ja|jp|ka|kk|km|ko|kr|lt|lv|mn|ms|my|nb|nl|no|"
    r"pl|pt|ro|ru|sk|sl|sq|sr|sv|sw|ta|te|th|tr|uk|ur|uz|vi|zh)(?:[-_](?:br|ca|cn|cyrl|de|es|fr|gb|han[st]|hk|jp|kr|latn|mx|"
    r"pt|tw|us))?",
    re.IGNORECASE,
)
_AMBIGUOUS = frozenset(["cs", "el", "he", "hi", "id", "it", "ms", "my", "no", "pl", "sl", "te", "vi", ""])
_LANGUAGE_LAST = re.compile(rf"[._-]({_LANGUAGE.pattern})$", re.IGNORECASE)
_FOREIGN = frozenset(  # common words of other languages: a query with one, or with other letters, is not English
    re.findall(  # without those that mean something in programs: comment, der, dos, du, est, mit
        r"\w+",
        "wie ich ein eine einen das und ist nicht kann wird werden le la les un une dans avec pour quelle como los"
        " las una gli della che hoe een het uma",
    )
)
_BUILT = frozenset(["_sources", "_build", "build", "site", "html", "dist", "public", "docs", "doc", "source", "src"])
# Of a page whose length counts neither for nor against it beside code; authored questions .775 to .805.
_USUAL_PASSAGES = 12
_SHORT, _USUAL_LENGTH, _HALF_SAID = 4, 8, 1.0  # passages of a page, and how often it says a word that counts by half
# By the best five pages of a question: what is said counts neither for nor against pages beside code.
_USUALLY_SAID = 0.49
_KEPT_INSIDE = 5  # further passages that a hit names
_AS_WHOLES = 16  # files that count as wholes: they rank pages as well as all would, 12 lose .004 of nDCG@5

Topics = Callable[[Sequence[int]], Mapping[int, Topic]]  # of the documents of some chunks


@dataclass(slots=True)
class Ranked:
    """A candidate and its scores."""

    stored: StoredChunk
    fused: float  # the blend of both indexes' scores
    score: float = 0.0
    signals: dict[str, float] = field(default_factory=dict)  # its features; what each adds, if that is to be explained
    words: float = 0.0  # how well its words match the query's
    heading: float = 0.0  # and how well its heading's do
    collapsed: int = 0  # parts of the same symbol that this one stands for
    beside: float = 0.0  # what its file adds to it, if it is its best passage
    more: tuple[StoredChunk, ...] = ()  # further passages of its file, if hits are files


def grouped(
    close: Sequence[Ranked],
    rest: Sequence[Ranked],
    asked: Understood,
    by: Literal["file", "passage"],
    prefer: Literal["", "code"],
    topics: Topics,
    rarity: Mapping[str, float],
) -> list[Ranked]:
    """One hit a file with its further passages inside; or all passages, the best of each file first.

    Only the reranked ones (`close`), whose number is fixed, change places, so that pages of any size fit together.
    """
    seen: dict[tuple[str, str], Ranked] = {}
    pages: dict[tuple[str, str, str], dict[str, Ranked]] = {}
    files: dict[str, list[Ranked]] = {}
    for one in _distinct(close, seen, pages):
        files.setdefault(one.stored.document.id, []).append(one)
    ordered = _in_order(files.values(), asked, prefer, topics, rarity)
    later = list(_distinct(rest, seen, pages))
    if by == "passage":
        longest = max(map(len, ordered), default=0)
        return [*(own[turn] for turn in range(longest) for own in ordered if turn < len(own)), *later]
    further: dict[str, Ranked] = {}
    for one in later:
        if (own := files.get(one.stored.document.id)) is not None:
            own.append(one)
        else:
            further.setdefault(one.stored.document.id, one)
    for first, *others in ordered:
        first.more = tuple(one.stored for one in others[:_KEPT_INSIDE])
    return [*(own[0] for own in ordered), *further.values()]


def _distinct(
    ranked: Sequence[Ranked],
    seen: dict[tuple[str, str], Ranked],
    pages: dict[tuple[str, str, str], dict[str, Ranked]],
) -> Iterator[Ranked]:
    """The best part of each split symbol, and the better one of a built page and its source.

    `pages` maps what the paths of a page and its source have in common to the first passage of each.
    """
    for one in ranked:
        document = one.stored.document
        if (page := page_of(document.path)) is not None:
            forms = pages.setdefault((document.collection, page, _letters(document.title)), {})
            known = forms.setdefault("page" if "htm" in document.path[-5:].lower() else "source", one)
            first = next(iter(forms.values()))
            if known.stored.document.id == document.id and first.stored.document.id != document.id:
                first.collapsed += 1
                continue
        part = (document.id, unsplit(one.stored.chunk.key))
        if (twin := seen.get(part)) is not None:
            twin.collapsed += 1
            continue
        seen[part] = one
        yield one


def _headers(files: Iterable[list[Ranked]]) -> list[list[Ranked]]:
    """The files that are headers of others among them."""
    units = [(own, *unit) for own in files if (unit := _unit(own[0].stored.document.path)) is not None]
    implemented = {name for _, name, is_header in units if not is_header}
    return [own for own, name, is_header in units if is_header and name in implemented]


@lru_cache(maxsize=50_000)
def _unit(path: str) -> tuple[str, bool] | None:
    """The name that a C header and its implementation share, and whether the path is the header; None for others."""
    name, _, extension = path.rpartition("/")[2].rpartition(".")
    is_header = (kind := extension.lower()) in _HEADERS
    if not name or not (is_header or kind in _IMPLEMENTATIONS):
        return None
    return _INLINE.sub("", name), is_header and "inl" not in path[-9:]


@lru_cache(maxsize=50_000)
def _letters(title: str) -> str:
    return "".join(filter(str.isalnum, title.lower()))


@lru_cache(maxsize=50_000)
def page_of(path: str) -> str | None:
    """What the paths of a built page and its source have in common; None for other files."""
    head = _FORM.sub("", path)
    if head == path:
        return None
    parts = [part for part in head.split("/") if part.lower() not in _BUILT]
    return "/".join(parts[:-1] if len(parts) > 1 and parts[-1] == "index" else parts)


@lru_cache(maxsize=50_000)
def translation_of(path: str) -> tuple[str, str]:
    """What the paths of a page in several languages have in common, and the language, "" if the path names none."""
    head = _FORM.sub("", path)
    if head == path and "://" not in path:
        return path, ""  # not a page
    if last := _LANGUAGE_LAST.search(head):
        return head[: last.start()], last[1].lower()
    parts = head.split("/")
    for at, part in enumerate(parts[:-1]):
        if named := _LANGUAGE.fullmatch(part):
            return "/".join([*parts[:at], *parts[at + 1 :]]), named[0].lower()
    return head, ""


def is_english(asked: Understood) -> bool:
    """Whether nothing in the query tells of another language."""
    return all(word.isascii() and word not in _FOREIGN for word in asked.words)


def in_one_language(ordered: Sequence[tuple[int, Origin | None]], asked: Understood) -> list[tuple[int, Origin | None]]:
    """The candidates of one collection with each page in one language.

    For an English question that is English, where it is among them; for others the language that fits best. Else a
    question finds its page in every language, and other pages are left out for them.
    """
    languages: dict[str, dict[str, None]] = {}
    for _, origin in ordered:
        if origin is not None:
            page, language = translation_of(origin.path)
            languages.setdefault(page, {})[language] = None
    if all(len(known) == 1 for known in languages.values()):
        return list(ordered)
    english = is_english(asked)
    kept = {
        page: min(known, key=lambda one: (not one.startswith("en"), one != "")) if english else next(iter(known))
        for page, known in languages.items()
        if not _AMBIGUOUS.issuperset(one[:2] for one in known)
    }

    def stays(origin: Origin) -> bool:
        page, language = translation_of(origin.path)
        return kept.get(page, language) == language

    return [(at, origin) for at, origin in ordered if origin is None or stays(origin)]


def unsplit(key: str) -> str:
    """The key without the number of a part."""
    head, mark, number = key.rpartition("-part-")
    return head if mark and number.isdigit() else key


def _in_order(
    files: Iterable[list[Ranked]],
    asked: Understood,
    prefer: str,
    topics: Topics,
    rarity: Mapping[str, float],
) -> list[list[Ranked]]:
    """The files by their best passage, a share of the next ones and the kind of their path, the first as wholes."""
    learned = weights().file
    is_anywhere = asked.kind in ("symbol", "path")  # a definition is the answer, wherever it is
    of_path = path_worth(unasked_places(asked.terms), prefer)

    def by_worth(own: list[Ranked]) -> float:
        return -(own[0].score + own[0].beside)

    for own in files:
        if len(own) > 1:
            second, third, *others = (*(max(0.0, one.score) for one in own[1:8]), 0.0, 0.0)
            own[0].beside = learned["second"] * second + learned["third"] * third + learned["further"] * sum(others)
        own[0].beside += 0.0 if is_anywhere else of_path(own[0].stored.document.path)
    if is_anywhere:
        return sorted(files, key=by_worth)
    for own in _headers(files):
        own[0].beside += learned["header"]
    ordered = sorted(files, key=by_worth)
    words = [(_beginning(term), rare) for term, rare in rarity.items()]
    known = topics([own[0].stored.id for own in ordered[:_AS_WHOLES]])
    for own in ordered[:_AS_WHOLES]:
        if (topic := known.get(own[0].stored.id)) is None:
            continue
        if not is_prose(own[0].stored):
            own[0].beside += learned["topic"] * topic.cosine
            continue
        # Among pages that mention it, the one that is about it: not a long one about many things, nor a stub.
        own[0].beside += learned["prose topic"] * topic.cosine + learned["prose mean"] * topic.mean
        own[0].beside += learned["prose passages"] * math.log(topic.passages / _USUAL_PASSAGES)
        said = _said(own, words, topic.passages) - _USUALLY_SAID if words else 0.0
        # A page that repeats the question's words is no reason to read it before code, where code is asked for.
        own[0].beside += learned["prose said"] * (min(0.0, said) if prefer == "code" else said)
    return [*sorted(ordered[:_AS_WHOLES], key=by_worth), *ordered[_AS_WHOLES:]]


def _said(own: Sequence[Ranked], words: Sequence[tuple[str, float]], passages: int) -> float:
    """How much of the query, from 0 to 1, a page of so many passages says in these: BM25 of them as one text.

    Each word of the query is given by its beginning and its rarity.
    """
    text = "\n".join([one.stored.chunk.text for one in own]).lower()
    half = _HALF_SAID * (0.25 + 0.75 * max(_SHORT, passages) / _USUAL_LENGTH)
    said = 0.0
    for word, rare in words:
        if often := text.count(word):
            said += rare * often / (often + half)
    return said / sum([rare for _, rare in words])


@lru_cache(maxsize=8)  # of few caches: no more is kept than by one of all, and a lookup takes a third of the time
def path_worth(unasked: tuple[str, ...], prefer: str) -> Callable[[str], float]:
    """What the kind of a path adds to the score of its file, for a query that asks for none of some kinds."""
    file = weights().file

    @lru_cache(maxsize=6_000)
    def worth(path: str) -> float:
        own = sum(file[place] * share for place, share in counted(places_in(path), unasked).items())
        return own + (file.get(not_code(path), 0.0) if prefer == "code" else 0.0)

    return worth


def not_code(path: str) -> str:
    """The kind of a file that is not the project's own code: prose, data, history, …; "" for its code."""
    name = path.rpartition("/")[2]
    stem, _, kind = name.lower().rpartition(".")
    if kind in _TEMPLATES and "." in stem and (inner := stem.rpartition(".")[2]) not in _PROSE:
        kind = inner  # values.yaml.j2 is data, while a page's template is code
    if kind in _PROSE or _MANUAL.search(name):
        return "history" if _HISTORY.match(name) else "prose"
    if kind not in _CODE | _TEMPLATES:
        return "prose" if _OF_DOCS.search(path) else "data"
    if _VENDORED.search(path):
        return "vendored"
    return "declarations" if _DECLARATIONS.search(name) else ""


# ── snippets ──

_AIM = 220  # characters, as the docs contract asks
_OWN_STEM = 4  # letters up to which words are mostly their own stems
_TAG = re.compile(r"\s*</?[A-Za-z][^<>]*>\s*")  # alone on its line


@lru_cache(maxsize=32)  # an answer asks twice: whether it is shorter than the passage, and for the text
def snippet(text: str, terms: tuple[str, ...], aim: int = _AIM) -> tuple[str, int]:
    """About `aim` characters of whole lines around the best match, as written, and the index of their first line."""
    lines = text.split("\n")
    if len(text) <= aim * 1.5:
        return text.strip("\n"), next((at for at, line in enumerate(lines) if line), 0)
    wanted = set(terms)
    hits = _hits(text, wanted)
    first, most = _best_window(lines, hits, aim)
    in_text = [hit for hit in hits if not _TAG.fullmatch(lines[hit[0]])]
    if in_text and len(in_text) < len(hits):  # a page's component says the words of a link, and nothing about them
        of_text, different = _best_window(lines, in_text, aim)
        if different >= most - 1:
            first = of_text
    if len(lines[first]) > 2 * aim:
        return _cut(lines[first], wanted, aim), first
    taken: list[str] = []
    size = 0
    for line in lines[first:]:
        if taken and size + len(line) > aim * 1.2:
            break
        taken.append(line[: 2 * aim])
        size += len(line) + 1
    return "\n".join(taken).rstrip(), first


def _hits(text: str, wanted: set[str]) -> list[tuple[int, str]]:
    """Each line with each term that starts a word or a part of a name in it, in order."""
    folded = analyse.fold(text)
    lower = folded.lower()
    written = folded if len(folded) == len(lower) else lower
    found: list[tuple[int, str]] = []
    for one in {_beginning(term) for term in wanted}:
        row = seen = 0
        at = lower.find(one)
        while at >= 0:
            if not written[at - 1 : at].isalpha() or _begins_inside(written, at):
                row += lower.count("\n", seen, at)
                found.append((row, one))
                seen = lower.find("\n", at)
                at = lower.find(one, seen) if seen >= 0 else -1
            else:
                at = lower.find(one, at + 1)
    return sorted(found)


def _beginning(term: str) -> str:
    """The common prefix of a term's words: the stem without its last letter, as in `hope` and `hoping`."""
    return term[:-1] if len(term) > _OWN_STEM else term


def _begins_inside(text: str, at: int) -> bool:
    """Whether a part of a name starts there, after a letter; outside ASCII it may start anywhere."""
    if not text[at].isascii():
        return True
    return text[at].isupper() and (text[at - 1].islower() or text[at + 1 : at + 2].islower())


def _best_window(lines: list[str], hits: list[tuple[int, str]], aim: int) -> tuple[int, int]:
    """The first line of the window with the most different terms, the earliest of equals, and how many these are."""
    starts = list(accumulate([len(line) + 1 for line in lines], initial=0))
    best = most = 0
    last: dict[str, int] = {}  # line with each term, up to the hit
    for row, term in hits:
        last[term] = row
        if len(last) > most:
            # The first line of the window that ends at the hit.
            first = min(row, bisect_left(starts, starts[row + 1] - aim * 1.2))
            different = len([line for line in last.values() if line >= first])
            if different > most:
                best, most = first, different
    while hits and not lines[best].strip():
        best += 1
    return best, most


def _cut(line: str, wanted: set[str], aim: int) -> str:
    """A window of one very long line around its first matched word."""
    starts = range(0, len(line), aim)
    position = next((at for at in starts if wanted.intersection(analyse.terms(line[at : at + aim]))), 0)
    begin, end = max(0, position - aim // 4), min(len(line), position + aim)
    return ("…" if begin else "") + line[begin:end] + ("…" if end < len(line) else "")
