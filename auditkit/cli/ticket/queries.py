"""Commands that read: list, show and next, as Typer knows them; what they do is in `auditkit.cli.views`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, run_or_exit
from auditkit.cli.options import Words
from auditkit.cli.ticket.common import IdArgument, app


@dataclass(frozen=True)
class ListOptions:
    """Which tickets are listed, in which order, and how: the parameters of `views.listing.list_tickets`."""

    tickets: TicketsOption = None
    status: Annotated[Words, typer.Option(help="Only this status (may be repeated, as all filters).")] = None
    severity: Annotated[Words, typer.Option(help="Only this severity, P0 to P4.")] = None
    batch: Annotated[list[int] | None, typer.Option(help="Only this batch.")] = None
    agent: Annotated[Words, typer.Option(help="Only this agent: PT or pytorch, CR, DRL.")] = None
    domain: Annotated[Words, typer.Option(help="Only this domain, or a part of it.")] = None
    category: Annotated[Words, typer.Option(help="Only with a ticked category that holds this.")] = None
    assignee: Annotated[Words, typer.Option(help='Only of this assignee; "" for nobody.')] = None
    file: Annotated[Words, typer.Option(help="Only with a file whose path holds this, or matches it (*.py).")] = None
    text: Annotated[Words, typer.Option(help="Only with this in title or summary; several: all of them.")] = None
    reviewer: Annotated[Words, typer.Option(help="Only with a review by this reviewer.")] = None
    verdict: Annotated[Words, typer.Option(help="Only with this verdict, of --reviewer where named.")] = None
    consensus: Annotated[
        Words, typer.Option(help="Only unanimous, majority, split, partial, none, or needs-answer.")
    ] = None
    blocked: Annotated[
        bool | None, typer.Option("--blocked/--unblocked", help="Only what an unfinished ticket blocks, or the rest.")
    ] = None
    stale: Annotated[bool, typer.Option("--stale", help="Only with a review that judged other evidence.")] = False
    sort: Annotated[str, typer.Option(help="id, severity, status, created, updated, or age (oldest first).")] = "id"
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None
    as_json: JsonOption = False


@app.command("list", epilog="Example: auditkit ticket list --status open --severity P1 --batch 7 --json")
@run_or_exit
def list_tickets(options: ListOptions) -> None:
    """List the tickets of a folder; files that cannot be read are named on stderr and make it exit 2.

    A ! stands before the title where a majority of the reviewers waits for an answer.
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
    """Say which ticket to take, and why: unfinished, not put off, blocked by nothing unfinished.

    The worst severity first, then what the reviewers stand behind, then the oldest.
    """
    from auditkit.cli.views import next_tickets as next_up

    code = next_up.next_tickets(tickets, limit=limit, agent=agent or (), assignee=assignee or (), as_json=as_json)
    raise typer.Exit(code)
