"""Commands that read, from list to next, as Typer knows them; what they do is in `auditkit.cli.views`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from auditkit.cli.common import JsonOption, TicketsOption, run_or_exit
from auditkit.cli.completion import agreements, columns, formats, orders, severities, statuses, verdicts
from auditkit.cli.options import Words
from auditkit.cli.ticket.common import IdArgument, app

_MORE = "More filters"


@dataclass(frozen=True)
class FilterOptions:
    """Which tickets are meant: the filters of `views.filters`."""

    tickets: TicketsOption = None
    status: Annotated[
        Words,
        typer.Option(
            metavar="STATUS",
            help="Only these, a,b or repeated as in all filters; finished ones too.",
            autocompletion=statuses,
        ),
    ] = None
    severity: Annotated[
        Words, typer.Option(metavar="P0..P4", help="Only this severity.", autocompletion=severities)
    ] = None
    batch: Annotated[Words, typer.Option(metavar="N", help="Only this batch.", rich_help_panel=_MORE)] = None
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


@dataclass(frozen=True)
class ListOptions:
    """Which tickets are listed, in which order, and how: the parameters of `views.listing.list_tickets`."""

    filters: FilterOptions
    unfinished: Annotated[bool, typer.Option("--open", help="Only what is not finished: the default but in JSON.")] = (
        False
    )
    closed: Annotated[bool, typer.Option("--closed", help="Only what is finished.")] = False
    every: Annotated[bool, typer.Option("--all", help="Finished or not.")] = False
    sort: Annotated[
        str,
        typer.Option(
            metavar="ORDER",
            help="id, severity, status, created, updated, due, or age (oldest first).",
            autocompletion=orders,
        ),
    ] = "id"
    reverse: Annotated[bool, typer.Option("--reverse", help="The other way round.")] = False
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many.")] = None
    columns: Annotated[
        Words, typer.Option(metavar="NAMES", help="Which columns: id,severity,age,title ...", autocompletion=columns)
    ] = None
    form: Annotated[
        str,
        typer.Option("--format", metavar="text|csv|json|markdown", help="How it is written.", autocompletion=formats),
    ] = ""


@app.command("list", epilog="Example: auditkit ticket list --severity P0,P1 --assignee dana --sort age")
@run_or_exit
def list_tickets(options: ListOptions, as_json: JsonOption = False) -> None:
    """List the tickets of a folder that are not finished.

    --all and --closed list finished ones, too, and so does --status; --json has all tickets unless it is asked for
    less. Files that cannot be read are named on stderr and make it exit 2. A ! stands before the title where a majority
    of the reviewers waits for an answer.
    """
    from auditkit.cli.views import listing

    raise typer.Exit(listing.list_tickets(**_flat(options), as_json=as_json))


@app.command(epilog='Example: auditkit ticket search overflow "square root" --severity P0,P1')
@run_or_exit
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help='All of these; "in quotes" one phrase.')],
    filters: FilterOptions,
    unfinished: Annotated[bool, typer.Option("--open", help="Only what is not finished.")] = False,
    closed: Annotated[bool, typer.Option("--closed", help="Only what is finished.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Find tickets by any words of theirs, and show the lines.

    The whole text is looked through, whatever the case, finished tickets too. Those with all words in the title come
    first, then what is not finished, then by severity.
    """
    from auditkit.cli.views.search import search_tickets

    code = search_tickets(words, unfinished=unfinished, closed=closed, limit=limit, as_json=as_json, **vars(filters))
    raise typer.Exit(code)


@app.command(epilog="Example: auditkit ticket board --assignee dana")
@run_or_exit
def board(
    filters: FilterOptions,
    every: Annotated[bool, typer.Option("--all", help="Columns for what is finished, too.")] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="At most so many in a column.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Show the tickets in columns by their status.

    The worst and oldest stand first. Through a pipe the columns stand below each other.
    """
    from auditkit.cli.views.board import show_board

    raise typer.Exit(show_board(every=every, limit=limit, as_json=as_json, **vars(filters)))


def _flat(options: ListOptions) -> dict[str, Any]:
    """The options of a group and of the filters in it, by name."""
    return {name: value for name, value in vars(options).items() if name != "filters"} | vars(options.filters)


@app.command(epilog="Example: auditkit ticket show B7-PT-01")
@run_or_exit
def show(
    ticket_id: IdArgument,
    tickets: TicketsOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="The file as it is, on a terminal too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show one ticket.

    A terminal gets what decides first, and neither rows without a word nor boxes that nobody ticked; a pipe gets the
    file as it is.
    """
    from auditkit.cli.views import showing

    raise typer.Exit(showing.show_ticket(ticket_id, tickets, raw=raw, as_json=as_json))


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
