"""Commands in the words of who works on a ticket: start, done."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.ticket.common import IdArgument, app, text_of
from auditkit.cli.ticket.many import Done, IdsArgument, ManyOptions, change_tickets, chosen
from auditkit.cli.ticket.status import CommitOption, CommitsInOption, TestsOption, end_resolved, steps_told


@app.command(epilog="Example: auditkit ticket start B7-PT-01")
@write_or_exit
def start(
    many: ManyOptions,
    ticket_ids: IdsArgument = None,
    fix: Annotated[bool, typer.Option("--fix", help="To mend it: fix-in-progress.")] = False,
    assignee: Annotated[
        str | None, typer.Option("--assignee", metavar="NAME", help="Who takes it.", show_default="git's user.name")
    ] = None,
    take: Annotated[bool, typer.Option("--take", help="Also from somebody who has it.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take tickets: they are yours, and investigating.

    With --fix they are fix-in-progress; what is further already stays there. One that somebody else has is refused.
    """
    import datetime

    from auditkit.workflows.tickets.people import person
    from auditkit.workflows.tickets.resolution import Start
    from auditkit.workflows.tickets.resolution import start as start_ticket

    repository = open_repository(tickets)
    wanted = Start(person(repository.folder, assignee, "--assignee"), fix, take)

    def change(ticket_id: str) -> Done:
        made = start_ticket(repository, ticket_id, wanted, datetime.date.today())
        moved, is_there = steps_told(made)
        return Done(made, f"{moved}, assigned to {wanted.who}", f"{is_there}, assigned to {wanted.who}")

    change_tickets(repository, chosen(repository, ticket_ids, many), many, as_json, change)


@app.command(epilog="Example: auditkit ticket done B7-PT-01 --commit 3f2a9c1")
@write_or_exit
def done(
    ticket_id: IdArgument,
    text: Annotated[
        str, typer.Option(help="What was done; - reads stdin.", show_default="the commit's first line")
    ] = "",
    commit: CommitOption = None,
    test: TestsOption = None,
    checkout: CommitsInOption = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Move a mended ticket as far as its proof goes.

    That is to fixed, else to in-review. What fixed still needs is named with its commands, and the exit code is 1.
    Without options it says what is missing now, where the Resolution says already what was done.
    """
    import datetime

    from auditkit.model.tickets.ticket import Status
    from auditkit.workflows.tickets.from_commits import subject_of
    from auditkit.workflows.tickets.resolution import ResolveRequest, resolve

    repository = open_repository(tickets)
    told = text_of(text) or subject_of(repository, ticket_id, commit or (), checkout)
    request = ResolveRequest(Status.FIXED, told, commit or (), test or (), checkout, may_say_so_already=True)
    end_resolved(resolve(repository, ticket_id, request, datetime.date.today()), Status.FIXED, as_json)
