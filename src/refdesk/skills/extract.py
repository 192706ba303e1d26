"""Makes a playbook of a conversation by rules."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise

from refdesk.errors import InvalidInput
from refdesk.skills.conversation import Transcript
from refdesk.skills.format import titled
from refdesk.skills.judge import TROUBLE
from refdesk.skills.model import Draft, Playbook, Step
from refdesk.skills.vocabulary import PLACEHOLDER, STOP_TERMS, content_terms, total_weight, weight, words
from refdesk.skills.wording import (
    Kind,
    capitalised,
    core_of,
    finding,
    imperative,
    impersonal,
    is_escalation,
    kind_of,
    request,
    sentences,
    shortened,
    third_person,
)
from refdesk.text import analyse
from refdesk.text.analyse import is_english

_MAX_STEPS = 14
_MAX_KEYWORDS = 10
_QUOTE = 160

_YES = re.compile(
    r"^\W*(?:yes|yep|yeah|yup|correct|right|that's right|i do|i am|i have|it is|it does|exactly|sure|affirmative)\b",
    re.I,
)
_NO = re.compile(r"^\W*(?:no|nope|not yet|i don't|i haven't|i'm not|it isn't|it doesn't|never)\b", re.I)
_SOLVED = re.compile(
    r"\b(?:work(?:s|ed|ing)(?: now| again| fine| perfectly)?|that did (?:it|the trick)|solved|fixed|sorted|resolved"
    r"|(?<!not )(?<!never )(?<!n't )(?<!n’t )arrived"
    r"|i'?m in|back in|i (?:can )?see it|got it|it'?s (?:there|back|showing|connected|done)|all good|great,? thank"
    r"|perfect|thank(?:s| you) so much|no more)\b",
    re.I,
)
_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers)\b", re.I)
# What ends a report without being part of the problem.
_PLEA = re.compile(
    r"(?:^|[\s,;.!?-])(?:(?:can|could|would|will) (?:you|someone|anyone) (?:please |pls |plz )?help(?: me| us)?"
    r"(?: out)?(?: (?:with|on) (?:that|this|it))?|please help(?: me| us)?|(?:many )?(?:thanks|thank you|thx|cheers)"
    r"(?: (?:so|very) much| a lot)?(?: (?:in advance|for (?:your|the|any|all) .{1,40}))?)\W*$",
    re.I,
)
# "My name is [name], order [reference id]" tells who asks.
_WHO = re.compile(
    r"(?:\b(?:re|fwd?)\W{1,3})?"
    r"(?:(?:\b(?:my|our|the|his|her|their)(?: [\w'’]+){1,3}?(?: is| was)?|\b(?:i am|i['’]m|this is|it['’]s))"
    r"|(?:\b[\w'’]+(?: (?:number|no|nr|id|ref|reference|code))?)(?: is| was)?)\W{0,3}"
    rf"{PLACEHOLDER.pattern}(?: here| speaking| calling)?",
    re.I,
)
# "It's about the parcel" says what the talk is about, not what is wrong.
_ANNOUNCED = re.compile(
    r"(?:it['’]?s|this is|(?:i['’]?m|i am) (?:calling|writing|chatting|here|contacting you)"
    r"|(?:i['’]ve got|i have|i had) an? [\w ]{3,20}) (?:about|regarding|concerning|with|on)\b",
    re.I,
)
_PRONOUN = re.compile(r"(?:it|its|it['’]s|they|this|that|these|those|he|she)\b", re.I)
_FAILED = re.compile(
    r"\b(?:didn'?t (?:work|help)|does(?:n'?t| not) (?:work|help)|not working|same (?:error|problem|thing|issue)"
    r"|still (?:not|no|the same|can'?t|doesn'?t|won'?t|get|getting|shows?|says?|fail\w*|see|nothing|happening|crash\w*"
    r"|red|locked)|is still|no (?:luck|change|difference)|no,? that)\b",
    re.I,
)
_AREAS: Mapping[str, frozenset[str]] = {
    "billing": words("charg refund invoic bill payment card price fee prorat vat tax receipt discount coupon promo"),
    "authentication": words("password login log sign 2fa authent locked unlock otp sso credenti verif"),
    "shipping": words("packag deliv track shipment courier parcel address ship carrier"),
    "returns": words("return exchang rma damag defect replac warranti"),
    "subscription": words("subscript plan upgrad downgrad cancel renew trial seat licens"),
    "connectivity": words("wifi internet router network connect vpn bluetooth sync offlin modem signal"),
    "account": words("account profil email usernam delet merg permiss role invit member"),
    "app": words("app crash freez instal updat screen button version browser load page"),
}
_DEFAULT_ESCALATION = (
    "Hand over to a person if a Check fails twice, if an Edge Case does not cover what happens, or if the customer asks"
    " for one. Pass on the problem, the steps already done and what each Check showed."
)


_CLOSING_STEP = Step(
    "Confirm with the customer",
    "Wait for the customer's answer before closing",
    "Customer confirms that the problem is solved",
    "“Is there anything else I can help you with?”",
)


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence of an agent's turn and what it does."""

    kind: Kind
    text: str


