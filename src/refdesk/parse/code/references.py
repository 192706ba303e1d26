"""Which names does a file use, where, and from within what?"""

from __future__ import annotations

import re
from typing import cast

from refdesk.model import Reference, RelationKind
from refdesk.parse.code import names
from refdesk.parse.code.imports import READERS
from refdesk.parse.code.languages import Language
from refdesk.parse.code.scan import Mention, Scan, rows_of

_KINDS = {
    "call": "calls",
    "invoke": "calls",
    "bare": "calls",
    "new": "calls",
    "type": "references",
    "value": "references",
}
_FOLLOWED = {"invoke": (b"(", b" ", b"{", b"<", b"\n"), "bare": (b"(",)}  # what makes it a call and no subscript
_MEMBERS = frozenset(["property", "field", "case", "test"])
_BUILTIN = frozenset(
    re.findall(
        r"\w+",
        """
    None True False self cls Self super this null nil true false undefined void bool boolean Bool Boolean byte char
    int Int Integer uint Int8 Int16 Int32 Int64 UInt UInt8 UInt16 UInt32 UInt64 long short float Float double Double
    int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 isize
    usize f32 f64 str string String number object any Any unknown never list dict tuple set frozenset bytes complex
    type error rune uintptr symbol bigint Void Never Character size_t ssize_t var auto decimal dynamic Unit Nothing
    """,
    )
)


def references(scan: Scan, data: bytes, language: Language) -> tuple[Reference, ...]:
    """Every import, call, base and mention once per line, in the order of the text."""
    imports = _imports(scan, data, language)
    known = {d.name for d in scan.definitions if d.kind not in _MEMBERS}
    bound = known | {ref.alias or ref.target for ref in imports if not ref.receiver.endswith(ref.target)}
    found = {_identity(ref): ref for ref in imports}
    ordinals: dict[int, int] = {}
    for mention in scan.mentions:
        ref = _reference(mention, data, bound, ordinals)
        if ref is not None:
            found.setdefault(_identity(ref), ref)
    return tuple(found.values())


def _identity(ref: Reference) -> tuple[str, str, str, str, int, str]:
    return ref.kind, ref.source, ref.target, ref.receiver, ref.line, ref.alias if ref.kind == "imports" else ""


def _imports(scan: Scan, data: bytes, language: Language) -> list[Reference]:
    read = READERS.get(language.imports)
    if read is None:
        return []
    found = []
    for node in scan.imports:
        text = data[node.start_byte : node.end_byte].decode("utf-8", "replace")
        first = rows_of(node)[0] + 1
        found += [
            Reference(
                kind="imports",
                source="",
                target=item.name,
                line=first + text.count("\n", 0, item.offset),
                receiver=item.module,
                alias=item.alias,
            )
            for item in read(text)
        ]
    return found


def _reference(mention: Mention, data: bytes, bound: set[str], ordinals: dict[int, int]) -> Reference | None:
    node, role = mention.node, mention.role
    start, end = node.start_byte, node.end_byte
    if role in _FOLLOWED and data[end : end + 1] not in _FOLLOWED[role]:
        return None
    target, receiver = names.split_name(data[start:end].decode("utf-8", "replace"))
    if role == "bare":
        receiver = names.receiver_before(data[max(start - 80, 0) : start].decode("utf-8", "replace"))
    if not target or target.isdigit() or (role == "type" and len(target) == 1):
        return None
    if (role == "value" and target not in bound) or (role == "call" and target == "require"):
        return None
    if role in ("type", "value") and target in _BUILTIN:
        return None
    owner = mention.source
    source = owner.qualified if owner is not None else ""
    if role in ("type", "value") and owner is not None and target == owner.name:
        return None
    if role in _KINDS:
        kind = _KINDS[role]
    else:
        kind = _base_kind(mention, ordinals)
    return Reference(
        kind=cast(RelationKind, kind),
        source=source,
        target=target,
        line=node.end_point[0] + 1,  # the name is the last part of what was captured
        receiver=receiver,
    )


def _base_kind(mention: Mention, ordinals: dict[int, int]) -> str:
    """What a base is where the syntax does not tell: a class's first may be its superclass, the others conform."""
    if mention.role != "base":
        return mention.role
    source = mention.source
    if source is None or source.kind != "class":
        return "conforms"
    ordinals[id(source)] = ordinals.get(id(source), 0) + 1
    return "inherits" if ordinals[id(source)] == 1 else "conforms"
