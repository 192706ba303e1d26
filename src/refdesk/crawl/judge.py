"""What becomes of a page, given what its address answered?"""

from __future__ import annotations

from dataclasses import dataclass

from refdesk.crawl.client import Answer
from refdesk.crawl.known import PageState
from refdesk.crawl.look import Looked, look_at
from refdesk.crawl.options import Scope
from refdesk.crawl.pace import retry_after
from refdesk.crawl.rules import links_in_markdown
from refdesk.crawl.urls import clean
from refdesk.errors import ParseFailed

_GONE = (404, 410)
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524))
_MARKDOWN = ("text/markdown", "text/x-markdown")
MOST_HOPS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What becomes of a page."""

    state: PageState
    reason: str = ""
    target: str = ""  # the address that it redirects to or calls its own
    links: tuple[str, ...] = ()
    passing: bool = False  # the failure may heal: to be tried again
    pause_s: float = 0.0  # the site asks to be left alone for so long


def judge(url: str, answer: Answer, scope: Scope, hops: int = 0) -> Outcome:
    """What the answer makes of the page."""
    if answer.location:
        return _moved(url, clean(answer.location), scope, hops)
    if answer.status == 304:
        return Outcome(state="stored")
    if answer.status in _GONE:
        return Outcome(state="gone", reason=f"status {answer.status}")
    if answer.status != 200:
        passing = answer.status in _PASSING
        pause_s = retry_after(answer.headers) if passing else 0.0
        return Outcome(state="failed", reason=f"status {answer.status}", passing=passing, pause_s=pause_s)
    if answer.unread:
        return Outcome(state="skipped", reason=answer.unread)
    if not answer.is_html:
        return _text(url, answer)
    try:
        looked = look_at(answer.data, answer.charset, url, answer.headers)
    except ParseFailed as error:
        return Outcome(state="skipped", reason=error.message)
    return judge_page(url, looked, scope, hops)


def judge_page(url: str, looked: Looked, scope: Scope, hops: int = 0) -> Outcome:
    """What a page's own words make of it."""
    if looked.onward and looked.onward != url:
        return _moved(url, looked.onward, scope, hops)
    if not looked.may_keep:
        return Outcome(state="skipped", reason="the site asks not to keep it (noindex)", links=looked.links)
    if looked.needs_scripts:
        return Outcome(state="scripts", reason="empty without JavaScript", links=looked.links)
    canonical = looked.canonical
    if canonical and canonical != url and hops < MOST_HOPS and not scope.why_not(canonical):
        return Outcome(state="alias", target=canonical, links=looked.links)
    return Outcome(state="fetched", links=looked.links)


def _moved(url: str, target: str, scope: Scope, hops: int) -> Outcome:
    if not target or not scope.has(target):
        return Outcome(state="skipped", reason=f"redirects away, to {target or 'no web address'}")
    if target == url:
        return Outcome(state="failed", reason="redirects to itself")
    if hops >= MOST_HOPS:
        return Outcome(state="failed", reason=f"redirects more than {MOST_HOPS} times")
    if reason := scope.why_not(target):
        return Outcome(state="skipped", reason=f"redirects to {target}, {reason}")
    return Outcome(state="moved", target=target)


def _text(url: str, answer: Answer) -> Outcome:
    if "noindex" in answer.headers.get("x-robots-tag", "").lower():
        return Outcome(state="skipped", reason="the site asks not to keep it (noindex)")
    is_markdown = answer.content_type in _MARKDOWN or url.endswith(".md")
    links = links_in_markdown(answer.data.decode("utf-8", "replace"), url) if is_markdown else ()
    return Outcome(state="fetched", links=links)