def extract(transcript: Transcript, metadata: Mapping[str, object]) -> Draft:
    """A draft made from what was said, by rules."""
    issue = issue_of(transcript)
    named = impersonal(titled(_naming(issue), issue[0]))
    title = shortened(named, 16)
    steps, edge_cases = steps_of(transcript)
    if not steps:
        raise InvalidInput(
            "The conversation has no agent turn that does, asks or explains anything.",
            "Send the full transcript, one turn a line, each begun by 'Customer:' or 'Agent:'.",
        )
    keywords = keywords_of(transcript, issue)
    playbook = Playbook(
        title=title,
        goal=f"Solve this problem, and have the customer confirm that it is solved: {shortened(named, 30)}.",
        prerequisites=_conditions(transcript, metadata, title),
        steps=steps,
        edge_cases=edge_cases,
        escalation=_escalation(transcript),
        product_area=_given(metadata, "product_area", "area") or _area(keywords, issue),
        issue_type=_given(metadata, "issue_type", "type") or _type(issue),
    )
    return Draft(playbook=playbook, problem="Customer reports: " + " ".join(issue), keywords=keywords)


# --- the problem ------------------------------------------------------------------------------------


def issue_of(transcript: Transcript) -> list[str]:
    """The sentences in which the customer says what is wrong."""
    found: list[str] = []
    for text in transcript.said_by("customer")[:3]:
        if found and (_SOLVED.search(text) or _THANKS.search(text)):
            break
        told = []
        for each in map(core_of, sentences(text)):
            plea = _PLEA.search(each)
            told.append(f"{each[: plea.start()].rstrip(' ,;.!?-')}." if plea else each)
        found += [each for each in told if content_terms(each)]
        if len(content_terms(" ".join(found))) >= 5:
            break
    if not found:
        found = [text for text in transcript.said_by("customer") if text.strip()][:1]
    if not found:
        raise InvalidInput(
            "The conversation has no customer turn.",
            "Begin each turn with 'Customer:' or 'Agent:' so both can be told.",
        )
    return ([each for each in found if re.search(r"\w", _WHO.sub("", each))] or found)[:4]


def _naming(issue: list[str]) -> str:
    """The first sentence with enough content to name the problem, else the one with most."""
    announced = None if TROUBLE.search(_ANNOUNCED.sub("", issue[0])) else _ANNOUNCED.match(issue[0])
    if announced and (wrong := [each for each in issue[1:] if TROUBLE.search(each)]):
        thing = issue[0][announced.end() :].strip(" .!?")
        issue = [f"{thing}: {each[:1].lower()}{each[1:]}" if _PRONOUN.match(each) else each for each in wrong]
    enough = (each for each in issue if len(content_terms(each)) >= 3)
    return next(enough, max(issue, key=lambda each: total_weight(content_terms(each))))


