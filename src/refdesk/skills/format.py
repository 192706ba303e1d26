"""Writes, reads and checks playbooks in Markdown; `parse(render(book)) == tidy(book)` for every one."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from refdesk.errors import InvalidInput, InvalidPlaybook
from refdesk.skills.model import FIRST_CONFIDENCE, Draft, Playbook, Skill, Step
from refdesk.skills.vocabulary import PLACEHOLDER, content_terms

_UNSPECIFIED = "unspecified"
_NOTHING = "None."
_SECTIONS = ("Goal", "Prerequisites", "Steps", "Edge Cases", "Escalation")
_SECTION_OF = {name.lower(): name for name in _SECTIONS}
_PARTS = ("Do", "Check", "Say")

_HEADING = re.compile(r"(#{1,6})(?:[ \t]+(.*))?")
_STEP_TITLE = re.compile(r"(?:step\s+)?(\d+)[.):]?\s*(.*)", re.IGNORECASE)
_PART = re.compile(r"(?:[-*][ \t]+)?\*\*(Do|Check|Say)(?::\*\*|\*\*:)[ \t]*(.*)", re.IGNORECASE)
_BULLET = re.compile(r"[-*•][ \t]+(\S.*)")
_HEADER = re.compile(r"\*\*(Confidence|Product Area|Area|Issue Type|Type)(?::\*\*|\*\*:)[ \t]*", re.IGNORECASE)
# A line of free text that would be read as structure is escaped by a backslash, and so is one that begins with it.
_STRUCTURAL = re.compile(
    r"\s*(?:\\|#{1,6}(?:[ \t]|$)|(?:[-*][ \t]+)?\*\*(?:Do|Check|Say)(?::\*\*|\*\*:))", re.IGNORECASE
)


# --- titles -------------------------------------------------------------------------------------

# A clause that only says what was removed: "my name is [name] and".
_INTRODUCING = re.compile(
    r"(?:(?:and |but )?(?:my|our|the|his|her|their) (?:\w+ ){1,3}(?:is|was|are)"
    r"|(?:and )?(?:i am|i['’]m|this is|it['’]s|they are))"
    rf"\W*{PLACEHOLDER.pattern}\W*(?:(?:and|but|from|here)\b\W*)*",
    re.I,
)
_LEADING = re.compile(rf"^(?:\W*{PLACEHOLDER.pattern}|['’]s\b|\W|(?:here|and|is|was|says|said|from)\b)++", re.I)
# "My order, [reference id], is late" has an aside, "Job [reference id], it's samples" a label.
_TOLD = rf"(?:,\s(?:[\w-]+\s)?(?:(?:number|no|nr|id|ref|reference|code)\.?\s)?{PLACEHOLDER.pattern}\s?)"
_ASIDE = re.compile(rf"(?<=\w){_TOLD}{{1,4}}(?:,\s|\W{{0,3}}$)", re.I)
_LABEL = re.compile(
    rf"^(?:(?:[\w-]+\s){{1,4}}{PLACEHOLDER.pattern}\s?[,:;–-]"
    rf"|(?:for|on|with|in|under|about|regarding)\s(?:[\w-]+\s){{0,3}}{PLACEHOLDER.pattern})"
    r"\s(?:it['’]s\s)?(?=\S+\s\S)",
    re.I,
)
# Within the title it goes with the words that lead to it: "order number [reference id]" is an order.
_WITHIN = re.compile(
    rf"\s{{0,4}}\([^()\[]*{PLACEHOLDER.pattern}[^()]*\)"
    r"|(?:\s{0,4}(?:\b(?:to|from|for|with|at|on|of|by|under|is|was|named|called|as|in|and|ending|no|nr|number|id|ref"
    rf"|reference|code)\b\.?|[#:,])){{0,6}}\s{{0,4}}{PLACEHOLDER.pattern}(?:['’]s\b)?",
    re.I,
)


def titled(title: str, otherwise: str) -> str:
    """The title without placeholders; another one where little else is left of it."""
    rest = _ASIDE.sub(" ", _INTRODUCING.sub("", title))
    if PLACEHOLDER.match(rest.lstrip("#\"'“( ")):
        rest = _LEADING.sub("", rest)
    rest = _LABEL.sub("", rest)
    rest = " ".join(_WITHIN.sub("", rest).split()).strip(" ,;:-")
    return rest[:1].upper() + rest[1:] if any(map(str.isalpha, rest)) else otherwise


# --- writing ------------------------------------------------------------------------------------


def render(playbook: Playbook, record: tuple[int, int] | None = None) -> str:
    """The playbook as markdown; `record` is how often it was used and confirmed."""
    book = tidy(playbook)
    uses = f" ({record[0]} use{'s' * (record[0] != 1)}, {record[1]} confirmed)" if record else ""
    header = (
        f"**Confidence:** {book.confidence:.2f}{uses} | **Product Area:** {book.product_area or _UNSPECIFIED}"
        f" | **Issue Type:** {book.issue_type or _UNSPECIFIED}"
    )
    parts = [
        f"# {book.title}",
        header,
        "## Goal",
        _escaped(book.goal),
        "## Prerequisites",
        _bullets(book.prerequisites),
    ]
    parts.append("## Steps")
    for number, step in enumerate(book.steps, 1):
        body = "\n".join(
            f"**{name}:** {_escaped(text)}" for name, text in zip(_PARTS, (step.do, step.check, step.say), strict=True)
        )
        parts.append(f"### {number}. {step.title}\n{body}")
    parts += ["## Edge Cases", _bullets(book.edge_cases), "## Escalation", _escaped(book.escalation)]
    return "\n\n".join(part.rstrip() for part in parts if part.strip()) + "\n"


def tidy(playbook: Playbook) -> Playbook:
    """The playbook without stray whitespace and control characters."""
    return replace(
        playbook,
        title=one_line(playbook.title),
        goal=_lines(playbook.goal),
        prerequisites=_items(playbook.prerequisites),
        steps=tuple(
            Step(one_line(step.title), _lines(step.do), _lines(step.check), _lines(step.say)) for step in playbook.steps
        ),
        edge_cases=_items(playbook.edge_cases),
        escalation=_lines(playbook.escalation),
        product_area=_label(playbook.product_area),
        issue_type=_label(playbook.issue_type),
        confidence=round(min(1.0, max(0.0, playbook.confidence)), 2),
    )


def one_line(text: str) -> str:
    """The text on one line."""
    return " ".join(_clean(text).split())


def _items(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for item in items if (line := one_line(item)) and line != _NOTHING))


def _lines(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in _clean(text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def _clean(text: str) -> str:
    broken = "\n".join(text.splitlines())
    if broken.replace("\n", "").isprintable():
        return broken
    return "".join(c for c in broken if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cf", "Cs"))


def _label(text: str) -> str:
    label = one_line(re.sub(r"[|*]", " ", text))
    return "" if label.lower() == _UNSPECIFIED else label


def _bullets(items: tuple[str, ...]) -> str:
    return "\n".join(f"- {item}" for item in items) if items else _NOTHING


def _escaped(text: str) -> str:
    return "\n".join("\\" + line if _STRUCTURAL.match(line) else line for line in text.split("\n"))


# --- reading ------------------------------------------------------------------------------------


def parse(text: str) -> Playbook:
    """The playbook in the markdown; InvalidPlaybook lists everything that does not belong in one."""
    title, opening, sections, problems = _split(text)
    header, stray = _header(opening)
    problems += [f"Unexpected text before ## Goal: {line[:60]!r}." for line in stray]
    prerequisites, more = _read_bullets("Prerequisites", sections)
    edge_cases, still_more = _read_bullets("Edge Cases", sections)
    steps, wrong = _read_steps(sections.get("Steps", []))
    if problems := [*problems, *more, *still_more, *wrong]:
        raise InvalidPlaybook(problems)
    return tidy(
        Playbook(
            title=title,
            goal=_free_text(sections.get("Goal", [])),
            prerequisites=prerequisites,
            steps=steps,
            edge_cases=edge_cases,
            escalation=_free_text(sections.get("Escalation", [])),
            product_area=header.get("area", ""),
            issue_type=header.get("type", ""),
            confidence=_number(header.get("confidence", "")),
        )
    )


def _split(text: str) -> tuple[str, list[str], dict[str, list[str]], list[str]]:
    title = ""
    opening: list[str] = []
    problems: list[str] = []
    sections: dict[str, list[str]] = {}
    current: list[str] = opening
    for line in _clean(text).split("\n"):
        heading = _HEADING.fullmatch(line.rstrip())
        depth = len(heading[1]) if heading else 0
        words = (heading[2] or "").strip() if heading else ""
        if depth == 1 and not title and not sections:
            title = words
        elif depth == 2 and (name := _SECTION_OF.get(words.lower())):
            if name in sections:
                problems.append(f"Section ## {name} comes twice.")
            current = sections.setdefault(name, [])
        elif 0 < depth < 3:
            problems.append(f"Unknown heading {line.strip()!r}; the sections are {', '.join(_SECTIONS)}.")
        else:
            current.append(line.rstrip())
    return title, opening, sections, problems


def _header(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    values: dict[str, str] = {}
    stray = []
    for line in lines:
        pieces = _HEADER.split(line)
        if pieces[0].strip():
            stray.append(line.strip())
        for name, value in zip(pieces[1::2], pieces[2::2], strict=True):
            values[name.lower().split()[-1]] = value.strip().removesuffix("|").strip()
    return values, stray


def _number(text: str) -> float:
    found = re.match(r"[01](?:\.\d+)?|\.\d+", text)
    return float(found[0]) if found else FIRST_CONFIDENCE


def _read_bullets(name: str, sections: dict[str, list[str]]) -> tuple[tuple[str, ...], list[str]]:
    items: list[str] = []
    problems = []
    for line in sections.get(name, []):
        stripped = line.strip()
        if found := _BULLET.fullmatch(stripped):
            items.append(found[1])
        elif items and line[:1] in " \t" and stripped:
            items[-1] += " " + stripped
        elif stripped and stripped.rstrip(".").lower() not in ("none", "none known"):
            problems.append(f"## {name} is a list, and {stripped[:60]!r} is not an item of it.")
    return tuple(items), problems


def _read_steps(lines: list[str]) -> tuple[tuple[Step, ...], list[str]]:
    steps: list[tuple[str, dict[str, list[str]]]] = []
    problems = []
    part: list[str] | None = None
    for line in lines:
        heading = _HEADING.fullmatch(line)
        found = _PART.fullmatch(line.strip()) if not line.startswith("\\") else None
        if heading:
            numbered = _STEP_TITLE.fullmatch(heading[2] or "")
            if numbered is None or int(numbered[1]) != len(steps) + 1:
                problems.append(f"Step {len(steps) + 1} must be headed '### {len(steps) + 1}. …', not {line!r}.")
            steps.append((numbered[2] if numbered else heading[2] or "", {}))
            part = None
        elif found and steps:
            if (name := found[1].capitalize()) in steps[-1][1]:
                problems.append(f"Step {len(steps)} has **{name}:** twice.")
            part = steps[-1][1].setdefault(name, [])
            part.append(found[2])
        elif part is not None:
            part.append(line)
        elif line.strip():
            problems.append(f"Unexpected text in ## Steps: {line.strip()[:60]!r}.")
    return tuple(Step(title, *(_free_text(parts.get(name, [])) for name in _PARTS)) for title, parts in steps), problems


def _free_text(lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    return "\n".join(line[1:] if line.startswith("\\") else line for line in text.split("\n"))


# --- checking --------------------------------------------------------------------------------------------


MAX_TITLE = 120
MAX_STEPS = 100
MAX_ITEMS = 200
MAX_TEXT = 4_000
MAX_KEYWORDS = 32


def checked(draft: Draft) -> Draft:
    """The tidied draft; InvalidPlaybook lists everything that is wrong with it."""
    book = tidy(draft.playbook)
    wrong = list(_problems(draft, book))
    if not wrong and parse(render(book)) != book:
        wrong = ["It can't be read back as it was written."]
    if wrong:
        raise InvalidPlaybook(wrong)
    keywords = dict.fromkeys(key for word in draft.keywords if (key := " ".join(word.split()).lower()))
    return Draft(playbook=book, problem=" ".join(draft.problem.split()), keywords=tuple(keywords)[:MAX_KEYWORDS])


def _problems(draft: Draft, book: Playbook) -> Iterator[str]:
    """What is wrong with the draft and its tidied playbook, one sentence each."""
    texts = [book.goal, book.escalation, draft.problem, *book.prerequisites, *book.edge_cases]
    steps = [dict(zip(("title", *_PARTS), astuple(step), strict=True)) for step in book.steps]
    rules = {
        "The title is missing.": not book.title,
        f"The title has more than {MAX_TITLE} characters.": len(book.title) > MAX_TITLE,
        "The problem is missing: say what issue the playbook solves.": not draft.problem.strip(),
        "There are no keywords.": not any(word.strip() for word in draft.keywords),
        "The Goal is missing.": not book.goal,
        "The Escalation is missing: say when to hand over to a person.": not book.escalation,
        "There are no Steps.": not steps,
        f"There are more than {MAX_STEPS} Steps.": len(steps) > MAX_STEPS,
        f"There are more than {MAX_ITEMS} Prerequisites.": len(book.prerequisites) > MAX_ITEMS,
        f"There are more than {MAX_ITEMS} Edge Cases.": len(book.edge_cases) > MAX_ITEMS,
    }
    yield from (sentence for sentence, is_broken in rules.items() if is_broken)
    for number, step in enumerate(steps, 1):
        if missing := [name for name, text in step.items() if not text]:
            yield f"Step {number} lacks its {' and '.join(missing)}."
    for text in (*texts, *(text for step in steps for text in step.values())):
        if len(text) > MAX_TEXT:
            yield f"A text has more than {MAX_TEXT} characters: {text[:40]!r}…"


# --- SKILL.md files --------------------------------------------------------------------------------------


_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)\r?\n---[ \t]*\r?\n?", re.S)
_MAX_NAME, _MAX_ID = 64, 200  # our ids have 36
_MAX_DESCRIPTION = 1024  # what agent skill folders allow


@dataclass(frozen=True, slots=True)
class Imported:
    """A skill as read from a file."""

    draft: Draft
    skill_id: str
    confidence: float


def to_markdown(skill: Skill) -> str:
    """The skill as a SKILL.md: the fields that agents read first, RefDesk's own under `metadata`."""
    front = {
        "name": folder_name(skill),
        "description": _description(skill),
        "metadata": {
            "skill_id": skill.skill_id,
            "version": skill.version,
            "problem": skill.problem,
            "keywords": list(skill.keywords),
            "confidence": skill.confidence,
            "times_used": skill.times_used,
            "times_confirmed": skill.times_confirmed,
            "created_at": skill.created_at,
            "updated_at": skill.updated_at,
        },
    }
    head = yaml.safe_dump(front, sort_keys=False, allow_unicode=True, width=10_000)
    return f"---\n{head}---\n\n{skill.resolution_md}"


