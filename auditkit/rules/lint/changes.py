"""The list of status changes that commands keep in a ticket, line by line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Status, read_status

_CHANGE = re.compile(r"\s*- (?P<date>\S+): (?P<steps>[\w' -]+? to [\w -]+): (?P<reason>.*)")


@dataclass(frozen=True)
class StatusChange:
    """One step of a line of Status Changes; `old` and `new` are None for words that are no status."""

    old: Status | None
    new: Status | None
    reason: str
    line: int
    text: str


def changes_of(page: Page) -> Iterator[StatusChange]:
    """Every step, in the order of the file; `open to investigating to fixed` are two."""
    section = page.section("Status Changes", level=3)
    if section is None:
        return
    for number in range(section.line + 1, section.end_line):
        match = _CHANGE.fullmatch(page.lines[number - 1])
        if match is None:
            continue
        for old, new in itertools.pairwise(match["steps"].split(" to ")):
            yield StatusChange(read_status(old), read_status(new), match["reason"].strip(), number, f"{old} to {new}")


def reason_for_status(page: Page) -> str:
    """Why the ticket has the status that it has, "" where no line says so."""
    reasons = [change.reason for change in changes_of(page) if change.new is page.ticket.status]
    return reasons[-1] if reasons else ""