def keywords_of(transcript: Transcript, issue: Iterable[str]) -> tuple[str, ...]:
    """The words that distinguish this problem from others, as written, the customer's first."""
    told = " ".join(issue)
    spelt: dict[str, str] = {}
    counts: dict[str, float] = defaultdict(float)
    said = [(_WHO.sub(" ", turn.text), 1.0 if turn.role == "customer" else 0.5) for turn in transcript.turns]
    for text, times in ((told, 3.0), *said):
        for word in re.findall(r"[^\W_][\w'’-]*", re.sub(r"\[[a-zA-Z ]+\]", " ", text)):
            telling = (term for term in analyse.terms(word) if term not in STOP_TERMS and len(term) > 2)
            for term in islice(telling, 1):
                if not term.isdigit():
                    spelt.setdefault(term, word.lower().replace("’s", "").removesuffix("'s").rstrip("'’-"))
                    counts[term] += times
    # What the agent repeats counts more; what only the agent says counts if it occurs more than once.
    taken_up = {term for said in transcript.said_by("agent") for term in content_terms(said)}
    worth = {
        term: count * weight(term) * (1.5 if term in taken_up else 1.0) for term, count in counts.items() if count >= 1
    }
    best = sorted(worth, key=lambda term: (-worth[term], term))
    return tuple(dict.fromkeys(spelt[term] for term in best[:_MAX_KEYWORDS]))


def _given(metadata: Mapping[str, object], *keys: str) -> str:
    return next((str(metadata[key]) for key in keys if metadata.get(key)), "")


def _area(keywords: Iterable[str], issue: Iterable[str]) -> str:
    told = Counter(analyse.terms(" ".join((*issue, *keywords))))
    scores = {area: sum(told[term] for term in vocabulary) for area, vocabulary in _AREAS.items()}
    best = max(scores, key=lambda area: scores[area])
    return best if scores[best] else "general"


def _type(issue: list[str]) -> str:
    told = " ".join(issue).lower()
    if re.search(r"\b(?:how (?:do|can|to)|where (?:do|can)|is (?:it|there) (?:possible|a way))\b", told):
        return "how-to"
    if re.search(
        r"\b(?:i(?:'d| would) like|i want|please (?:cancel|change|delete|close|add)|can you|could you)\b", told
    ):
        return "request"
    return "problem"


def _conditions(transcript: Transcript, metadata: Mapping[str, object], title: str) -> tuple[str, ...]:
    begins = title.split(" ", 1)[0].lower()
    is_plain = title[1 : len(begins)].islower() and (len(begins) < 4 or is_english(begins))  # not "SSO"
    is_plain = is_plain or STOP_TERMS.issuperset(analyse.terms(begins))
    found = [f"Customer reports: {title[:1].lower() + title[1:] if is_plain else title}"]
    if segment := _given(metadata, "customer_segment", "segment"):
        found.append(f"Customer segment: {segment}")
    for turn, answer in pairwise(transcript.turns):
        asked = sentences(turn.text)
        if turn.role != "agent" or answer.role != "customer" or kind_of(asked[-1]) != "question":
            continue
        if _YES.match(answer.text) or _NO.match(answer.text):
            found += _statement(core_of(asked[-1]), holds=bool(_YES.match(answer.text)))
    return tuple(dict.fromkeys(found))[:6]


def _statement(question: str, *, holds: bool) -> list[str]:
    """What a yes or no to the question says about the customer."""
    negated = "" if holds else " not"
    for pattern, words_for in (
        (r"are you (.+)\?", f"Customer is{negated} {{}}"),
        (r"do you (?:still )?have (.+)\?", "Customer has {}" if holds else "Customer does not have {}"),
        (r"have you (?:already )?(.+)\?", f"Customer has{negated} {{}}"),
        (
            r"(?:is|are) your (\w+(?: \w+)?) ((?:on|set|linked|in|still|turned|connected|using)\b.+)\?",
            f"Customer's {{}}: {'' if holds else 'not '}{{}}",
        ),
    ):
        if found := re.fullmatch(pattern, question, re.I):
            return [third_person(words_for.format(*found.groups()))]
    return []


# --- the steps --------------------------------------------------------------------------------------

# Sentences of one group belong to one step; information goes with whatever it explains.
_GROUPS: Mapping[Kind, str] = {
    "action": "act", "finding": "act", "escalation": "act", "directive": "guide", "question": "ask"
}  # fmt: skip


