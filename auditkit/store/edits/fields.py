"""Which fields of a ticket a command may set: their rows, their short names, and what they may say."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from auditkit.errors import BadInputError, nearest_names
from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import AGENT_NAMES, TicketId, agent_code, agent_name, id_parts
from auditkit.model.tickets.ticket import parse_severity
from auditkit.store.edits.boxes import (
    BOUND,
    UNBOUND,
    UNVERIFIED,
    VERIFIED,
    bind,
    bound_text,
    count_text,
    parse_binding,
    tick,
    unbind,
)
from auditkit.store.edits.categories import categories_text, set_categories
from auditkit.store.edits.cells import add_row, check_line, decorated, rows_of, set_cell, split_list
from auditkit.store.edits.resolution import set_tests, tests_text, with_section
from auditkit.store.edits.spans import inserted, replaced
from auditkit.store.markdown.document import Document
from auditkit.store.markdown.scan import Heading, Span
from auditkit.store.markdown.tables import Field
from auditkit.store.reading.reader import ticket_of

METADATA, LOCATION, RESOLUTION = "Ticket Metadata", "Location", "Resolution"

_TITLE = re.compile(rb"(?:\xef\xbb\xbf)?[ ]{0,3}#+[ \t]*(?:finding ticket:[ \t]*)?", re.IGNORECASE)
_SUMMARY = re.compile(rb"^(\*\*One-line summary:?\*\*:?)([ \t]*)([^\r\n]*?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)


def _any(text: str, _: TicketId, __: Mapping[str, str]) -> str:
    return text


def _severity(text: str, _: TicketId, __: Mapping[str, str]) -> str:
    try:
        return parse_severity(text).value
    except ValueError as error:
        raise BadInputError(str(error), f"one of {', '.join(Severity)}") from None


def _date(text: str, _: TicketId, __: Mapping[str, str]) -> str:
    try:
        # The standard library also reads 20260304 and week dates, which nobody else's tools do.
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise ValueError
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        raise BadInputError(f"not a date: '{inert_line(text)}'", "dates look like 2026-03-04") from None


def _due(text: str, ticket_id: TicketId, agents: Mapping[str, str]) -> str:
    return _date(text, ticket_id, agents) if text else ""


def _batch(text: str, ticket_id: TicketId, _: Mapping[str, str]) -> str:
    batch = str(id_parts(ticket_id)[0])
    if text != batch:
        raise BadInputError(f"the batch of {ticket_id} is {batch}", f"another id: auditkit ticket renumber {ticket_id}")
    return text


def _agent(text: str, ticket_id: TicketId, agents: Mapping[str, str]) -> str:
    code = id_parts(ticket_id)[1]
    if agent_code(text, agents) != code:
        raise BadInputError(
            f"the agent of {ticket_id} is {agent_name(code, agents)}",
            f"another id: auditkit ticket renumber {ticket_id}",
        )
    return text


@dataclass(frozen=True)
class Row:
    """A row that a ticket should have: `is_code` says how its values are written, `is_list` that it has several."""

    section: str
    label: str
    names: tuple[str, ...]
    is_code: bool = False
    is_list: bool = False
    check: Callable[[str, TicketId, Mapping[str, str]], str] = _any


ROWS = (
    Row(METADATA, "Ticket ID", ("id", "ticket-id"), is_code=True),
    Row(METADATA, "Severity", ("severity",), is_code=True, check=_severity),
    Row(METADATA, "Status", ("status",), is_code=True),
    Row(METADATA, "Batch", ("batch",), check=_batch),
    Row(METADATA, "Agent", ("agent",), is_code=True, check=_agent),
    Row(METADATA, "Domain", ("domain", "domains"), is_code=True, is_list=True),
    Row(METADATA, "Assignee", ("assignee",)),
    Row(METADATA, "Labels", ("labels", "label"), is_code=True, is_list=True),
    Row(METADATA, "Due", ("due",), check=_due),
    Row(METADATA, "Created", ("created",), check=_date),
    Row(METADATA, "Updated", ("updated",), check=_date),
    Row(LOCATION, "File(s)", ("files", "file"), is_code=True, is_list=True),
    Row(LOCATION, "Line(s)", ("lines", "line"), is_code=True, is_list=True),
    Row(LOCATION, "Function/Class", ("function", "class"), is_code=True, is_list=True),
    Row(RESOLUTION, "Fixed By", ("fixed-by",)),
    Row(RESOLUTION, "Fixed Date", ("fixed-date",), check=_date),
)
"""In the order of the tables; the first two may have further rows, which are set by their labels."""


class UnknownFieldError(BadInputError):
    """A ticket has no field of that name."""


TITLE, SUMMARY, CATEGORY, TESTS = "title", "summary", "category", "tests"
_ELSEWHERE = {
    "Ticket ID": "an id is changed with all its references: auditkit ticket renumber {id}",
    "Status": "a status has its rules: auditkit ticket status {id} NEW_STATUS",
}


def find_row(document: Document, name: str) -> Row:
    """The row that `name` means: a short name, or the label of any row in the two tables.

    Raises BadInputError with the nearest names.
    """
    folded = _folded(name)
    for row in ROWS:
        if folded in (_folded(row.label), *map(_folded, row.names)):
            return row
    present = [(section, row) for section in (METADATA, LOCATION) for row in document.fields(section)]
    for section, field in present:
        if folded == _folded(field.label):
            return Row(section, field.label, ())
    names = [*_OTHERS, *(row.names[0] for row in ROWS if row.label not in _ELSEWHERE)]
    names += [field.label for _, field in present if not any(field.label == row.label for row in ROWS)]
    near = nearest_names(name.casefold(), names)
    hint = f"did you mean {', '.join(near)}?" if near else f"one of {', '.join(names)}"
    raise UnknownFieldError(f"a ticket has no field '{inert_line(name)}'", hint)


def edit_field(document: Document, name: str, value: str, agents: Mapping[str, str] = AGENT_NAMES) -> Document:
    """The document with one field set: a row of a table, the title, the summary, a box, categories or tests.

    `category` and `tests` take all that are meant, separated by commas, `verified` and `unverified` the boxes that
    are meant (see `tick`), `bound` also their probe (see `parse_binding`), `unbound` them alone. A row that is
    missing is added where the table's order wants it. `agents` are names by code. Raises BadInputError for a field
    that is not there, that has a command of its own, or that cannot have this value.
    """
    if other := _other(name):
        return other.set(document, value)
    row = find_row(document, name)
    ticket_id = ticket_of(document).id
    if row.label in _ELSEWHERE:
        raise BadInputError(f"'{row.label}' is not edited", _ELSEWHERE[row.label].format(id=ticket_id))
    checked = row.check(value, ticket_id, agents) if value or row.check is not _any else value
    return set_row(document, row, checked)


def set_all(
    document: Document, values: Mapping[str, str], agents: Mapping[str, str] = AGENT_NAMES, adds_rows: bool = False
) -> Document:
    """The document with several fields set; with `adds_rows` one that nobody knows becomes a row of the metadata.

    Raises what `edit_field` raises.
    """
    for name, value in values.items():
        try:
            document = edit_field(document, name, value, agents)
        except UnknownFieldError as error:
            if not adds_rows:
                raise BadInputError(error.message, f"{error.hint}; --new-row adds a row of that name") from None
            document = _with_own_row(document, name, value)
    return document


def with_labels(document: Document, labels: str, remove: bool = False) -> Document:
    """The document with these labels (commas between them) beside those that it has, or without them."""
    named = split_list(labels)
    if not named:
        raise BadInputError("which label?")
    ours = ticket_of(document).labels
    folded = {label.casefold() for label in named}
    kept = [label for label in ours if not remove or label.casefold() not in folded]
    known = {label.casefold() for label in ours}
    new = [] if remove else [label for label in dict.fromkeys(named) if label.casefold() not in known]
    wanted = [*kept, *new]
    return document if wanted == list(ours) else edit_field(document, "labels", ", ".join(wanted))


def _with_own_row(document: Document, label: str, value: str) -> Document:
    """The document with a further row below those of its metadata."""
    section, rows = document.section(METADATA), document.fields(METADATA)
    if section is None or not rows:
        raise BadInputError(f"the ticket has no table below '## {METADATA}'", "add it by hand")
    return add_row(document, section, rows[-1], True, label, value)


def set_row(document: Document, row: Row, value: str) -> Document:
    """The document with `value` in the row, which is added where it is missing, but not to be empty."""
    present = document.fields(row.section)
    field = next((field for field in present if field.label.casefold() == row.label.casefold()), None)
    if field is None and not value:
        return document
    if row.section == RESOLUTION:
        document, _ = with_section(document)
    section = document.section(row.section)
    if section is None:
        raise BadInputError(f"the ticket has no section '## {row.section}'", "add it with a Field and Value table")
    if field is not None:
        return set_cell(document, section, field, value, row.is_code, row.is_list)
    return _with_new_row(document, section, present, row, value)


def field_text(document: Document, name: str) -> str:
    """What the field says now, with its decoration: setting it again restores the bytes.

    For boxes it is how many of them are ticked or bound, or are not.
    """
    if other := _other(name):
        return other.text(document)
    row = find_row(document, name)
    field = next((one for one in document.fields(row.section) if one.label.casefold() == row.label.casefold()), None)
    return field.written if field else ""


def set_title(document: Document, value: str) -> Document:
    """The document with another title behind `# Finding Ticket: `; raises BadInputError for no title."""
    heading = next((heading for heading in document.scan.headings if heading.level == 1), None)
    check_line(value, TITLE)
    if heading is None or not value:
        problem = "the ticket has no '# Finding Ticket: ' line" if heading is None else "a ticket needs a title"
        raise BadInputError(problem)
    prefix = _TITLE.match(document.data, heading.line.start, heading.line.end)
    start = prefix.end() if prefix else heading.line.end
    raw = document.data[start : heading.line.end]
    changed = document.replace(Span(start, start + len(raw.rstrip())), value.encode())
    if ticket_of(changed).title != value:
        raise BadInputError(f"not a title: {value!r}")
    return changed


def set_summary(document: Document, value: str) -> Document:
    """The document with another one-line summary; the line is added where the section has none."""
    check_line(value, SUMMARY)
    heading = document.section("Summary")
    if heading is None:
        raise BadInputError("the ticket has no section '## Summary'", "add it by hand")
    body = document.body(heading)
    found = _SUMMARY.search(document.data, body.start, body.end)
    if found is None:
        changed = inserted(document, heading.line.end, f"\n\n**One-line summary:** {value}")
    else:
        blank = "" if found[2] else " "
        changed = replaced(document, Span(found.start(3), found.end(3)), f"{blank}{value}")
    if ticket_of(changed).summary != value:
        raise BadInputError(f"not a summary: {value!r}")
    return changed


def _with_new_row(document: Document, section: Heading, present: tuple[Field, ...], row: Row, value: str) -> Document:
    order = [known.label.casefold() for known in ROWS if known.section == row.section]
    place = order.index(row.label.casefold())
    check_line(value, row.label)
    written = decorated(value, row.is_code, row.is_list)
    above = [field for field in present if field.label.casefold() in order[:place]]
    if above:
        return add_row(document, section, above[-1], True, row.label, written)
    if present:
        return add_row(document, section, present[0], False, row.label, written)
    header = rows_of(document, section)
    if header:
        raise BadInputError(f"the table of '## {row.section}' has no rows", f"add one by hand: | **{row.label}** | |")
    table = f"\n\n| Field | Value |\n|-------|-------|\n| **{row.label}** | {written.replace('|', chr(92) + '|')} |"
    return inserted(document, section.line.end, table)


def _folded(name: str) -> str:
    return re.sub(r"[\s_()/-]+", "", name.casefold())


@dataclass(frozen=True)
class _Other:
    """A field that is no row of a table: how it is set, and what it says."""

    set: Callable[[Document, str], Document]
    text: Callable[[Document], str]


_OTHERS = {
    TITLE: _Other(set_title, lambda document: ticket_of(document).title),
    SUMMARY: _Other(set_summary, lambda document: ticket_of(document).summary),
    VERIFIED: _Other(tick, count_text),
    UNVERIFIED: _Other(lambda document, which: tick(document, which, False), lambda one: count_text(one, False)),
    BOUND: _Other(lambda document, value: bind(document, parse_binding(value)), bound_text),
    UNBOUND: _Other(unbind, lambda document: bound_text(document, False)),
    CATEGORY: _Other(set_categories, categories_text),
    TESTS: _Other(set_tests, tests_text),
}
_SPELLINGS = {"onelinesummary": SUMMARY, "categories": CATEGORY, "test": TESTS}


def _other(name: str) -> _Other | None:
    folded = _folded(name)
    return _OTHERS.get(_SPELLINGS.get(folded, folded))
