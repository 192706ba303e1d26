"""Converts the content of a page to Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from refdesk.parse.html.elements import MAX_DEPTH, code_span, code_text, inline, inline_of, squeeze, tidy
from refdesk.text import word_set

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


# ── tables ──

_MAX_SPAN = 20  # columns: a hostile page asks for millions


def table_rows(table: LexborNode) -> list[list[LexborNode | None]]:
    """The cells by row; None for a cell covered by a span."""
    rows: list[list[LexborNode | None]] = []
    for part in table.iter():
        is_group = part.tag in ("thead", "tbody", "tfoot")
        for row in part.iter() if is_group else [part] if part.tag == "tr" else []:
            cells: list[LexborNode | None] = []
            for cell in row.iter():
                if cell.tag in ("td", "th"):
                    columns = min(_MAX_SPAN, _number(cell.attributes.get("colspan")))
                    cells += [cell, *[None] * (columns - 1)]
            if cells:
                rows.append(cells)
    return rows


def is_layout(table: LexborNode) -> bool:
    """Whether the table is for layout: without a header, and with blocks in its cells."""
    if (table.attributes.get("role") or "") == "presentation":
        return True
    if table.css_first("td table, th table, td h1, td h2, td h3") is not None:
        return True
    rows = table_rows(table)
    if table.css_first("th") is not None:
        return False
    if max((len(row) for row in rows), default=0) < 2:
        return True
    return table.css_first("ul, ol, pre, blockquote") is not None and table.css_first("p, div") is not None


_INLINE = word_set(
    "-text a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label mark q ruby rb rp rt "
    "s samp small span strike strong sub sup time tt u var wbr math picture source nobr center-inline"
)
_ONLY_TEXT = frozenset({"-text", "br", "img", "wbr"})
_BLOCK_INSIDE = "p, div, ul, ol, table, pre, blockquote, dl, section, h1, h2, h3, h4, h5, h6"
_MIXED = f":is({', '.join(sorted(_INLINE - _ONLY_TEXT))}) :is({_BLOCK_INSIDE})"
_LANGUAGE = re.compile(r"^(?:language|lang|highlight-source|highlight|brush|src)[-:]([\w+#.-]+)$")
_NO_LANGUAGE = frozenset({"default", "none", "text", "plaintext", "plain", "highlight", "notranslate", "code", "txt"})
_BARE_LANGUAGES = word_set(
    "bash c cpp csharp css go html java javascript json kotlin php python ruby rust scala shell sql swift toml "
    "typescript xml yaml"
)
_ADMONITION = re.compile(
    r"\b(?:admonition|custom-block|theme-admonition|callout|alert|starlight-aside|markdown-alert|blockquote-tag)\b"
)
_BOXES = word_set("note tip warning caution important")  # of DocBook, with a heading as title
_ADMONITION_TITLE = (
    ".admonition-title, .custom-block-title, [class*=admonitionHeading], .callout-title, .alert-heading, .alert-title, "
    "h3.title, .markdown-alert-title, .blockquote-tag-title, .starlight-aside__title"
)
_ADMONITION_KIND = re.compile(
    r"\b(note|tip|info|warning|danger|caution|important|hint|attention|error|seealso|success)\b"
)
_SIGNATURE = re.compile(r"\b(?:sig|sig-object|member-signature|type-signature|method-signature|py-sig|tsd-signature)\b")
_PDOC_SIGNATURE = re.compile(r"^attr (?:class|function|variable)\b")
# The first character may bear the mark of a link.
_STARTS = re.compile(
    "^(?:#\ufdd0?#{0,5}\\s|>|`\ufdd0?``|~\ufdd0?~~|[-+*]\ufdd0?\\s|(\\d\ufdd0?\\d*)[.)]\\s|={3,}\\s*$|-{3,}\\s*$)"
)
_LAID_OUT = "h1, h2, h3, h4, section"
_NEAR = 8  # levels up in which a code block's language is looked for


def to_markdown(node: LexborNode) -> tuple[str, str]:
    """The element's content as Markdown, and its first heading of level 1."""
    writer = _Writer(is_mixed=node.css_first(_MIXED) is not None)
    return "\n\n".join(writer.blocks(node, 0)).strip() + "\n", writer.title


