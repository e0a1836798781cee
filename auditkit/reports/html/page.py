"""A page as one HTML file for a browser. It makes no request; its policy allows its own style and filter script.

The page is complete without the script: only the filter of the findings needs it.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence

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
_MOST_FIRST = 3
"""Findings that the page names at its top."""
_TOKENS = {"Keyword": "k", "Operator.Word": "k", "Literal.String": "s", "Literal.Number": "n", "Comment": "c",
           "Name.Function": "f", "Name.Class": "f", "Name.Decorator": "f"}  # fmt: skip
"""The class of each of Pygments' tokens that has a colour."""
_PARTS = re.compile(r"([._/#:])(?=\w)")
_HEAD = (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; style-src 'sha256-{hash}'; {script}base-uri 'none'; form-action 'none'\">\n"
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
    cards = [*_cards(page.sections)]
    found = [card for section in page.sections if section.anchor == "findings" for card in _cards((section,))]
    first = _first(found)
    said = [each for each in page.summary if not (first and each.startswith("Do this first"))]
    header = element(
        "header",
        element("p", "auditkit", class_="maker"),
        element("h1", _name(page.title)),
        *(element("p", each, class_=None if number else "verdict") for number, each in enumerate(said)),
        *first,
        *([element("dl", *facts, class_="facts")] if facts else []),
        *([element("nav", element("ul", *contents), aria_label="Contents")] if contents else []),
    )
    filters = len(cards) > 1
    where = next((each.anchor for each in page.sections if filters and [*_cards((each,))]), None)
    sections = [
        _section(each, 2, _filter(cards) if filters and each.anchor == where else None) for each in page.sections
    ]
    main = element("main", *sections, *_attached(page), id="main")
    skip = element("a", "Skip to the findings", class_="skip", href="#main")
    script, script_hash = page_script()
    policy = f"script-src 'sha256-{script_hash}'; " if filters else ""
    head = _HEAD.format(hash=style_hash, script=policy, title=escaped(page.title) or "auditkit", style=style)
    body = element("body", skip, header, main, *([element("script", script)] if filters else []))
    return f"{head}{body}\n</html>\n".encode("utf-8", "replace")


def _cards(blocks: Iterable[Block]) -> Iterator[Section]:
    """The findings among the blocks, the folded ones too."""
    for block in blocks:
        if isinstance(block, Section) and block.severity:
            yield block
        elif isinstance(block, Section | Folded):
            yield from _cards(block.blocks)


def _first(cards: Sequence[Section]) -> list[Markup]:
    """What to do first: the worst findings, each with its advice or the fix that was run."""
    rows = []
    for card in cards[:_MOST_FIRST]:
        advice = next(
            (each for each in card.blocks if isinstance(each, Text) and isinstance(each.spans[0], Strong)), None
        )
        link = element("a", _name(card.title), href=f"#{card.anchor}")
        words = [element("p", *map(_span, advice.spans), class_="said")] if advice else []
        rows.append(element("li", _chip(card), " ", link, *words))
    if not rows:
        return []
    return [
        element("section", element("h2", "What to do first", id="first"), element("ol", *rows), aria_labelledby="first")
    ]


def _filter(cards: Sequence[Section]) -> Markup:
    """Search, severities and probe; hidden until the script has run, because it does nothing without it."""
    levels = sorted({card.severity for card in cards})
    probes = sorted({probe for card in cards for probe in card.probes})
    boxes = [
        element("label", element("input", type="checkbox", value=each, checked=""), " ", each, class_="box")
        for each in levels
    ]
    choices = [element("option", "all", value=""), *(element("option", each, value=each) for each in probes)]
    return element(
        "div",
        element("label", "Search ", element("input", type="search")),
        element("fieldset", element("legend", "Severity"), *boxes),
        *([element("label", "Probe ", element("select", *choices))] if probes else []),
        element("output", aria_live="polite"),
        id="filter", class_="filter", role="search", aria_label="Filter the findings", hidden="",
    )  # fmt: skip


def _chip(card: Section) -> Markup:
    return element("span", card.severity, class_=f"chip {card.severity}")


@functools.cache
def page_style() -> tuple[Markup, str]:
    """The style sheet, and its hash for the page's policy."""
    style = joined(
        Markup((bundled_dir("templates") / "html" / name).read_text("utf-8")) for name in ("page.css", "drawing.css")
    )
    return style, base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


@functools.cache
def page_script() -> tuple[Markup, str]:
    """The script of the filter, and its hash for the page's policy."""
    script = Markup((bundled_dir("templates") / "html" / "filter.js").read_text("utf-8"))
    return script, base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _attached(page: Page) -> list[Markup]:
    if page.attachment is None:
        return []
    name, packed = page.attachment
    data = f"data:application/gzip;base64,{base64.b64encode(packed).decode()}"
    link = element("a", f"save {name}", download=name, href=data)
    return [element("p", "Every number of this page is from the JSON of the run, which lies in it: ", link, ".")]


def _section(section: Section, level: int, control: Markup | None = None) -> Markup:
    blocks = [_block(each, section.anchor, number, level) for number, each in enumerate(section.blocks)]
    if not section.severity:
        head = element(f"h{level}", _name(section.title))
        top = [element("div", head, id=section.anchor or None), *([control] if control else [])]
        return element("section", *top, *map(_span, section.lead), *blocks)
    title = element("h3", _chip(section), " ", _name(section.title))
    lead = element("p", *map(_span, section.lead), class_="said")
    # A link to something inside unfolds the card; a link to the card itself does not.
    link = element("a", "Link to this finding", class_="jump", href=f"#{section.anchor}") if section.anchor else ""
    inside = element("div", *blocks, link, id=section.anchor or None)
    is_open, probes = "" if section.is_open else None, " ".join(section.probes)
    return element(
        "details", element("summary", title, lead), inside, class_=f"card {section.severity}",
        data_severity=section.severity, data_probes=probes, open=is_open,
    )  # fmt: skip


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
            rows = block.text.splitlines()
            coloured = zip(rows, _coloured([line[1:] for line in rows]), strict=True)
            lines = [
                element("span", *((line, "\n") if _kind(line) == "at" else (line[:1], code, "\n")), class_=_kind(line))
                for line, code in coloured
            ]
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
            return element("details", element("summary", block.title), *inside, class_="folded")


def _table(head: Iterable[str], rows: Iterable[Iterable[Span]], caption: str) -> Markup:
    heads = [element("th", each, scope="col") for each in head]
    body = [element("tr", *(element("td", _span(cell)) for cell in row)) for row in rows]
    named = [element("caption", caption)] if caption else []
    return element("table", *named, element("thead", element("tr", *heads)), element("tbody", *body), class_="numbers")


def _code_lines(block: Listing) -> Iterable[Markup]:
    for number, line in enumerate(_coloured(block.lines), block.first):
        is_marked = block.marked <= number <= block.last
        sign = element("span", f"{'▶ ' if is_marked else ''}{number}", class_="number")
        said = [element("span", " (the blamed line)", class_="unseen")] if is_marked else []
        yield element("span", sign, " ", line, *said, "\n", class_="marked" if is_marked else None)


def _coloured(lines: Sequence[str]) -> list[Markup]:
    """Lines of Python with a class for each keyword, string, number, comment and definition."""
    from pygments.lexers.python import PythonLexer

    rows: list[list[Markup]] = [[]]
    code = "\n".join(line.replace("\n", " ") for line in lines)
    for _, token, text in PythonLexer().get_tokens_unprocessed(code):
        kind = next((kind for name, kind in _TOKENS.items() if str(token).startswith(f"Token.{name}")), None)
        for number, part in enumerate(text.split("\n")):
            if number:
                rows.append([])
            rows[-1].append(element("span", part, class_=kind) if kind and part else Markup(escaped(part)))
    return [joined(row) for row in rows]


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
