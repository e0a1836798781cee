"""Commands that read: list, show and next, as Typer knows them; what they do is in `auditkit.cli.views`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, run_or_exit
from auditkit.cli.completion import agreements, orders, severities, statuses, verdicts
from auditkit.cli.options import Words
from auditkit.cli.ticket.common import IdArgument, app

_MORE = "More filters"


@dataclass(frozen=True)
class ListOptions:
    """Which tickets are listed, in which order, and how: the parameters of `views.listing.list_tickets`."""

    tickets: TicketsOption = None
    status: Annotated[
        Words,
        typer.Option(
            metavar="STATUS", help="Only this status (may be repeated, as all filters).", autocompletion=statuses
        ),
    ] = None
    severity: Annotated[
        Words, typer.Option(metavar="P0..P4", help="Only this severity.", autocompletion=severities)
    ] = None
    batch: Annotated[list[int] | None, typer.Option(metavar="N", help="Only this batch.", rich_help_panel=_MORE)] = None
    agent: Annotated[
        Words, typer.Option(metavar="NAME", help="Only this agent: PT or pytorch, CR, DRL.", rich_help_panel=_MORE)
    ] = None
    domain: Annotated[Words, typer.Option(help="Only this domain, or a part of it.", rich_help_panel=_MORE)] = None
    category: Annotated[
        Words, typer.Option(help="Only with a ticked category that holds this.", rich_help_panel=_MORE)
    ] = None
    assignee: Annotated[Words, typer.Option(metavar="NAME", help='Only of this assignee; "" for nobody.')] = None
    file: Annotated[
        Words,
        typer.Option(
            metavar="PATH", help="Only with a file whose path holds this, or matches it (*.py).", rich_help_panel=_MORE
        ),
    ] = None
    text: Annotated[Words, typer.Option(help="Only with this in title or summary; several: all of them.")] = None
    reviewer: Annotated[
        Words, typer.Option(metavar="NAME", help="Only with a review by this reviewer.", rich_help_panel=_MORE)
    ] = None
    verdict: Annotated[
        Words,
        typer.Option(
            metavar="VERDICT",
            help="Only with this verdict, of --reviewer where named.",
            rich_help_panel=_MORE,
            autocompletion=verdicts,
        ),
    ] = None
    consensus: Annotated[
        Words,
        typer.Option(
            metavar="KIND",
            help="Only unanimous, majority, split, partial, none, or needs-answer.",
            rich_help_panel=_MORE,
            autocompletion=agreements,
        ),
    ] = None
    blocked: Annotated[
        bool | None,
        typer.Option(
            "--blocked/--unblocked",
            help="Only what an unfinished ticket blocks, or the rest.",
            rich_help_panel=_MORE,
        ),
    ] = None
    stale: Annotated[
        bool,
        typer.Option("--stale", help="Only with a review that judged other evidence.", rich_help_panel=_MORE),
    ] = False
    where: Annotated[
        Words,
        typer.Option(metavar="FIELD=VALUE", help="Only where this is true: label=x, due<2026-12-01, title~norm."),
    ] = None
    sort: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="id, severity, status, created, updated, or age (oldest first).",
            autocompletion=orders,
        ),
    ] = "id"
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None
    as_json: JsonOption = False


@app.command("list", epilog="Example: auditkit ticket list --status open --severity P1 --batch 7 --json")
@run_or_exit
def list_tickets(options: ListOptions) -> None:
    """List the tickets of a folder.

    Files that cannot be read are named on stderr and make it exit 2. A ! stands before the title where a majority
    of the reviewers waits for an answer.
    """
    from auditkit.cli.views import listing

    raise typer.Exit(listing.list_tickets(**vars(options)))


@app.command(epilog="Example: auditkit ticket show B7-PT-01")
@run_or_exit
def show(ticket_id: IdArgument, tickets: TicketsOption = None, as_json: JsonOption = False) -> None:
    """Show one ticket: its file as it is, or its fields as JSON."""
    from auditkit.cli.views import showing

    raise typer.Exit(showing.show_ticket(ticket_id, tickets, as_json))


@app.command("next", epilog="Example: auditkit ticket next --agent pytorch --limit 3")
@run_or_exit
def next_tickets(
    tickets: TicketsOption = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 1,
    agent: Annotated[Words, typer.Option(help="Only this agent: PT or pytorch, CR, DRL.")] = None,
    assignee: Annotated[Words, typer.Option(help='Only of this assignee; "" for nobody.')] = None,
    as_json: JsonOption = False,
) -> None:
    """Say which ticket to take, and why.

    It is unfinished, not put off, and blocked by nothing unfinished. The worst severity comes first, then what the
    reviewers stand behind, then the oldest.
    """
    from auditkit.cli.views import next_tickets as next_up

    code = next_up.next_tickets(tickets, limit=limit, agent=agent or (), assignee=assignee or (), as_json=as_json)
    raise typer.Exit(code)
