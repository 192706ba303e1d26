"""What do names, signatures and comments say once the syntax is taken off?"""

from __future__ import annotations

import re

MAX_SIGNATURE = 400
MAX_DOC = 1500
_MAX_RECEIVER = 80
_LAST_NAME = re.compile(r"(?:^|(?<=[^\w$@]))[~@$#]*([\w$]+[?!]?)$")
_GROUPS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>|\{[^{}]*\}")
_RECEIVER = re.compile(r"([\w.:]*\w)(?:\.|::)\s*$")
_BLANKS = re.compile(r"\s+")
_KEYWORD = re.compile(r"^[\s(]*(?:(?:try[?!]?|await|new|not|throw|yield|co_await)\s+)+")
_TAIL = re.compile(r"[\s{:=]+$|\s*=>\s*$")
_COMMENT_START = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|\*(?!\*)|//[/!]*|#+!?|--+\|?|;+|%+)[ \t]?")
_COMMENT_END = re.compile(r"[ \t]*(?:\*+/|-\})?[ \t]*$")
_RULE = re.compile(r"^[\W_]{4,}$")


def split_name(text: str) -> tuple[str, str]:
    """(name, receiver) of an expression as written: `client.session.get` is get and client.session."""
    if text.isidentifier():
        return text, ""
    head, _, tail = text.rpartition(".")
    if tail.isidentifier() and head.replace(".", "").isidentifier():
        return tail, head
    if "(" in text or "<" in text or "[" in text or "{" in text or " " in text or "\n" in text:
        text = without_groups(text)
    found = _LAST_NAME.search(text)
    if not found:
        return "", ""
    receiver = text[: found.start()].rstrip("~@$#")
    while receiver and receiver[-1] in ".:?!->\\&* ":
        receiver = receiver[:-1]
    if not receiver and text.startswith("."):
        receiver = "."  # Swift's .init(…) is not of the type around it
    return found[1], receiver.lstrip("&*!(^$ ")[-_MAX_RECEIVER:]


def receiver(text: str) -> str:
    """An expression that something is asked of, short and on one line."""
    if not text.isidentifier():
        text = without_groups(text) + ("()" if text.endswith(")") else "")
    return text.lstrip("$")[-_MAX_RECEIVER:]


def receiver_before(text: str) -> str:
    """What a name that follows the text is asked of: `let x = Point::` is Point."""
    found = _RECEIVER.search(text)
    return found[1] if found else ""


def without_groups(text: str) -> str:
    """The text on one line without what stands in brackets: `a(b).c<D>` is `a().c`."""
    text = text.rstrip()
    for _ in range(8):
        text, changed = _GROUPS.subn(lambda m: "\0" if m[0][0] == "(" else "", text)
        if not changed:
            break
    text = text.rstrip("\0 \n\r\t:.")
    return _BLANKS.sub("", _KEYWORD.sub("", text.replace("\0", "()")))


def signature(text: str) -> str:
    """A definition's head on one line."""
    one_line = _TAIL.sub("", " ".join(text.split())).strip()
    one_line = one_line.replace("( ", "(").replace(" )", ")").replace(",)", ")")
    if len(one_line) > MAX_SIGNATURE:
        one_line = one_line[:MAX_SIGNATURE].rsplit(" ", 1)[0] + " …"
    return one_line


def doc_comment(text: str) -> str:
    """What a comment says, without its marks."""
    if text.lstrip().startswith("@"):  # Elixir's @doc
        return docstring(re.sub(r"^\s*@\w+\s*", "", text))
    kept = []
    for line in text.splitlines():
        said = _COMMENT_END.sub("", _COMMENT_START.sub("", line, count=1))
        kept.append("" if _RULE.match(said) else said)
    return "\n".join(kept).strip()[:MAX_DOC]


def docstring(text: str) -> str:
    """What a string literal says, with its own indentation taken off."""
    body = text.lstrip("rRuUbBfF~sS").strip("\"'")
    first, _, rest = body.partition("\n")
    lines = rest.splitlines()
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join([first.strip(), *(line[indent:].rstrip() for line in lines)]).strip()[:MAX_DOC]