class _Writer:
    """Writes Markdown; tracks the level of the last heading, so that signatures become headings below it."""

    def __init__(self, is_mixed: bool) -> None:
        self._is_mixed = is_mixed  # some inline element contains a block
        self._level = 1
        self.title = ""
        self._by_tag: dict[str, Callable[[LexborNode, int], list[str]]] = {
            "ul": self._list, "ol": self._list, "menu": self._list, "pre": self._pre, "table": self._table,
            "dl": self._definitions, "hr": lambda node, depth: ["* * *"],
        }  # fmt: skip

    def blocks(self, node: LexborNode, depth: int) -> list[str]:
        """The blocks of an element's children; runs of inline children are paragraphs."""
        if depth > MAX_DEPTH:
            text = squeeze(node.text(deep=True))
            return [text] if text else []
        found: list[str] = []
        run: list[LexborNode] = []
        for child in node.iter(include_text=True):
            tag = child.tag
            if tag == "-comment" or (tag == "-text" and not run and child.is_empty_text_node):
                continue
            if tag in _INLINE and (not self._is_mixed or tag in _ONLY_TEXT or child.css_first(_BLOCK_INSIDE) is None):
                run.append(child)
                continue
            if run:
                found += _paragraph(run)
                run = []
            found += self._block(child, depth + 1)
        return found + _paragraph(run) if run else found

    def _block(self, node: LexborNode, depth: int) -> list[str]:
        tag = node.tag or ""
        if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
            return self._heading(node, int(tag[1]))
        if (write := self._by_tag.get(tag)) is not None:
            return write(node, depth)
        classes = node.attributes.get("class") or ""
        if tag == "blockquote" or (classes and (classes in _BOXES or _ADMONITION.search(classes))):
            return self._quote(node, depth, named=tag != "blockquote")
        if tag == "summary" and node.css_first("h1, h2, h3, h4, h5, h6") is not None:
            return self.blocks(node, depth)
        if tag in ("summary", "legend", "caption") or classes in ("code-block-caption", "filename"):
            text = inline(node)
            return [f"**{text}**"] if text else []
        if tag == "div" and _SIGNATURE.search(classes):
            lines = (line.rstrip() for line in code_text(node).strip().split("\n"))
            return [fence("\n".join(lines), "ts") if "tsd-" in classes else fence(squeeze(code_text(node)), "java")]
        if _PDOC_SIGNATURE.match(classes):
            parent = node.parent
            is_member = parent is not None and "classattr" in (parent.attributes.get("class") or "")
            self._level = 3 if is_member else 2
            return [f"{'#' * self._level} {code_span(_signature(node))}"]
        if "tabbed-set" in classes or "sd-tab-set" in classes:
            return self._tabs(node, depth)
        if "summary-table" in classes:  # made of divs, one for each cell
            cells = list(node.iter())
            width = sum("table-header" in (cell.attributes.get("class") or "") for cell in cells) or 2
            texts = [_cell(cell) for cell in cells]
            return [pipes([texts[at : at + width] for at in range(0, len(texts), width)] or [[""]])]
        return self.blocks(node, depth)

    def _heading(self, node: LexborNode, level: int) -> list[str]:
        text = " ".join(inline(node).split())
        if not text:
            return []
        self._level = level
        self.title = self.title or (text if level == 1 else "")
        is_code = "code-header" in (node.attributes.get("class") or "")
        return [f"{'#' * level} {code_span(_signature(node)) if is_code else text}"]

    def _pre(self, node: LexborNode, depth: int) -> list[str]:
        code = code_text(node).strip("\n").rstrip()
        return [fence(code, _language(node))] if code.strip() else []

    def _list(self, node: LexborNode, depth: int) -> list[str]:
        items = [child for child in node.iter() if child.tag == "li"]
        # Lists used for layout: JavaDoc nests its whole page in them.
        if node.css_first(_LAID_OUT) is not None and any(item.css_first(_LAID_OUT) is not None for item in items):
            return [block for item in items for block in self.blocks(item, depth)]
        number = _number(node.attributes.get("start")) if node.tag == "ol" else 0
        written: list[str] = []
        loose = False
        for at, item in enumerate(items):
            mark = f"{number + at}. " if node.tag == "ol" else "- "
            blocks = self.blocks(item, depth)
            if blocks:
                tight = all(re.match(r"(?:[-*] |\d+\. )", block) for block in blocks[1:])
                loose = loose or not tight
                written.append(_indented(mark, ("\n" if tight else "\n\n").join(blocks)))
        strays = [block for child in node.iter() if child.tag != "li" for block in self._block(child, depth)]
        return [("\n\n" if loose else "\n").join(written), *strays] if written else strays

    def _quote(self, node: LexborNode, depth: int, named: bool) -> list[str]:
        title = ""
        if named and (given := node.css_first(_ADMONITION_TITLE)) is not None:
            title = inline(given).strip("*: ")
            title = title[:1].upper() + title[1:]
            given.decompose()
        elif named and (kind := _ADMONITION_KIND.search((node.attributes.get("class") or "").lower())):
            title = kind[1].title()
        blocks = self.blocks(node, depth)
        if not named and blocks and not _is_text(blocks[0]) and blocks[0][0] != ">":
            return blocks  # only indented in its source
        if named and blocks and all(block.startswith(">") for block in blocks):
            return blocks  # the inner quote marks it already
        if title and blocks:
            blocks = [f"**{title}:** {blocks[0]}", *blocks[1:]] if _is_text(blocks[0]) else [f"**{title}:**", *blocks]
        text = "\n\n".join(blocks)
        return ["\n".join(f"> {line}".rstrip() for line in text.split("\n"))] if text else []

    def _tabs(self, node: LexborNode, depth: int) -> list[str]:
        labels = [inline(label) for label in node.css("label") if inline(label)]
        for label in node.css("label"):
            label.decompose()
        panels = node.css(".tabbed-block, .sd-tab-content")
        found: list[str] = []
        for at, panel in enumerate(panels):
            found += [f"**{labels[at]}**"] if at < len(labels) else []
            found += self.blocks(panel, depth)
        return found or self.blocks(node, depth)

    def _definitions(self, node: LexborNode, depth: int) -> list[str]:
        """Signatures as headings below the current one, other terms in bold with their definitions below."""
        terms: list[tuple[LexborNode | None, list[LexborNode]]] = []  # adjacent ones share the definition of the last
        for child in [inner for one in node.iter() for inner in (one.iter() if one.tag == "div" else [one])]:
            if child.tag == "dt":
                terms.append((child, []))
            elif terms:
                terms[-1][1].append(child)
            else:
                terms.append((None, [child]))
        found: list[str] = []
        items: list[str] = []
        outer = self._level
        for term, meanings in terms:
            is_signature = term is not None and _SIGNATURE.search(term.attributes.get("class") or "")
            if term is not None and is_signature:
                found += ["\n".join(items)] if items else []
                self._level, items = min(6, outer + 1), []
                found.append(f"{'#' * self._level} `{_signature(term)}`")
            blocks = [block for meaning in meanings for block in self.blocks(meaning, depth)]
            if is_signature:
                found += blocks
                continue
            name = inline(term).strip("*: ") if term is not None else ""
            name = f"**{name}**" if name and not name.startswith("`") else name
            if name and blocks and _is_text(blocks[0]):
                blocks[0] = f"{name}: {blocks[0]}"
            elif name:
                blocks.insert(0, name)
            if blocks:
                tight = all(re.match(r"[-*] |\d+\. ", block) for block in blocks[1:])
                items.append(_indented("- ", ("\n" if tight else "\n\n").join(blocks)))
        self._level = outer
        return found + (["\n".join(items)] if items else [])

    def _table(self, node: LexborNode, depth: int) -> list[str]:
        if "highlight" in (node.attributes.get("class") or ""):
            code = node.css_first("td.code pre, .highlight pre")
            if code is not None:
                return self._pre(code, depth)
        if is_layout(node):
            cells = [cell for row in table_rows(node) for cell in row if cell is not None]
            return [block for cell in cells for block in self.blocks(cell, depth)]
        rows = [texts for row in table_rows(node) if any(texts := [_cell(cell) for cell in row])]
        if not rows:
            return []
        caption = node.css_first("caption")
        name = inline(caption) if caption is not None else ""
        return [f"**{name}**", pipes(rows)] if name else [pipes(rows)]


