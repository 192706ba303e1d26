"""What a question about a codebase asks for: callers, implementations, a way from one symbol to another."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Intent = Literal["callers", "callees", "implementations", "users", "way", "mentions", "general"]

_NAME = (
    r"[`'\"]?\\?([A-Za-z_$][\w$]*(?:(?:\.|::?|#|->|\\+)[A-Za-z_$][\w$]*)*[!?]?)"  # App\Str::slug, Conn.valid?
    r"(?:/\d+)?(?:\([^)]*\))?[`'\"]?"
)
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
_WAY = re.compile(
    rf"\bhow\s+(?:does|do|did|can|could|would)\s+(?:an?\s+|the\s+)?{_NAME}\s+(?:\w+\s+)?"
    rf"(?:reach|call|invoke|trigger|get\s+to|lead\s+to|end\s+up\s+(?:in|at|calling))\s+(?:the\s+)?{_NAME}"
    rf"|\bfrom\s+(?:the\s+)?{_NAME}\s+to\s+(?:the\s+)?{_NAME}",
    re.I,
)
# "get" forms the passive where no article follows: "gets parsed", but "get the user".
_ASKING = re.compile(
    r"\b(?:how|what|when|where|why|which|who|do|does|did|is|are|was|were|be|been|being|can|could|should|would|will|has"
    r"|have|had|it|its|i|we|you)\b|\b(?:gets?|got|getting)\b(?=\s+(?!(?:an?|the|my|all|its|their|some)\b)[a-z]+)",
    re.I,
)
# Verbs that name functions: no stemmer knows that what is sent is sent by send.
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


class Question(NamedTuple):
    text: str
    intent: Intent
    name: str  # the symbol it names, "" if none
    to: str = ""  # the symbol to which it asks for the way from there


def read_question(text: str) -> Question:
    if match := _WAY.search(text):
        return Question(text, "general", match[1] or match[3], (match[2] or match[4]).rstrip("?"))
    for intent, pattern in _PATTERNS:
        if match := re.search(pattern, text, re.I):
            return Question(text, intent, match[1])
    return Question(text, "general", "")


def content_of(text: str) -> str:
    """The question for a search: "how does a request get sent" becomes "a request send"."""
    words = _ASKING.sub(" ", text).strip(" ?.,").split()
    return " ".join(_BASES.get(word.lower(), word) for word in words) or text


def named_in(text: str) -> list[str]:
    """The words of a question that look like code: `split_args`, SplitArguments, Foo.run."""
    written = re.findall(r"`([\w.:#]+)(?:\(\))?`|\b([A-Za-z_]\w*(?:(?:\.|::)\w+)*)\b", text)
    words = [quoted or plain for quoted, plain in written if quoted or re.search(r"_|[a-z\d][A-Z]|::|\w\.\w", plain)]
    return list(dict.fromkeys(words))