def from_markdown(text: str) -> Imported:
    """The skill in a SKILL.md, ours or one written by hand; InvalidInput says what is wrong with it."""
    found = _FRONT_MATTER.match(text)
    front = _front(found[1]) if found else {}
    book = parse(text[found.end() :] if found else text)
    given_metadata = front.get("metadata")
    own: dict[str, Any] = given_metadata if isinstance(given_metadata, dict) else {}
    skill_id = str(own.get("skill_id") or "")
    if len(skill_id) > _MAX_ID:
        raise InvalidPlaybook([f"The skill_id has more than {_MAX_ID} characters."])
    problem = str(own.get("problem") or front.get("description") or book.goal)
    given = own.get("keywords") or list(dict.fromkeys(content_terms(f"{book.title} {problem}")))[:10]
    keywords = given.split(",") if isinstance(given, str) else [str(word) for word in given]
    confidence = own.get("confidence", book.confidence)
    return Imported(
        Draft(playbook=book, problem=problem, keywords=tuple(keywords)),
        skill_id,
        min(1.0, max(0.0, float(confidence))) if isinstance(confidence, int | float) else FIRST_CONFIDENCE,
    )


def folder_name(skill: Skill) -> str:
    """The name of the skill's folder: letters, digits and hyphens, unique to the skill."""
    slug = re.sub(r"[^a-z0-9]+", "-", skill.title.lower()).strip("-")
    end = skill.skill_id[:8].lower()
    return f"{slug[: _MAX_NAME - len(end) - 1].strip('-')}-{end}".lstrip("-")


def files_in(path: Path) -> Iterator[Path]:
    """The skill files that a path names: itself, or every .md in the folder."""
    if path.is_dir():
        yield from sorted(each for each in path.rglob("*.md") if each.is_file())
    else:
        yield path


def _description(skill: Skill) -> str:
    when = "; ".join(skill.conditions)
    text = f"{skill.problem} Use when: {when}." if when else skill.problem
    return text if len(text) <= _MAX_DESCRIPTION else text[: _MAX_DESCRIPTION - 1] + "…"


def _front(text: str) -> dict[str, Any]:
    try:
        front = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInput(
            f"The front matter is not YAML: {error}.", "Correct the lines between the --- lines."
        ) from error
    return front if isinstance(front, dict) else {}