def _paragraph(run: list[LexborNode]) -> list[str]:
    text = tidy("".join([inline_of(node, 0) for node in run]))
    if len(text) < 4 and not any(char.isalnum() for char in text):
        return []
    if "\n" not in text:
        return [_STARTS.sub(_escaped, text) if _STARTS.match(text) else text]
    return ["\n".join([_STARTS.sub(_escaped, line) for line in text.split("\n")])]


def _escaped(start: re.Match[str]) -> str:
    """Escapes what would start another block."""
    at = start.end(1) if start[1] else 0
    return f"{start[0][:at]}\\{start[0][at:]}"


def fence(code: str, language: str) -> str:
    """The code between marks that do not occur in it."""
    ticks = "`" * max(3, max((len(run) for run in re.findall(r"`{3,}", code)), default=0) + 1)
    return f"{ticks}{language}\n{code}\n{ticks}"


def _language(node: LexborNode) -> str:
    """The language of a code block, by its classes or those of its parents and children."""
    near: list[LexborNode] = [inside for inside in [node.css_first("code")] if inside is not None]
    above: LexborNode | None = node
    while above is not None and len(near) < _NEAR:
        near.append(above)
        above = above.parent
    for at, one in enumerate(near):
        attributes = one.attributes
        words = (attributes.get("class") or "").replace("brush: ", "brush:").split()
        names = [attributes.get("data-lang"), attributes.get("data-language")] if at < 4 else []
        names += [found[1] for word in words if (found := _LANGUAGE.match(word)) and (at < 4 or len(word) > 10)]
        names += [word for word in words if word in _BARE_LANGUAGES and one.tag in ("pre", "code")]
        for name in names:
            if name and name.lower() not in _NO_LANGUAGE and not name.isdecimal():
                return {"python3": "python", "ipython3": "python"}.get(name.lower(), name.lower())
    return ""


