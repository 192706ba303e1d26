"""Reads transcripts: who said what, the kind of each sentence, and sentences reworded as instructions."""

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
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9\[])|\n+")


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


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [piece for each in _SENTENCE.split(text) if (piece := each.strip())]


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


# --- sentences -------------------------------------------------------------------------------------------


Kind = Literal["pleasantry", "action", "finding", "question", "directive", "condition", "escalation", "information"]

_LEAD_IN = re.compile(
    r"^(?:(?:hi|hello|hey|ok(?:ay)?|great|perfect|alright|all right|sure|of course|absolutely|certainly|thanks"
    r"|thank you|no problem|no worries|good news|good|right|so|now|and|then|next|also|got it|understood|yes|no|well"
    r"|please note that|in that case|excellent|understandable|done|brilliant|wonderful|first|finally|after that"
    r"|sorry(?: to hear (?:that|about that)| about (?:that|this))?"
    r"|(?:thanks|thank you) for (?:that|confirming|waiting|checking|the details|your patience|bearing with me))"
    r"(?: \[name\])?\s*[,.!:–-]+\s*|(?:so|now|and|then|also|next|hi|hello|hey)\s+)+",
    re.I,
)
_PLEASANTRY = re.compile(
    r"^(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|welcome|thanks?|thank you"
    r"|you(?:'|’)?re (?:very )?welcome|my pleasure|no problem|no worries|sorry"
    r"|(?:I'm|I’m|I am) (?:so |very |really )?(?:sorry|glad|happy)|that(?:'|’)s (?:great|good|wonderful|frustrating)"
    r"|I (?:understand|apologi[sz]e|see|know)(?! (?:that |the |your |two |a ))|great|perfect|glad|happy to|of course"
    r"|sure|absolutely|certainly|(?:I'd|I’d|I would) be (?:glad|happy) to|I can help|let me (?:help|check|look)(?=\W*$)"
    r"|let me help|how (?:can|may) (?:I|we)|(?:is there )?anything else|have a |take care|enjoy|bye|goodbye"
    r"|one moment|just a moment|bear with me|please hold(?: on)?(?=\W*$|,? while|,? for (?:a|one|just))|understood"
    r"|got it|ok(?:ay)?|brilliant|excellent|wonderful)\b",
    re.I,
)
_CLOSING = re.compile(r"\banything else\b|\bhow (?:can|may) (?:I|we) help\b|\bglad (?:that|it|to)\b", re.I)
_SUBJECT = re.compile(
    r"^(?:I|we|let me|let's|let’s)(?:(?:'|’)(?:ve|ll|m|d)|\s+(?:have|will|am|can|could|would|need to|had))?"
    r"(?:\s+(?:now|just|also|already|quickly|then|gone ahead and|go ahead and|going to|first|like to|like"
    r"|been able to|able to|had to|need to|personally|manually|successfully))*\s+(?P<rest>.+)$",
    re.I | re.S,
)
_FINDING = words(
    """see saw find found notice noticed confirm confirmed show shows shown identify identified understand think believe
    know suspect looks look"""
)
_EARLIER = re.compile(r"\b(?:yesterday|last (?:night|week|month|year)|(?:earlier|days|weeks) (?:today|ago))\b", re.I)
_DIRECTIVE = re.compile(
    r"^(?:please|try|could you(?: please)?|can you(?: please)?|would you|go|click|tap|open|select|choose|enter|type"
    r"|press|hold|restart|reboot|unplug|plug|turn|switch|remove|delete|uninstall|install|update|download|check|sign|log"
    r"|clear|wait|reply|send|forward|make sure|keep|use|copy|paste|scan|connect|disconnect|pack|drop|print|bring|follow"
    r"|visit|disable|enable|allow|change|set|add|refresh|close|leave|scroll|reconnect|reset|accept|confirm|once you"
    r"|take|put|push|pull|upload|submit"
    r"|you(?:'ll| will|’ll) (?:need|have) to|you can|you should|you(?:'ll| will|’ll) (?:see|find|get|receive))\b",
    re.I,
)
_ESCALATION = re.compile(
    r"\b(?:escalat\w+|hand(?:ing|ed)? (?:this |it |you )?(?:over|off)|transfer(?:ring|red)? (?:you|this)|tier (?:2|two)"
    r"|second.line|specialist|supervisor|our (?:engineers?|engineering|fraud|legal|security) team)\b",
    re.I,
)
_IRREGULAR = {
    "sent": "send", "found": "find", "made": "make", "taken": "take", "took": "take", "given": "give", "gave": "give",
    "ran": "run", "got": "get", "done": "do", "did": "do", "seen": "see", "saw": "see", "told": "tell", "left": "leave",
    "kept": "keep", "held": "hold", "built": "build", "written": "write", "wrote": "write", "begun": "begin",
    "paid": "pay", "gone": "go", "went": "go", "brought": "bring", "cancelled": "cancel", "filed": "file",
    "resumed": "resume", "revoked": "revoke", "voided": "void", "noted": "note", "restored": "restore",
}  # fmt: skip
# Verbs whose past form drops an e: activated, updated, notarised, moved, placed, closed, charged, issued, enabled.
_DROPS_E = re.compile(r"(?:grad|lud|at|iz|is|ut|us|ur|ir|ag|ang|erg|uc|ol|ib|id|in|v|(?<!syn)c|[^s]s|rg|u|bl|dul|par)$")


