"""Does what reads untrusted text take time that grows with the text?  Attacks with inputs that make others backtrack.

Steps of Python's regular expressions can't be counted, and wall-clock time tells more about the machine than about the
code. So each attack runs on a text that is long enough for squares of its length to take minutes, under a limit of
processor time that linear work stays far below: a blow-up fails by orders of magnitude, never by a hair.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType

from refdesk.crawl import page
from refdesk.errors import InvalidInput, RefdeskError
from refdesk.llm import models
from refdesk.parse.code import facts
from refdesk.parse.prose.manifest import chunking_hint, read_front_matter
from refdesk.search.understand import understand
from refdesk.skills import conversation, extract, merge, redact, refine, wording
from refdesk.skills.format import from_markdown, parse
from refdesk.sources.git import compile_pattern
from refdesk.text import globs
from refdesk.text.untrusted import flag

LENGTH = 60_000  # characters
LIMIT_S = 10.0  # of processor time; the slowest attack takes about one second, a square of the length minutes
Attack = tuple[str, Callable[[], object]]


class _TooSlow(Exception):
    pass


def texts(pumps: tuple[str, ...], before: str = "", after: str = "\0") -> Iterator[str]:
    """One long text of each pump."""
    for pump in pumps:
        yield before + pump * (LENGTH // len(pump)) + after


def attacks(seed: int, rounds: int) -> Iterator[Attack]:
    """What is known to have been slow, and random globs against paths of their own letters."""
    names = "".join(f"Ab{chr(97 + at % 26)}{chr(97 + at // 26 % 26)}{chr(97 + at // 676)}: hi\n" for at in range(6_000))
    talk = (
        "reference ",
        "A_",
        "10:00  ",
        "Customer: a\n",
        "I am A ",
        "(",
        "A ",
        "0-",
        ". ",
        "a@",
        "eyJaaaaaaaa.",
        "\n ",
    )
    contacts = "".join(f"Customer: order AB-{at:06d}\nAgent: mail help{at}@acme.com\n" for at in range(6_000))
    for text in (*texts(talk), "A" + "_" * LENGTH, "10:00" + " " * LENGTH, names + names, contacts):
        yield f"redact {text[:12]!r}", partial(redact.redact, text)
        yield f"transcript {text[:12]!r}", partial(conversation.read, text + "\nAgent: hi")
    draft = extract.extract(conversation.read("Customer: it drops\nAgent: Please restart it.\nCustomer: It works."), {})
    for text in texts(
        (
            "a",
            "A ",
            "a, ",
            "please ",
            "if a, ",
            "can you ",
            "and ",
            "a? ",
            "- ",
            "1. a\n",
            "**Do** ",
            "'",
            "a-",
            "\n\n",
        ),
        after="",
    ):
        said = f"Customer: {text}\nAgent: {text}\nCustomer: it works"
        yield f"extract {text[:9]!r}", partial(_read, lambda said: extract.extract(conversation.read(said), {}), said)
        yield f"refine {text[:9]!r}", partial(refine.refine, draft, conversation.read(said), text)
        yield f"playbook {text[:9]!r}", partial(_read, parse, text)
        yield f"skill file {text[:9]!r}", partial(_read, from_markdown, f"---\nname: a\n---\n# a\n{text}")
        yield f"sentence {text[:9]!r}", partial(_reword, text)
        yield f"likeness {text[:9]!r}", partial(merge.likeness, text, f"{text[9:]}b")
    for text in texts(("<a>; ", "<a>;rel ", "0", " ", "0;url=")):
        yield f"link header {text[:9]!r}", partial(page._LINK_HEADER.search, text)
        yield f"refresh {text[:9]!r}", partial(page._REFRESH.match, text)
    for text in texts(("<!--mcp_chunking_hint:{", "<!-- ", "<!--mcp_chunking_hint: ")):
        yield f"hint {text[:30]!r}", partial(chunking_hint, text)
    for text in texts((": ", "a: ", "- ", "&a [*a, ", " " * 9), before="---\na: "):
        yield f"front matter {text[:12]!r}", partial(read_front_matter, [*text.split("\n"), "---"])
    for text in texts((" ", "a.", "a::", ": ", '"', "mut ", "for ", "(a", "<a ", "fun ", "class a", "A", ",")):
        for name in ("_VARIABLE", "_PATH", "_LOOP", "_GO_TYPE"):
            yield f"{name} {text[:9]!r}", partial(getattr(facts, name).fullmatch, text)
        for name in ("_FUNCTION_TYPE", "_DOTTED", "_METATYPE"):
            yield f"{name} {text[:9]!r}", partial(getattr(facts, name).findall, text)
        yield f"path {text[:9]!r}", partial(facts.dotted, text)
        yield f"query {text[:9]!r}", partial(understand, text)
    for text in texts(("\n", "```", "```json\n", " \n"), before="```json\n"):
        yield f"fenced {text[-9:]!r}", partial(models._FENCED.search, text)
    told = (
        "ignore your ",
        "send .env http://?=",
        "ai agents that must ",
        "<!-- ai must ",
        "<a hidden>",
        "do not tell ",
        "says '",
    )
    for text in texts(
        (*told, "i.", "<|im_start|>system ", "](http://", "decode then ", "\u200bа", "忽略", "A" * 40 + " ")
    ):
        yield f"flag {text[:20]!r}", partial(flag, text)
    yield from _globs(random.Random(seed), rounds)


def _read(read: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(RefdeskError):
        read(text)


def _reword(text: str) -> None:
    for change in (
        wording.kind_of,
        wording.core_of,
        wording.imperative,
        wording.finding,
        wording.request,
        wording.third_person,
        wording.impersonal,
        wording.is_escalation,
    ):
        change(text)


_PIECES = (
    "a",
    "b",
    "*a",
    "*",
    "**",
    "**/",
    "/",
    "?",
    "[ab]",
    "{a,b}",
    "{*a,b}",
    "+(a|aa)",
    "*(a|ab)",
    "!(a*)",
    "**a*b",
    "\\",
)


def _globs(dice: random.Random, rounds: int) -> Iterator[Attack]:
    known = ("*a" * 5 + "b", "**/" * 10 + "b", "{" * 50_000, "{a," * 30 + "}" * 30, "+(a|aa)" * 9 + "b", "**a*b" * 40)
    made = ("".join(dice.choices(_PIECES, k=3)) * dice.randint(1, 60) + "b" for _ in range(rounds))
    for glob in (*known, *made):
        for path in ("a" * 4_000, "a/" * 2_000, "ab" * 2_000):
            yield f"glob {glob[:40]!r}", partial(_match, glob, path)


def _match(glob: str, path: str) -> None:
    for read in (globs.path_filter, globs.manifest_glob):
        try:
            read(glob).fullmatch(path)
        except InvalidInput:  # beyond the limits, and told so
            continue
    for slashes in (True, False):
        if len(glob) <= globs.MOST_CHARACTERS and (found := compile_pattern(glob.encode(), slashes=slashes)):
            found.fullmatch(path.encode())


def slow(seed: int, rounds: int) -> Iterator[str]:
    """The attacks that took too long, each with what it ended in; for the main thread of a process of its own."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooSlow

    signal.signal(signal.SIGVTALRM, stop)
    for name, attack in attacks(seed, rounds):
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_S)
        try:
            attack()
        except _TooSlow:
            yield name
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


if __name__ == "__main__":
    for one in slow(int(sys.argv[1]), int(sys.argv[2])):
        print(one, flush=True)
