"""Commands of reviewers: review, sign-off."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.completion import severities, verdicts
from auditkit.cli.lookups import choose
from auditkit.cli.output import complain
from auditkit.cli.ticket.common import IdArgument, app, date_of, say_change, text_of
from auditkit.cli.ticket.many import Done, IdsArgument, ManyOptions, change_tickets, chosen


@app.command(epilog="Example: auditkit ticket review B7-PT-01 --verdict refine --reviewer drl --severity P3 --note -")
@write_or_exit
def review(
    many: ManyOptions,
    verdict: Annotated[
        str, typer.Option(metavar="VERDICT", help="endorse, refine, neutral or object.", autocompletion=verdicts)
    ],
    ticket_ids: IdsArgument = None,
    reviewer: Annotated[
        str | None, typer.Option(metavar="AGENT", help="drl, pytorch, codereview or a name.", show_default="configured")
    ] = None,
    severity: Annotated[
        str | None,
        typer.Option(metavar="P0..P4", help="The severity that it should have.", autocompletion=severities),
    ] = None,
    note: Annotated[str, typer.Option(help="Why; - reads stdin.", show_default=False)] = "",
    date: Annotated[str | None, typer.Option(metavar="DATE", help="When.", show_default="today")] = None,
    checkout: Annotated[
        str | None, typer.Option(metavar="DIR[@REV]", help="The code that was looked at: its digest is recorded.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="In the place of this reviewer's earlier one.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a reviewer's verdict into tickets.

    It records a digest of the evidence that it judged, and is stale when that changes. Several tickets are shown and
    asked about first, and the verdict is written into all of them or none.
    """
    from auditkit.model.enums import Severity
    from auditkit.model.tickets.review import Verdict, parse_verdict
    from auditkit.model.tickets.ticket import parse_severity
    from auditkit.workflows.tickets.reviews import ReviewRequest, review_ticket

    request = ReviewRequest(
        verdict=choose(parse_verdict, verdict, [known.value.lower() for known in Verdict]),
        reviewer=reviewer,
        severity=choose(parse_severity, severity, list(Severity)) if severity else None,
        note=text_of(note),
        date=date_of(date),
        checkout=checkout,
        replace=replace,
    )
    repository = open_repository(tickets)

    def change(ticket_id: str) -> Done:
        return Done(review_ticket(repository, ticket_id, request), f"{request.verdict.value} written")

    change_tickets(repository, chosen(repository, ticket_ids, many), many, as_json, change)


@app.command("sign-off", epilog='Example: auditkit ticket sign-off B7-PT-01 --note "the probe no longer reproduces"')
@write_or_exit
def sign_off(
    ticket_id: IdArgument,
    agent: Annotated[
        str | None, typer.Option(metavar="AGENT", help="Who signs.", show_default="who reported the finding")
    ] = None,
    note: Annotated[str, typer.Option(help="One line; - reads stdin.", show_default=False)] = "",
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Accept a ticket's resolution.

    A line in its Resolution says who did and when. A terminal is asked before it is written; elsewhere an agent that
    nobody named is said.
    """
    import datetime

    from auditkit.errors import BadInputError
    from auditkit.model.text import inert_line
    from auditkit.workflows.tickets.resolution import sign_off as sign
    from auditkit.workflows.tickets.resolution import signer

    repository = open_repository(tickets)
    ticket = repository.find(ticket_id).ticket
    who = signer(repository, ticket, agent)
    whose = "" if agent is not None else ", who reported the finding (--agent names another)"
    if not is_sure and sys.stdin.isatty():
        if not typer.confirm(f"sign {ticket.id} off as {inert_line(who)}{whose}?", err=True):
            raise BadInputError(f"{ticket.id} is not signed off; nothing was written", "--yes signs without asking")
    elif agent is None:
        complain(f"signing {ticket.id} off as {who}{whose}")
    change = sign(repository, ticket_id, agent, text_of(note), datetime.date.today())
    told = change.after.ticket.resolution
    signed = told.sign_offs[-1].text if told and told.sign_offs else ""
    say_change(change, as_json, f"signed off: {signed.removeprefix('**Sign-off:** ')}")
