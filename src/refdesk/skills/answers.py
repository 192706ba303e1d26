"""Finds what customers say of themselves without capitals: what they answer when asked for it, and how they introduce
themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile

from refdesk.skills.vocabulary import STOP_TERMS, is_person, words
from refdesk.text import analyse

# What an agent may ask for, and what the answer is replaced by; the first that is asked for counts.
_ASKED = tuple(
    (placeholder, re.compile(pattern, re.I))
    for placeholder, pattern in (
        ("[user name]", r"\b(?:user|login|screen|profile|account) ?name\b|\buser ?id\b|\bgamer ?tag\b"),
        ("[secret]", r"\bpass(?:word|code|phrase)\b|\bpin\b|\bsecurity (?:word|answer|question)\b|\bmaiden name\b"),
        (
            "[name]",
            r"\b(?:your|full|first|last|whose|(?:customer|passenger|guest|patient|holder|member)(?:['’]s)?) (?:\w+ )?"
            r"name\b"
            r"|\bsurname\b|\bname,? (?:please|and|on (?:the|your) (?:account|card|order|booking|reservation|policy))\b"
            r"|\b(?:who am I|whom am I|am I) (?:speaking|chatting|talking)\b",
        ),
        ("[email]", r"\be-?mail\b"),
        (
            "[address]",
            r"\b(?<!web )(?<!ip )(?<!mac )address\b|\b(?:zip|post(?:al)?)[ -]?code\b"
            r"|\bwhere (?:do you live|should (?:we|I) (?:send|ship|deliver))",
        ),
        (
            "[number]",
            r"\b(?:social security|ssn|account|card|phone|mobile|contact|telephone|booking|reservation|confirmation"
            r"|order|policy|claim|customer|member(?:ship)?|loyalty|ticket|tracking|reference|passport|licen[cs]e|tax)"
            r"(?: \w+){0,2}? ?(?:numbers?|id|code|no)\b|\blast (?:four|4|three|3|six|6) digits\b",
        ),
    )
)
_ASKS = re.compile(
    r"\?|\b(?:please|provide|give|tell|share|need|confirm|verify|enter|state|have|know|send|help me with)\b", re.I
)
_TOKEN = re.compile(r"(?<![$€£])\b[\w@][\w@.'’/+-]*")
# Short forms that are no English words, and yet no names.
_SHORT_FORMS = words(
    "im ive dont cant wont didnt doesnt isnt thats its plz pls thx ur ssn ok okay hii hlo tnx no nos id ids"
)
# Words of the question, which the answer repeats.
_FORM_WORDS = words(
    """name first last full middle surname address email mail phone mobile number account card order booking
    confirmation policy claim password user username login code zip city street state country security social digits and
    my is it here this that sir madam yes no yeah sure hello thanks with for from"""
)
_LONGEST = 15  # words of an answer; a longer one tells a story, which other rules read


def answers(said: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What the customer gave when asked for it, and the placeholder to put instead."""
    asked: list[str] = []
    for role, text in said:
        if role == "agent":
            asked = [put for put, pattern in _ASKED if pattern.search(text)] if _ASKS.search(text) else []
        elif role == "customer" and asked:
            yield from _given(text, asked)
            asked = []


def _given(text: str, asked: list[str]) -> Iterator[tuple[str, str]]:
    tokens = list(_TOKEN.finditer(text))
    if len(tokens) > _LONGEST:
        return
    kinds = [_kind(token[0].strip(".'’-")) for token in tokens]
    if "[address]" in asked and "number" in kinds[:-1]:
        # From the first number or unusual word to the last, whatever is between them.
        places = [place for place, kind in enumerate(kinds) if kind in ("number", "unusual")]
        yield text[tokens[places[0]].start() : tokens[places[-1]].end()].strip(".'’-"), "[address]"
        return
    named = next((put for put in asked if put != "[number]"), "")
    if named:
        if len(tokens) == 1 and kinds == ["word"] and named in ("[secret]", "[user name]"):
            kinds = ["unusual"]
        if named == "[name]":
            _with_family_names(kinds)
        for kind, run in groupby(zip(kinds, tokens, strict=True), key=lambda one: one[0]):
            found = [token for _, token in run]
            if kind == "unusual":
                yield text[found[0].start() : found[-1].end()].strip(".'’-"), named
    if "[number]" in asked or named in ("[secret]", "[user name]", "[email]"):
        numbers = (token[0].strip(".'’-") for kind, token in zip(kinds, tokens, strict=True) if kind == "number")
        yield from ((number, "[number]") for number in numbers if len(number) > 2)


def _kind(token: str) -> str:
    """Whether a token is a number, an unusual word, an English word, or one that says nothing."""
    if any(map(str.isdigit, token)):
        return "number"
    word = re.sub(r"['’].*", "", token.lower())
    if word in _SHORT_FORMS or word in _FORM_WORDS or word in STOP_TERMS or len(word) < 2:
        return "stop"
    return "unusual" if is_person(word.capitalize()) or not analyse.is_english(word) else "word"


def _with_family_names(kinds: list[str]) -> None:
    """Makes an English word unusual that stands alone after an unusual one, since family names often are such words."""
    for place in range(1, len(kinds)):
        is_last = place + 1 == len(kinds)
        alone = kinds[place] == "word" and (is_last or kinds[place + 1] != "word")
        if kinds[place - 1] == "unusual" and (alone or (place == 1 and is_last and kinds[place] == "stop")):
            kinds[place] = "unusual"


_INTRODUCES = re.compile(
    r"\b(?P<cue>name(?:['’]s| is| was|:)?|call me|i['’]?m|i am|this is|it['’]?s|hi|hello|hey|thanks|thx|cheers"
    r"|to|from|with|for),? (?=(?P<said>[a-z]{2,}(?: [a-z]{2,}){0,3})(?![\w-]))"
)


def introduced(text: str) -> Iterator[str]:
    """Names in small letters, by the words before them."""
    for found in _INTRODUCES.finditer(text):
        said, cue = found["said"].split(), found["cue"]
        kinds = [_kind(word) for word in said]
        if not said[1:]:
            ends = text[found.end("said") :][:1] in ("", ".", ",", "!", "\n")
        else:
            ends = kinds[1] in ("unusual", "stop")
        if cue in ("to", "from", "with", "for"):
            is_name = kinds[:2] == ["unusual", "unusual"]
        elif cue.startswith(("name", "call")):
            is_name = kinds[0] == "unusual"
        else:
            is_name = is_person(said[0].capitalize()) or (cue in ("i am", "this is") and kinds[0] == "unusual" and ends)
        if is_name:
            _with_family_names(kinds)
            yield from (word for word, _ in takewhile(lambda one: one[1] == "unusual", zip(said, kinds, strict=True)))
