"""Tells the kinds of sentences apart, and rewords what was said as instructions and titles."""

from __future__ import annotations

import re
from typing import Literal

from refdesk.skills.vocabulary import STOP_TERMS, content_terms, words
from refdesk.text import analyse
from refdesk.text.analyse import is_english

Kind = Literal["pleasantry", "action", "finding", "question", "directive", "condition", "escalation", "information"]

_SENTENCE = re.compile(
    r"(?<=[.!?…])(?<!\b[DM]r\.)(?<!\bM[sx]\.)(?<!\bMrs\.)(?<!\bProf\.)(?<!\be\.g\.)(?<!\bi\.e\.)"
    r"[\"'”’)]*\s+(?=[\"'“‘(]?[A-Z0-9\[])|\n+"
)
_LEAD_IN = re.compile(
    r"^(?:(?:(?:hi|hello|hey)(?: there)?|good (?:morning|afternoon|evening|day)"
    r"|ok(?:ay)?|great|perfect|alright|all right|sure|of course|absolutely|certainly"
    r"|thanks|thank you|no problem|no worries|good news|good|right|so|now|and|then|next|also|got it|understood|yes|no"
    r"|well|please note that|in that case|excellent|understandable|done|brilliant|wonderful|first|finally|after that"
    r"|in the meantime|meanwhile"
    r"|sorry(?: to hear (?:that|about that)| about (?:that|this))?"
    r"|(?:thanks|thank you) for (?:that|confirming|waiting|checking|the details|your patience|bearing with me))"
    r"(?: \[name\])?\s*[,.!:–-]+\s*"
    r"|(?:so|now|and|then|also|next(?! time)|in the meantime|meanwhile|(?:hi|hello|hey)(?: there)?)\s+)+",
    re.I,
)
_PLEASANTRY = re.compile(
    r"^(?:hi|hello|hey|(?:do not|don['’]t) worry|good (?:morning|afternoon|evening|day)|welcome|thanks?|thank you"
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
    r"^(?:I|we|let me|let's|let’s)(?:(?:'|’)(?:ve|ll|m|d)|\s+(?:have|will|am|can|could|would|need to|had(?! to)))?"
    r"(?:\s+(?:now|just|also|already|quickly|then|gone ahead and|go ahead and|going to|first|like to|like"
    r"|been able to|able to|had to|need to|personally|manually|successfully))*\s+(?P<rest>.+)$",
    re.I | re.S,
)
_FINDING = words(
    """see saw find found notice noticed confirm confirmed show shows shown identify identified understand think believe
    know suspect looks look had have"""
)
# "I just checked, and the file is empty" tells what the file is.
_LOOKED = re.compile(
    r"^(?:I|we)(?:['’]ve| have)?(?: just| now| also)? \w+,? (?:and|but) (?=(?:the|it|your|that|there|they|this)\b)",
    re.I,
)
_EARLIER = re.compile(r"\b(?:yesterday|last (?:night|week|month|year)|(?:earlier|days|weeks) (?:today|ago))\b", re.I)
_DIRECTIVE = re.compile(
    r"^(?:please|try|could you(?: please)?|can you(?: please)?|would you|go|click|tap|open|select|choose|enter|type"
    r"|press|hold|restart|reboot|unplug|plug|turn|switch|remove|delete|uninstall|install|update|download|check|sign|log"
    r"|clear|wait|reply|send|forward|make sure|keep|use|copy|paste|scan|connect|disconnect|pack|drop|print|bring|follow"
    r"|visit|disable|enable|allow|change|set|add|refresh|close|leave|scroll|reconnect|reset|accept|confirm|once you"
    r"|take|put|push|pull|upload|submit|have (?:them|him|her|everybody|everyone)"
    r"|you(?:'ll| will|’ll) (?:need|have) to|you (?:can|should|may|must|need to|have to)"
    r"|do not|don['’]t|never|avoid)\b",
    re.I,
)
_POLITE = re.compile(
    r"^(?:please|(?:could|can) you(?: please)?|you (?:can|should|may|must|need to|have to)"
    r"|you(?:['’]ll| will) (?:need|have) to)\s+",
    re.I,
)
# "Once it restarts, open the menu" and "while you wait, could you send it?" say when.
_WHEN = re.compile(
    r"^((?:when|once|while|as|after|before|until|for|in|on|at|under|with|from|next)\b[^,]{1,80}),\s+(?=\w)", re.I
)
# A verb at the start of a sentence is an instruction if this follows it: "call us", "peel off".
_OBJECT = re.compile(
    r"(?P<verb>[a-z]{3,}) (?:the|an?|your|it|them|us|me|this|these|those|any|all|both|each|every|off|out|up|down|back"
    r"|again)\b",
    re.I,
)
_NO_VERBS = words("even near like while till past round")  # though "evening" and "nearing" are words
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
    "used": "use", "resumed": "resume", "revoked": "revoke", "voided": "void", "noted": "note", "restored": "restore",
}  # fmt: skip
# Verbs whose past form drops an e: activated, updated, notarised, moved, placed, closed, charged, issued, enabled.
_DROPS_E = re.compile(r"(?:grad|lud|at|iz|is|ut|us|ur|ir|ag|ang|erg|uc|ol|ib|id|in|v|(?<!syn)c|[^s]s|rg|u|bl|dul|par)$")


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return [piece for each in _SENTENCE.split(text) if (piece := each.strip())]


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
    if re.match(r"let(?: me|['’]s)\b", core, re.I) and not content_terms(core):
        return "pleasantry"
    if subject := _SUBJECT.match(core):
        verb = re.split(r"\W", subject["rest"], maxsplit=1)[0].lower()
        # "Let me look at your order" says what is done, "we moved it last night" what is so.
        found = verb in _FINDING and not re.match(r"let(?:['’]s)? ", core, re.I)
        found = found or _LOOKED.match(core) is not None
        return "finding" if found or _EARLIER.search(core) else "action"
    rest = _WHEN.sub("", core)
    return "directive" if _DIRECTIVE.match(rest) or _is_instruction(rest) else "information"