def _signature(node: LexborNode) -> str:
    text = squeeze(code_text(node)).rstrip("¶\uf0c1# ").replace("[source]", "").strip()
    return re.sub(r"\s+([,)\]])", r"\1", re.sub(r"([(\[])\s+", r"\1", text)).replace("`", "'")


def _is_text(block: str) -> bool:
    return not re.match(r"```|[-*|>#] |#{2,6} |\d+\. ", block)


def pipes(rows: list[list[str]]) -> str:
    """A table in Markdown."""
    width = max(len(row) for row in rows)
    lines = [f"| {' | '.join(row + [''] * (width - len(row)))} |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])


def _cell(cell: LexborNode | None) -> str:
    if cell is None:
        return ""
    parts: list[str] = []
    for child in cell.iter(include_text=True):
        text = code_span(squeeze(child.text(deep=True))) if child.tag == "pre" else inline_of(child, 0)
        parts.append(text if child.tag in _INLINE else f" {text} ")
    return squeeze("".join(parts)).replace("|", "\\|")


def _indented(mark: str, text: str) -> str:
    lines = text.split("\n")
    pad = " " * len(mark)
    return "\n".join([mark + lines[0], *(pad + line if line else line for line in lines[1:])])


def _number(value: str | None) -> int:
    return int(value) if value and value.isdecimal() and len(value) < 9 else 1
