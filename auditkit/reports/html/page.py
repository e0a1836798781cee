"""A page as one HTML file for a browser: no script, no request; its policy allows only its own style."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable

from auditkit.assets import bundled_dir
from auditkit.model.text import inert
from auditkit.reports.html.svg import Markup, element, escaped, joined
from auditkit.reports.page import (
    Block,
    Cell,
    Code,
    Diff,
    Figure,
    Folded,
    Grid,
    Items,
    Link,
    Listing,
    Page,
    Section,
    Span,
    Strong,
    Table,
    Text,
    Written,
)

_MOST_COLUMNS, _MOST_UPRIGHT = 14, 6
"""Columns that a grid shows beside each other; of more, each row is a block of its own."""
_PARTS = re.compile(r"([._/#:])(?=\w)")
_HEAD = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n"
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    "<title>{title}</title>\n<style>{style}</style>\n</head>\n"
)


def html_page(page: Page) -> bytes:
    """The page as HTML in UTF-8."""
    style, style_hash = page_style()
    facts = [element("div", element("dt", label), element("dd", *map(_span, spans))) for label, spans in page.facts]
    linked = [each for each in page.sections if each.anchor]
    contents = [element("li", element("a", each.title, href=f"#{each.anchor}")) for each in linked]
    header = element(
        "header",
        element("p", "auditkit", class_="maker"),
        element("h1", _name(page.title)),
        *(element("p", each, class_=None if number else "verdict") for number, each in enumerate(page.summary)),
        *([element("dl", *facts, class_="facts")] if facts else []),
        *([element("nav", element("ul", *contents), aria_label="Contents")] if contents else []),
    )
    main = element("main", *(_section(each, 2) for each in page.sections), *_attached(page), id="main")
    skip = element("a", "Skip to the findings", class_="skip", href="#main")
    head = _HEAD.format(hash=style_hash, title=escaped(page.title) or "auditkit", style=style)
    return f"{head}{element('body', skip, header, main)}\n</html>\n".encode("utf-8", "replace")


@functools.cache
def page_style() -> tuple[Markup, str]:
    """The style sheet, and its hash for the page's policy."""
    style = joined(
        Markup((bundled_dir("templates") / "html" / name).read_text("utf-8")) for name in ("page.css", "drawing.css")
    )
    return style, base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def _attached(page: Page) -> list[Markup]:
    if page.attachment is None:
        return []
    name, packed = page.attachment
    data = f"data:application/gzip;base64,{base64.b64encode(packed).decode()}"
    link = element("a", f"save {name}", download=name, href=data)
    return [element("p", "Every number of this page is from the JSON of the run, which lies in it: ", link, ".")]


def _section(section: Section, level: int) -> Markup:
    blocks = [_block(each, section.anchor, number, level) for number, each in enumerate(section.blocks)]
    if not section.severity:
        head = element(f"h{level}", _name(section.title))
        return element("section", element("div", head, id=section.anchor or None), *map(_span, section.lead), *blocks)
    title = element(
        "h3", element("span", section.severity, class_=f"chip {section.severity}"), " ", _name(section.title)
    )
    lead = element("p", *map(_span, section.lead), class_="said")
    # A link to something inside unfolds the card; a link to the card itself does not.
    inside = element("div", *blocks, id=section.anchor or None)
    is_open = "" if section.is_open else None
    return element("details", element("summary", title, lead), inside, class_=f"card {section.severity}", open=is_open)


def _block(block: Block, anchor: str, number: int, level: int) -> Markup:
    match block:
        case Section():
            return _section(block, level + 1)
        case Text():
            return element("p", *map(_span, block.spans), class_="prose")
        case Items():
            return element("ul", *(element("li", *map(_span, spans)) for spans in block.rows))
        case Table():
            return _table(block.head, block.rows, block.caption)
        case Listing():
            return joined([element("h4", _name(block.file)), element("pre", *_code_lines(block), class_="code")])
        case Diff():
            lines = [element("span", f"{line}\n", class_=_kind(line)) for line in block.text.splitlines()]
            return element("pre", *lines, class_="code diff")
        case Written():
            return element("div", _written(block.text))
        case Figure():
            picture = block.picture
            table = _table(picture.head, picture.rows, picture.title)
            numbers = element("details", element("summary", "The same numbers as a table"), table)
            words = element("figcaption", picture.title)
            return element("figure", picture.svg(f"{anchor or 'p'}-{number}"), words, numbers)
        case Grid():
            return _grid(block)
        case Folded():
            inside = [_block(each, f"{anchor}-{number}", place, level) for place, each in enumerate(block.blocks)]
            return element("details", element("summary", block.title), *inside)


def _table(head: Iterable[str], rows: Iterable[Iterable[Span]], caption: str) -> Markup:
    heads = [element("th", each, scope="col") for each in head]
    body = [element("tr", *(element("td", _span(cell)) for cell in row)) for row in rows]
    named = [element("caption", caption)] if caption else []
    return element("table", *named, element("thead", element("tr", *heads)), element("tbody", *body), class_="numbers")


def _code_lines(block: Listing) -> Iterable[Markup]:
    for number, line in enumerate(block.lines, block.first):
        is_marked = block.marked <= number <= block.last
        sign = element("span", f"{'▶ ' if is_marked else ''}{number}", class_="number")
        said = [element("span", " (the blamed line)", class_="unseen")] if is_marked else []
        yield element("span", sign, f" {line}", *said, "\n", class_="marked" if is_marked else None)


def _kind(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "at"
    return {"+": "plus", "-": "minus"}.get(line[:1], "same")


def _grid(grid: Grid) -> Markup:
    count = len(grid.columns)
    layout = "stacked" if count > _MOST_COLUMNS else "turned" if count > _MOST_UPRIGHT else "few"
    heads = [
        element("th", element("span", _name(each or "(without a name)")), scope="col", role="columnheader")
        for each in grid.columns
    ]
    corner = element("th", grid.corner, scope="col", role="columnheader")
    rows = [
        element(
            "tr",
            element("th", _name(name or "(without a name)"), scope="row", role="rowheader"),
            *map(_cell, cells),
            role="row",
        )
        for name, cells in grid.rows
    ]
    return element(
        "table",
        element("caption", grid.caption),
        element("thead", element("tr", corner, *heads, role="row"), role="rowgroup"),
        element("tbody", *rows, role="rowgroup"),
        class_=f"matrix {layout}",
        role="table",
    )


def _cell(cell: Cell) -> Markup:
    sign, word = element("span", cell.sign, aria_hidden="true"), element("span", cell.word, class_="word")
    return element("td", sign, " ", word, role="cell", class_=cell.kind, data_column=cell.column)


def _span(span: Span) -> Markup:
    if isinstance(span, Link):
        return element("a", _name(span.text), href=f"#{span.anchor}") if span.anchor else _name(span.text)
    if isinstance(span, Code):
        return element("code", _name(span)) if span else Markup("")
    return element("b", span) if isinstance(span, Strong) else Markup(escaped(span))


def _name(text: str) -> Markup:
    """A name that a browser may break after its parts."""
    return Markup(_PARTS.sub(r"\1<wbr>", escaped(text)))


def _written(text: str) -> Markup:
    """Markdown of people as HTML: no link, picture or HTML of theirs becomes markup."""
    from markdown_it import MarkdownIt

    reader = (
        MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink", "reference"])
    )
    return Markup(reader.render(inert(text)))
