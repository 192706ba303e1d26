"""When all is fetched: which held pages are kept after all, and which kept ones are no more?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from refdesk.crawl.keep import Keeper
from refdesk.crawl.known import Body, Entry, PageState
from refdesk.crawl.state import CrawlState

_SAME_TEXT = 0.8  # the share of a page's words that the page it points to must have
_NEW_TEXT = 0.5  # the share of llms-full.txt that no page says, for it to be kept
_RUN_WORDS = 5
_WORD = re.compile(r"\w+")
_PASSED_ON: frozenset[PageState] = frozenset(("moved", "alias", "duplicate"))
_NO_MORE: frozenset[PageState] = frozenset(("gone", "skipped", "scripts"))


def settle(state: CrawlState, keeper: Keeper) -> None:
    """Brings library and site together, once nothing is left to be fetched."""
    keeper.keep_all()
    _settle_aliases(state, keeper)
    _settle_duplicates(state)
    keeper.keep_all()
    _settle_full(state, keeper)
    _settle_moves(state)
    keeper.remove(_to_remove(state.states(), _ends(state), keeper.kept))


def _settle_full(state: CrawlState, keeper: Keeper) -> None:
    """llms-full.txt is kept where the pages do not say the same."""
    url, text = state.full
    if text and _says_more(text, keeper, url):
        state.add([Entry(url, 1)])
        state.hold(Body(url, "", "", text.encode(), "text/markdown", "utf-8", ""), "fetched", {})
        keeper.keep_all()


def _says_more(text: str, keeper: Keeper, url: str) -> bool:
    """Whether a text says much that the kept pages do not."""
    runs = _runs(text)
    unknown = set(runs)
    for page in keeper.kept - {url}:
        unknown -= _runs(keeper.text_of(page))
    return len(unknown) > _NEW_TEXT * len(runs)


def _settle_aliases(state: CrawlState, keeper: Keeper) -> None:
    """A page that calls another address its own is kept where that one is not there or says something else."""
    while held := state.bodies("alias", 50):
        states = state.states()
        results: list[tuple[Body, bool]] = []
        for one in held:
            is_kept = states.get(one.target) == "stored"
            results.append((one, is_kept and _repeats(keeper.text_in(one), keeper.text_of(one.target))))
        state.release((one.url, "alias", "") for one, repeats in results if repeats)
        for one, repeats in results:
            if not repeats:
                state.decide(one.url, "fetched")
        keeper.keep_all()


def _repeats(said_now: str, text: str) -> bool:
    said = set(_WORD.findall(said_now))
    return not said or len(said & set(_WORD.findall(text))) >= _SAME_TEXT * len(said)


def _settle_duplicates(state: CrawlState) -> None:
    """A page is no duplicate when the page with the same bytes has changed since or went."""
    while held := state.bodies("duplicate", 200):
        hashes = state.hashes()
        for one in held:
            if hashes.get(one.hash, one.url) != one.url:
                state.release([(one.url, "duplicate", "")])
            else:
                state.decide(one.url, "fetched")
                hashes[one.hash] = one.url


def _settle_moves(state: CrawlState) -> None:
    moves = state.targets("moved")
    for url in moves:
        if _end(url, moves) == "":
            state.note(url, "failed", reason="redirects in a circle")


def _ends(state: CrawlState) -> dict[str, str]:
    """Where each page that passes on leads in the end, "" where that is nowhere."""
    onward = {**state.targets("moved"), **state.targets("alias"), **state.targets("duplicate")}
    return {url: _end(url, onward) for url in onward}


def _end(url: str, onward: Mapping[str, str]) -> str:
    seen = {url}
    while url in onward:
        url = onward[url]
        if url in seen:
            return ""
        seen.add(url)
    return url


def _to_remove(states: Mapping[str, PageState], ends: Mapping[str, str], kept: set[str]) -> list[str]:
    """The kept pages that the site no longer has, or has elsewhere; not those that only failed this time."""
    removed = []
    for url in kept:
        state = states.get(url)
        if state in _PASSED_ON:
            there = states.get(ends.get(url, ""))
            if there in ("stored", "gone", "skipped"):
                removed.append(url)
        elif state in _NO_MORE:
            removed.append(url)
    return sorted(removed)


def _runs(text: str) -> set[int]:
    """The text's runs of a few words, whatever lines and marks are between them."""
    words = _WORD.findall(text.lower())
    return {hash(tuple(words[start : start + _RUN_WORDS])) for start in range(max(1, len(words) - _RUN_WORDS + 1))}
