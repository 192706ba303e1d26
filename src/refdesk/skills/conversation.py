"""Reads transcripts: who said what."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from refdesk.errors import InvalidInput
from refdesk.skills.redact import Redaction
from refdesk.skills.vocabulary import words

Role = Literal["customer", "agent", "note"]

_CUSTOMER = words(
    """customer user client caller visitor shopper human guest buyer subscriber member cust kunde kundin cliente usuario
    utilizador"""
)
_AGENT = words(
    """agent support assistant rep representative bot advisor operator specialist ai chatbot technician helpdesk csr
    supervisor engineer desk team admin care agente berater beraterin conseiller conseillère atendente"""
)
_NOTE = words("note notes internal system action tool log")
_LABEL = re.compile(
    r"^\s*+(?:[>*-]\s++)?(?:[\[(]?\d{1,2}:\d{2}(?::\d{2})?\s*+(?:[AaPp][Mm])?[\])]?\s*+[-–]?\s*+)?"
    r"(?:\*\*|__|\[)?(?P<who>[^\W\d_][\w .'’-]{0,40}?)(?:\s*\((?P<what>[^)\n]{1,40})\))?(?:\*\*|__|\])?"
    r"(?:\s*:(?:\*\*|__)?\s+|\s*：\s*)(?P<text>.*)$"
)
_NEXT_TURN = re.compile(rf"(?<=[.!?…\"”')\]])\s+(?=(?:{'|'.join(sorted(_CUSTOMER | _AGENT))})\s*:\s)", re.I)
_STAGE = re.compile(r"^\s*[\[(*](?P<text>[^\])*]{4,})[\])*]\s*$")
_OPENS_AS_AGENT = re.compile(
    r"\b(?:how (?:can|may) (?:I|we) help|thank(?:s| you) for (?:contacting|reaching|calling|chatting))", re.I
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side said at one time."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """A conversation without anything sensitive, and how that was taken out."""

    turns: tuple[Turn, ...]
    redaction: Redaction = field(default_factory=Redaction)

    def said_by(self, role: Role) -> list[str]:
        """What that side said, in order."""
        return [turn.text for turn in self.turns if turn.role == role]

    def __str__(self) -> str:
        return "\n".join(f"{turn.role.capitalize()}: {turn.text}" for turn in self.turns)


def read(conversation: str, feedback: str = "", known: str = "") -> Transcript:
    """The redacted turns of a conversation; where no speaker is named, paragraphs alternate.

    The feedback on it, and the playbook that is known already, tell which identifiers belong to the procedure.
    """
    said = spoken(conversation)
    redaction = Redaction.of([*said, ("feedback", feedback)], _a_turn_a_line(conversation), known)
    turns = tuple(Turn(role, redaction.clean(text.strip())) for role, text in said if text.strip())
    if not turns:
        raise InvalidInput("conversation is required")
    return Transcript(turns, redaction)


def spoken(conversation: str) -> list[tuple[Role, str]]:
    """Who said what, as it was written."""
    conversation = _a_turn_a_line(conversation)
    return _from_json(conversation) or _from_labels(conversation) or _from_paragraphs(conversation)


def _a_turn_a_line(conversation: str) -> str:
    """A transcript on one line ("Customer: Hi. Agent: Hello.") with one turn a line."""
    if "\n" in conversation.strip() or conversation.lstrip()[:1] in ("[", "{"):
        return conversation
    return _NEXT_TURN.sub("\n", conversation)


# --- the forms a transcript comes in --------------------------------------------------------------


def _from_json(text: str) -> list[tuple[Role, str]]:
    if text.lstrip()[:1] not in ("[", "{"):
        return []
    try:
        value: Any = json.loads(text)
    except ValueError:
        return []
    if isinstance(value, dict):
        value = next((value[key] for key in ("messages", "conversation", "turns") if key in value), [])
    if not isinstance(value, list):
        return []
    turns = [each for each in value if isinstance(each, dict)]
    said = [(str(_first(each, "role", "speaker", "author", "from")), _content(each)) for each in turns]
    return _with_roles([(who, text) for who, text in said if text])


def _first(item: dict[str, Any], *keys: str) -> Any:
    return next((item[key] for key in keys if item.get(key)), "")


def _content(item: dict[str, Any]) -> str:
    content = _first(item, "content", "text", "message", "body")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _from_labels(text: str) -> list[tuple[Role, str]]:
    labels = Counter(_speaker(found) for line in text.splitlines() if (found := _LABEL.match(line)))
    heard: list[tuple[str, list[str]]] = []  # speaker and lines, joined once: not in quadratic time
    for line in text.splitlines():
        found = _LABEL.match(line)
        stage = _STAGE.match(line)
        if found and _is_speaker(_speaker(found), labels):
            heard.append((_speaker(found), [found["text"]]))
        elif stage and heard:
            heard.append(("note", [stage["text"]]))
        elif heard and line.strip():
            heard[-1][1].append(line.strip())
    said = [(who, "\n".join(lines)) for who, lines in heard]
    speakers = {who for who, _ in said}
    return _with_roles(said) if len(speakers) > 1 or any(map(_role, speakers)) else []


def _speaker(found: re.Match[str]) -> str:
    return " ".join(filter(None, (found["who"], found["what"])))


def _is_speaker(who: str, labels: Counter[str]) -> bool:
    # "Settings: open the menu" has no speaker; a role is one, and so is a name that occurs again.
    return len(who.split()) <= 4 and (_role(who) is not None or (not who[0].islower() and labels[who] > 1))


def _from_paragraphs(text: str) -> list[tuple[Role, str]]:
    """Paragraphs by alternating speakers, the customer first unless the first one opens as an agent does."""
    pieces = [piece for piece in re.split(r"\n\s*\n", text.strip()) if piece.strip()]
    if len(pieces) < 2:
        pieces = [line for line in text.splitlines() if line.strip()]
    first: int = 1 if pieces and _OPENS_AS_AGENT.search(pieces[0]) else 0
    return [("agent" if (place + first) % 2 else "customer", piece) for place, piece in enumerate(pieces)]


def _with_roles(said: list[tuple[str, str]]) -> list[tuple[Role, str]]:
    roles: dict[str, Role] = {}
    for who, text in said:
        if who not in roles and (role := _role(who)) is not None:
            roles[who] = role
        elif who not in roles and _OPENS_AS_AGENT.search(text):
            roles[who] = "agent"
    for who, _ in said:  # the rest are names: whoever speaks first asks, the other answers
        if who not in roles:
            roles[who] = "agent" if "customer" in roles.values() else "customer"
    return [(roles[who], text) for who, text in said]


def _role(who: str) -> Role | None:
    found = set(re.findall(r"[a-z]+", who.lower()))
    if found & _NOTE:
        return "note"
    if found & _CUSTOMER and not found & words("service care support"):
        return "customer"
    return "agent" if found & _AGENT or "service" in found else None