def kind_of(sentence: str) -> Kind:
    """What kind of sentence it is."""
    core = core_of(sentence)
    if not core or _CLOSING.search(core) or (_PLEASANTRY.match(core) and len(core.split()) < 14):
        return "pleasantry"
    if re.match(r"(?:if|in case|unless|should (?:you|it|the))\b", core, re.I):
        return "condition"
    if is_escalation(core):
        return "escalation"
    if core.endswith("?"):
        return "question"
    if subject := _SUBJECT.match(core):
        verb = re.split(r"\W", subject["rest"], maxsplit=1)[0].lower()
        # "Let me look at your order" says what is done, "we moved it last night" what is so.
        found = verb in _FINDING and not core.lower().startswith("let ")
        return "finding" if found or _EARLIER.search(core) else "action"
    return "directive" if _DIRECTIVE.match(core) else "information"


def is_escalation(sentence: str) -> bool:
    """Whether the case is handed to someone else."""
    return _ESCALATION.search(sentence) is not None


def core_of(sentence: str) -> str:
    """The sentence without polite opening words."""
    core = _LEAD_IN.sub("", sentence.strip())
    return core[:1].upper() + core[1:] if core else ""


def imperative(sentence: str) -> str:
    """An agent's "I've reset your password" as the instruction "Reset the customer's password"."""
    core = core_of(sentence).rstrip(" .!")
    subject = _SUBJECT.match(core)
    text = subject["rest"] if subject else re.sub(r"^(?:please|(?:could|can) you(?: please)?)\s+", "", core, flags=re.I)
    first, _, rest = text.partition(" ")
    text = f"{base_form(first)} {rest}".strip()
    # A second verb in the past tense becomes an imperative too: "unlocked the account and sent a link".
    text = re.sub(
        r"(?<!ed )\band (\w+(?= (?:a|an|the|your|it|you|its|all|two)\b)|\w+ed(?= \w))",
        lambda m: f"and {base_form(m[1])}",
        text,
    )
    return capitalised(third_person(_to_us(text)))


def _to_us(text: str) -> str:
    """The text with "us" for the agent who spoke: whoever reads the playbook is another one."""
    return re.sub(r"\bme\b", "us", text)


def finding(sentence: str) -> str:
    """What an agent found: "I can see that the line is fine" as "The line is fine"."""
    core = core_of(sentence).rstrip(" .!")
    if not _EARLIER.search(core):
        core = re.sub(r"^(?:I|we)(?: can| could)? \w+(?: that| in (?:the|our) [\w ]+ that)?\s+", "", core, flags=re.I)
    return capitalised(third_person(core))


def request(question: str) -> str:
    """An agent's question as the instruction to ask it."""
    core = core_of(question).rstrip(" ?")
    for pattern, put in (
        (r"(?:can|could|would|will) you (?:please )?(?:tell|give|send|share|show)(?: me| us)? (.+)", "Ask for {}"),
        (r"would you (?:like|prefer) (.+)", "Ask whether they would like {}"),
        (r"(?:can|could|would|will) you (?:please )?(.+)", "Ask the customer to {}"),
        (r"are you (.+)", "Ask whether they are {}"),
        (r"do you (.+)", "Ask whether they {}"),
        (r"(?:have|did) you (.+)", "Ask whether they have done this: {}"),
        (r"((?:is|are|does|was) .+)", "Ask: {}?"),
    ):
        if found := re.fullmatch(pattern, core, re.I | re.S):
            return put.format(third_person(_to_us(found[1])).replace("the customer's", "their"))
    return f"Ask: {core}?"


