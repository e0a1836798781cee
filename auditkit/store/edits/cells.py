"""Values of table cells: replaced inside their decoration, and read back before anybody writes them."""

from __future__ import annotations

import re

from auditkit.errors import BadInputError
from auditkit.model.text import CODE_SPAN, inert_line
from auditkit.store.edits.spans import inserted, replaced
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span
from auditkit.store.markdown.tables import Field, read_fields

_BETWEEN_COMMAS = re.compile(r"(?:\([^()]*\)|\[[^\[\]]*\]|[^,])+")


def rows_of(document: Document, section: Heading) -> tuple[Field, ...]:
    """The rows with a label in the tables below `section`, the header row among them."""
    return read_fields(document.data, document.body(section), document.scan.hidden)


def set_cell(
    document: Document, section: Heading, row: Field, value: str, is_code: bool = False, is_list: bool = False
) -> Document:
    """The document with another value in one cell of a table below `section`.

    Backticks or bold around the old value stay; an empty cell gets backticks where `is_code`. In a list,
    each part between commas is a value of its own. A value with backticks or `**` of its own is taken as it
    is written, for the whole cell. "" empties the cell. Raises BadInputError for what no cell can hold.
    """
    check_line(value, row.label)
    if is_list and not _is_markdown(value):
        value = ", ".join(split_list(value))
    cell = _trimmed(document.data, row.cell)
    text = value.replace("|", "\\|")
    if not value:
        # With the blank behind it, so that `| x |` becomes `| |`, which filling makes `| x |` again.
        changed = replaced(document, Span(cell.start, min(cell.end + 1, row.cell.end)), "")
    elif not row.written:
        # Behind the blanks that it has.
        blank = " " if row.cell.end > row.cell.start else ""
        changed = inserted(document, row.cell.end, decorated(text, is_code, is_list) + blank)
    elif _is_markdown(value):
        changed = replaced(document, cell, text)
    elif is_list and ("," in value or not _is_one_value(document.data, cell, row)):
        changed = replaced(document, cell, decorated(text, "`" in row.written, is_list))
    else:
        changed = replaced(document, row.value, text)
    return _checked(document, changed, section, row, value)


def add_row(document: Document, section: Heading, beside: Field, is_below: bool, label: str, value: str) -> Document:
    """The document with one more row above or below the row `beside`, its label written as in that one.

    `value` is the cell's Markdown. Raises BadInputError for what no cell can hold.
    """
    check_line(value, label)
    line = document.data[beside.line.start : beside.line.end]
    name = f"**{label}**" if b"**" in line.partition(b"|")[2].partition(b"|")[0] else label
    indent = line[: len(line) - len(line.lstrip())].decode()
    written = f"{indent}| {name} | {value.replace('|', chr(92) + '|')} |" if value else f"{indent}| {name} | |"
    position, text = (beside.line.end, f"\n{written}") if is_below else (beside.line.start, f"{written}\n")
    changed = replaced(document, Span(position, position), text)
    added = [row for row in _reread(changed, section) if row.label == label]
    if len(_reread(changed, section)) != len(rows_of(document, section)) + 1 or added[0].written != value:
        raise _no_value(label, value)
    return changed


def split_list(text: str) -> list[str]:
    """What stands between commas, blanks removed; a comma in brackets separates nothing: `f(a, b)`."""
    return [part.strip() for part in _BETWEEN_COMMAS.findall(text) if part.strip()]


def decorated(text: str, is_code: bool, is_list: bool) -> str:
    """A value as a new cell has it: in backticks where `is_code`, unless it has some of its own."""
    if not is_code or _is_markdown(text) or not text:
        return text
    return ", ".join(f"`{part}`" for part in (split_list(text) if is_list else [text]))


def check_line(value: str, label: str) -> None:
    """Raise BadInputError unless `value` is visible text on one line whose backticks are in pairs."""
    if value != inert_line(value) or "`" in CODE_SPAN.sub("", value):
        raise _no_value(label, value)


def _is_markdown(text: str) -> bool:
    return "`" in text or "**" in text


def _checked(old: Document, new: Document, section: Heading, row: Field, value: str) -> Document:
    """`new` if it reads `value` in the row, and everything else in the section as `old` does."""
    before, after = rows_of(old, section), _reread(new, section)
    place = before.index(row)
    if len(before) != len(after) or any(
        (one.label, one.written) != (other.label, other.written)
        for number, (one, other) in enumerate(zip(before, after, strict=True))
        if number != place
    ):
        raise _no_value(row.label, value)
    now = after[place]
    plain = re.sub(r"`", "", now.written)
    if now.label != row.label or value not in (now.text, now.written, plain):
        raise _no_value(row.label, value)
    return new


def _reread(document: Document, section: Heading) -> tuple[Field, ...]:
    again = next(heading for heading in document.scan.headings if heading.line.start == section.line.start)
    return rows_of(document, again)


def _no_value(label: str, value: str) -> BadInputError:
    return BadInputError(
        f"not a value for the row '{label}': {value!r}",
        "it is one line of visible text, backticks in pairs, no backslash before a pipe",
    )


def _is_one_value(data: bytes, cell: Span, row: Field) -> bool:
    """Whether nothing but decoration stands around the value."""
    around = data[cell.start : row.value.start] + data[row.value.end : cell.end]
    return not around.strip(b"*_` ") and "`" not in row.text


def _trimmed(data: bytes, cell: Span) -> Span:
    raw = data[cell.start : cell.end]
    start = cell.start + len(raw) - len(raw.lstrip())
    return Span(start, start + len(raw.strip()))