def _is_instruction(core: str) -> bool:
    found = _OBJECT.match(core)
    verb = found["verb"].lower() if found else ""
    known = verb in _NO_VERBS or not STOP_TERMS.isdisjoint(analyse.terms(verb))
    forms = (f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1:]}ing")
    return bool(verb) and not known and any(map(is_english, forms))


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
    text = subject["rest"] if subject else _POLITE.sub("", core)
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
    core = _LOOKED.sub("", core)
    if not _EARLIER.search(core):
        core = re.sub(r"^(?:I|we)(?: can| could)? \w+(?: that| in (?:the|our) [\w ]+ that)?\s+", "", core, flags=re.I)
    return capitalised(third_person(core))


def request(question: str) -> str:
    """An agent's question as the instruction to ask it."""
    core = re.sub(r",? please$", "", core_of(question).rstrip(" ?"), flags=re.I)
    if when := _WHEN.match(core):
        asked = request(core[when.end() :])
        return f"{capitalised(third_person(when[1]))}, {asked[:1].lower()}{asked[1:]}"
    for pattern, put in (
        (r"(?:may|can|could) (?:I|we) (?:please )?(?:have|get|ask for|see) (.+)", "Ask for {}"),
        (r"would you mind (.+)", "Ask whether they would mind {}"),
        (r"(?:can|could|would|will) you (?:please )?tell(?: me| us)? ((?:what|how|wh\w+|if)\b.+)", "Ask {}"),
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
    ending = next((each for each in ("ed", "ing") if low.endswith(each) and len(low) > len(each) + 2), "")
    stem = low.removesuffix(ending)
    doubled = [stem[:-1]] if stem[-1:] == stem[-2:-1] else []
    known = [each for each in (*doubled, stem, f"{stem}e") if ending and is_english(each)]
    if len(known) == 1:
        return known[0]
    if ending == "ed" and not low.endswith("eed"):
        if _DROPS_E.search(stem) and not re.search(r"(?:eat|oin|ain|vis|rain|edit|aid)$", stem):
            return stem + "e"
        return stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
    return stem if ending == "ing" and known else verb


def third_person(text: str) -> str:
    """Words to the customer as words about the customer."""
    for pattern, put in (
        (r"\byou(['’](?:re|ll|ve|d))\b", r"they\1"),
        (r"\byours?\b", "the customer's"),
        (r"(^|\b(?:if|when|once|that|because|and|so|until|before|after|what|where|which)\s+|[,;:]\s*)you\b", r"\1they"),
        (r"\byou (can|will|should|need|have|may|must|want|do|don['’]t|are|see)\b", r"they \1"),
        (r"\b(while|as|whenever|how|why|whether) you\b", r"\1 they"),
        (r"\byou\b", "the customer"),
        (r"(\bthey\b[^.;]{0,80}?)\bthe customer['’]s\b", r"\1their"),
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
    r"|their|your|my|our|his|her|its|they|them|one|not|only|there|we|you|if|as|has|have|are|be|while|until|before|after|what(?:['’]s)?|how|who|where"
    r"|it is)\b)*+[\s,;:.!?–-]*+$",
    re.I,
)


def impersonal(text: str) -> str:
    """A customer's sentence as the name of a problem: "I was charged twice" is "Charged twice"."""
    text = re.sub(r"\b([Ii])(m|ve)\b", r"\1'\2", text)
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


_CLAUSES = (", ", "; ", " – ", " - ", " because ", " but ", " so ", " when ", " while ", ". ")


def shortened(text: str, limit: int) -> str:
    """At most `limit` words, cut at the end of a clause where there is one, without trailing function words."""
    pieces = text.split()
    cut = " ".join(pieces[:limit])
    if len(pieces) > limit:
        clause = max(cut.rfind(mark) for mark in _CLAUSES)
        cut = cut[:clause] if clause > len(cut) // 2 else _TRAILING.sub("", cut) or cut
        cut = cut[: cut.rfind("[")] if cut.rfind("[") > cut.rfind("]") else cut  # not within a placeholder
    return cut.rstrip(" ,;:.!?")


def capitalised(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]