def steps_of(transcript: Transcript) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """A step for whatever the agent did, asked or explained, and the edge cases that were mentioned or met."""
    steps: list[Step] = []
    edge_cases: list[str] = []
    noted: list[str] = []
    turns = transcript.turns
    for place, turn in enumerate(turns):
        if turn.role == "note":
            noted.append(turn.text)
        if turn.role != "agent":
            continue
        said = [_Said(kind_of(each), each) for each in sentences(turn.text)]
        edge_cases += [_edge_case(each.text) for each in said if each.kind == "condition"]
        reply = turns[place + 1].text if place + 1 < len(turns) and turns[place + 1].role == "customer" else ""
        groups = _grouped(said)
        for number, group in enumerate(groups, 1):
            steps.append(_step(group, noted, reply if number == len(groups) else ""))
            noted = []
        if groups and _FAILED.search(reply):
            edge_cases.append(f"“{steps[-1].title}” does not help → go on with the next step")
    if noted:
        done = "; ".join(map(imperative, noted))
        steps.append(Step(shortened(imperative(noted[0]), 10), done, "It is done and noted", "Nothing yet"))
    return tuple([*steps[:_MAX_STEPS], _CLOSING_STEP] if steps else ()), tuple(dict.fromkeys(edge_cases))


def _grouped(said: list[_Said]) -> list[list[_Said]]:
    groups: list[list[_Said]] = []
    current = ""
    for each in said:
        if each.kind in ("pleasantry", "condition"):
            continue
        group = _GROUPS.get(each.kind, current)
        if not groups or (group != current and current):
            groups.append([])
        groups[-1].append(each)
        current = group
    return groups


def _step(said: list[_Said], noted: list[str], reply: str) -> Step:
    do = _do(said, noted)
    title = re.sub(r"^(?:Guide the customer|Look up): ", "", do.split("; ")[0])
    spoken = " ".join(each.text for each in said)
    return Step(capitalised(shortened(title, 10)), do, _check(said, reply), f"“{spoken}”")


def _do(said: list[_Said], noted: list[str]) -> str:
    actions = [*noted, *(each.text for each in said if each.kind in ("action", "escalation"))]
    if actions:
        return "; ".join(dict.fromkeys(map(imperative, actions)))
    if any(each.kind == "finding" for each in said):
        return "Look up the customer's case in our systems"
    if directives := [each.text for each in said if each.kind == "directive"]:
        return "Guide the customer: " + "; ".join(
            imperative(each).replace("the customer's", "their") for each in directives
        )
    if questions := [each.text for each in said if each.kind == "question"]:
        return "; ".join(request(each) for each in questions)
    return f"Explain: {shortened(third_person(core_of(said[0].text)), 14)}"


def _check(said: list[_Said], reply: str) -> str:
    findings = [finding(each.text) for each in said if each.kind == "finding"]
    answer = sentences(reply)[0] if reply.strip() else ""
    telling = len(content_terms(answer)) > 1 and not answer.endswith("?")
    example = f" (as in “{answer[:_QUOTE]}”)" if telling else ""
    kinds = {each.kind for each in said}
    if findings:
        return f"What was found is so here too: {'; '.join(findings)}"
    if _FAILED.search(reply):
        return f"Customer says whether it helped; it may not{example}"
    if "question" in kinds:
        return f"Customer has answered{example}"
    if _SOLVED.search(reply):
        return f"Customer confirms that it worked{example}"
    if "directive" in kinds:
        return f"Customer has done it and says what happened{example}"
    return "The action went through without an error" if kinds & {"action", "escalation"} else "Customer has understood"


def _edge_case(sentence: str) -> str:
    core = core_of(sentence).rstrip(".")
    found = re.match(r"(?:if|in case|unless|should)\s+(.+?)(?:,\s*(?:then\s+)?|\s+then\s+)(.+)", core, re.I | re.S)
    if not found:
        return third_person(core)
    negated = "not: " if core.lower().startswith("unless") else ""
    return f"{capitalised(third_person(negated + found[1]))} → {third_person(found[2])}"


def _escalation(transcript: Transcript) -> str:
    said = (each for text in transcript.said_by("agent") for each in sentences(text))
    told = [each for each in said if is_escalation(each)]
    seen = f" Seen here: {third_person(core_of(told[0]))}" if told else ""
    return _DEFAULT_ESCALATION + seen


def outcome_of(transcript: Transcript) -> str:
    """How the conversation seems to have ended for the customer: likely, likely_failure or nothing known."""
    last = " ".join(transcript.said_by("customer")[-1:])
    if _FAILED.search(last):
        return "likely_failure"
    return "likely" if _SOLVED.search(last) else ""
