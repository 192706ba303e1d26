"""What does a question ask for?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Intent = Literal["callers", "callees", "implementations", "users", "general"]

_NAME = r"[`'\"]?([A-Za-z_$][\w$]*(?:(?:\.|::|#)[A-Za-z_$][\w$]*)*)(?:\([^)]*\))?[`'\"]?"
_PATTERNS: tuple[tuple[Intent, str], ...] = (
    (
        "callers",
        rf"\b(?:what|who|which \w+)\s+(?:calls?|invokes?|triggers?)\s+(?:the\s+)?(?:function\s+|method\s+)?{_NAME}",
    ),
    ("callers", rf"\b(?:callers?|call sites?|call graph|call chain)\s+(?:of|for|to)\s+(?:the\s+)?{_NAME}"),
    ("callers", rf"\bwhere\s+is\s+(?:the\s+)?{_NAME}\s+(?:called|invoked)"),
    ("users", rf"\b(?:usages?|uses|users?|references?)\s+(?:of|to)\s+(?:the\s+)?{_NAME}"),
    ("users", rf"\bwhere\s+is\s+(?:the\s+)?{_NAME}\s+(?:used|mentioned|referenced)"),
    ("users", rf"\b(?:what|who|which \w+)\s+(?:uses?|mentions?|references?|refers? to)\s+(?:the\s+)?{_NAME}"),
    ("callees", rf"\bwhat\s+does\s+(?:the\s+)?{_NAME}\s+(?:call|invoke|use|depend)"),
    ("callees", rf"\b(?:callees?|dependencies)\s+of\s+(?:the\s+)?{_NAME}"),
    (
        "implementations",
        rf"\b(?:implementations?|implementers?|implementors?|conformers?|conformances?|subclasses|subtypes|adopters?)"
        rf"\s+(?:of|to|for)\s+(?:the\s+)?{_NAME}",
    ),
    (
        "implementations",
        rf"\b(?:what|who|which \w+|types? that|classes that|everything that)\s+(?:all\s+)?"
        rf"(?:implements?|conforms? to|inherits? from|extends?|adopts?|subclass(?:es)?)\s+(?:the\s+)?{_NAME}",
    ),
)
# "get" is the passive's where no article follows: "gets parsed", but "get the user".
_ASKING = re.compile(
    r"\b(?:how|what|when|where|why|which|who|do|does|did|is|are|was|were|be|been|being|can|could|should|would|will|has"
    r"|have|had|it|its|i|we|you)\b|\b(?:gets?|got|getting)\b(?=\s+(?!(?:an?|the|my|all|its|their|some)\b)[a-z]+)",
    re.I,
)
# Of verbs that name functions: no stemmer knows that what is sent is sent by send.
_BASES = dict(
    re.findall(
        r"(\w+):(\w+)",
        """
        begun:begin bound:bind broken:break brought:bring built:build caught:catch chosen:choose done:do drawn:draw
        driven:drive fed:feed found:find frozen:freeze given:give gone:go grown:grow held:hold kept:keep known:know
        laid:lay led:lead left:leave lost:lose made:make met:meet overridden:override paid:pay ran:run rebuilt:rebuild
        rewritten:rewrite rung:ring said:say seen:see sent:send shown:show shrunk:shrink slept:sleep spent:spend
        spun:spin stolen:steal stuck:stick swept:sweep taken:take thrown:throw told:tell torn:tear woken:wake
        written:write
        """,
    )
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question taken apart."""

    text: str
    intent: Intent
    name: str  # the symbol it is about, "" when it names none


def read_question(text: str) -> Question:
    """What is asked, and of which symbol."""
    for intent, pattern in _PATTERNS:
        if match := re.search(pattern, text, re.I):
            return Question(text, intent, match.group(1))
    return Question(text, "general", "")


def content_of(text: str) -> str:
    """The question as code would say it: "how does a request get sent" without how and get, and with send for sent."""
    words = _ASKING.sub(" ", text).strip(" ?.,").split()
    return " ".join(_BASES.get(word.lower(), word) for word in words) or text


def named_in(text: str) -> list[str]:
    """The words of a question that are written as code: `split_args`, SplitArguments, Foo.run, in backticks or not."""
    written = re.findall(r"`([\w.:#]+)(?:\(\))?`|\b([A-Za-z_]\w*(?:(?:\.|::)\w+)*)\b", text)
    words = [quoted or plain for quoted, plain in written if quoted or re.search(r"_|[a-z\d][A-Z]|::|\w\.\w", plain)]
    return list(dict.fromkeys(words))
