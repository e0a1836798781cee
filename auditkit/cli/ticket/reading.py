"""Commands that read: list and show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import (
    JsonOption,
    TicketsOption,
    choose,
    complain,
    open_repository,
    run_or_exit,
    say,
    say_json,
    wants_colour,
)
from auditkit.cli.ticket.app import IdArgument, app

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from auditkit.model.enums import Severity
    from auditkit.model.ticket import BrokenTicket, Status, Ticket


@app.command("list", epilog="Example: auditkit ticket list --status open --severity P1 --batch 7 --json")
@run_or_exit
def list_tickets(
    tickets: TicketsOption = None,
    status: Annotated[list[str] | None, typer.Option(help="Only this status (may be repeated).")] = None,
    severity: Annotated[list[str] | None, typer.Option(help="Only this severity, P0 to P4.")] = None,
    batch: Annotated[list[int] | None, typer.Option(help="Only this batch.")] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Only this agent: PT or pytorch, CR, DRL.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the tickets of a folder; files that cannot be read are named on stderr and make it exit 2."""
    from auditkit.model.ids import agent_code

    statuses, severities = _statuses(status or []), _severities(severity or [])
    agents = [agent_code(name) for name in agent or []]
    repository = open_repository(tickets)
    listing = repository.listing()
    shown = [
        ticket
        for ticket in listing.tickets
        if (not statuses or ticket.status in statuses)
        and (not severities or ticket.severity in severities)
        and (not batch or ticket.batch in batch)
        and (not agents or agent_code(ticket.agent) in agents)
    ]
    if as_json:
        broken = [entry.to_json() for entry in listing.broken]
        say_json({"schema_version": 1, "tickets": [ticket.to_json() for ticket in shown], "broken": broken})
    else:
        _print_tickets(shown)
    _warn_of_unknown_words(shown)
    _complain_of_broken(listing.broken, repository.folder)


@app.command(epilog="Example: auditkit ticket show B7-PT-01")
@run_or_exit
def show(ticket_id: IdArgument, tickets: TicketsOption = None, as_json: JsonOption = False) -> None:
    """Show one ticket: its file as it is, or its fields as JSON."""
    entry = open_repository(tickets).find(ticket_id)
    text = entry.document.data.decode("utf-8")
    if as_json:
        say_json({"schema_version": 1, "tickets": [{**entry.ticket.to_json(), "text": text}]})
    else:
        say(text.removesuffix("\n"))


def _statuses(names: Sequence[str]) -> set[Status]:
    from auditkit.model.ticket import Status, parse_status

    return {choose(parse_status, name, [known.value for known in Status]) for name in names}


def _severities(names: Sequence[str]) -> set[Severity]:
    from auditkit.model.enums import Severity
    from auditkit.model.ticket import parse_severity

    return {choose(parse_severity, name, [known.value for known in Severity]) for name in names}


def _columns(ticket: Ticket) -> tuple[str, str, str, str, str]:
    """What a line of the list says of a ticket; a word nobody knows is shown as written."""
    from auditkit.model.text import inert_line

    words = (
        ticket.id,
        ticket.severity or ticket.severity_written or "-",
        ticket.status or ticket.status_written or "-",
        ticket.agent,
        ticket.title,
    )
    first, second, third, fourth, last = (inert_line(word) for word in words)
    return first, second, third, fourth, last


def _print_tickets(tickets: Sequence[Ticket]) -> None:
    rows = [_columns(ticket) for ticket in tickets]
    if wants_colour():
        _print_table(rows)
        return
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        say("  ".join([*cells, row[-1]]).rstrip())


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("id", "sev", "status", "agent", "title", box=box.SIMPLE_HEAD)
    for column in table.columns[:-1]:
        column.no_wrap = True
    for row in rows:
        # A Text takes square brackets for what they are; a string would be read as markup.
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


def _warn_of_unknown_words(tickets: Sequence[Ticket]) -> None:
    for ticket in tickets:
        if ticket.status is None:
            complain(f"warning: {ticket.id}: no such status: '{ticket.status_written}'")
        if ticket.severity is None:
            complain(f"warning: {ticket.id}: no such severity: '{ticket.severity_written}'")


def _complain_of_broken(broken: Sequence[BrokenTicket], folder: Path) -> None:
    """Name every file that is no ticket, and end with exit code 2 if there is one."""
    from auditkit.errors import ExitCode

    for entry in broken:
        complain(entry.describe(folder / entry.path))
    if broken:
        raise typer.Exit(int(ExitCode.BAD_INPUT))