def base_form(verb: str) -> str:
    """The imperative of a verb."""
    low = verb.lower()
    if low in _IRREGULAR:
        return _IRREGULAR[low]
    if low.endswith("ied") and len(low) > 4:
        return low[:-3] + "y"
    if low.endswith("ed") and len(low) > 4 and not low.endswith("eed"):
        stem = low[:-2]
        if _DROPS_E.search(stem) and not re.search(r"(?:eat|oin|ain|vis|rain|edit|aid)$", stem):
            return stem + "e"
        return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
    if low.endswith("ing") and len(low) > 5:
        return low[:-3]
    return verb


def third_person(text: str) -> str:
    """Words to the customer as words about the customer."""
    for pattern, put in (
        (r"\byou(['’](?:re|ll|ve|d))\b", r"they\1"),
        (r"\byours?\b", "the customer's"),
        (r"(^|\b(?:if|when|once|that|because|and|so|until|before|after|what|where|which)\s+|[,;:]\s*)you\b", r"\1they"),
        (r"\byou (can|will|should|need|have|may|must|want|do|don['’]t|are|see)\b", r"they \1"),
        (r"\b(while|as|whenever|how|why|whether) you\b", r"\1 they"),
        (r"\byou\b", "the customer"),
    ):
        text = re.sub(pattern, put, text, flags=re.I)
    return text


_OPENING = re.compile(
    r"^(?:I(?:'|’)?m (?:having (?:trouble|issues|problems|an issue|a problem) (?:with )?|trying to )"
    r"|I(?:'|’)?m (?:calling|writing) (?:because|about) "
    r"|I (?:have|got) (?:a|an) (?:problem|issue|question) (?:with |about )?"
    r"|I (?:think|believe|just|want to|need to|would like to|was wondering (?:how|if|why)) |(?:I|we)(?:'|’)d like to "
    r"|it (?:seems|looks like) |for some reason,? |can you |could you |how (?:do|can) I |why did you "
    r"|I(?:(?:'|’)m| am| was|(?:'|’)ve| have) (?:been )?|I |my |the |our |there(?:'|’)?s |there is "
    r"|we (?:are|were|have|need to|want to) |we )+",
    re.I,
)
_TRAILING = re.compile(
    r"(?<![\s,;:.!?–-])(?:[\s,;:.!?–-]++(?:and|or|but|so|the|a|an|of|to|on|in|at|for|with|by|from|than|that|which|when|because|since|now|is|was"
    r"|their|they|them|one|not|only|there|we|you|if|as|has|have|it is))*+[\s,;:.!?–-]*+$",
    re.I,
)


def impersonal(text: str) -> str:
    """A customer's sentence as the name of a problem: "I was charged twice" is "Charged twice"."""
    text = _OPENING.sub("", core_of(text).rstrip(" .!?"))
    for pattern, put in (
        (r"\b(?:my|our)\b", "their"),
        (r"\b(?:I|we)(['’])m\b", r"they\1re"),
        (r"\bI am\b", "they are"),
        (r"\bI was\b", "they were"),
        (r"\b(?:I|we)\b", "they"),
        (r"\b(?:me|us)\b", "them"),
        (r"\b(from|by|with|to|at|of|for) you\b", r"\1 us"),
        (r"\byou(?:r system)?\b", "we"),
        (r"\byour\b", "our"),
    ):
        text = re.sub(pattern, put, text, flags=re.I)
    return capitalised(text)


def shortened(text: str, limit: int) -> str:
    """At most `limit` words, cut at the end of a clause where there is one, without trailing function words."""
    pieces = text.split()
    cut = " ".join(pieces[:limit])
    if len(pieces) > limit:
        clause = max(cut.rfind(mark) for mark in (", ", "; ", " – ", " - ", " because ", " but ", " so ", ". "))
        cut = cut[:clause] if clause > len(cut) // 2 else _TRAILING.sub("", cut) or cut
        cut = cut[: cut.rfind("[")] if cut.rfind("[") > cut.rfind("]") else cut  # not within a placeholder
    return cut.rstrip(" ,;:.!?")


def capitalised(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]
