"""Commands that move a ticket: status."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, choose, complain, open_repository, run_or_exit, say
from auditkit.cli.ticket.app import IdArgument, app


@app.command(epilog='Example: auditkit ticket status B7-PT-01 wont-fix --reason "only in a demo"')
@run_or_exit
def status(
    ticket_id: IdArgument,
    new: Annotated[str | None, typer.Argument(metavar="[NEW_STATUS]", help="Where to move it.")] = None,
    reason: Annotated[str, typer.Option(help="Why: kept in the ticket.", show_default=False)] = "",
    tickets: TicketsOption = None,
) -> None:
    """Print a ticket's status, or move the ticket to another one.

    open, investigating, fix-in-progress, in-review, fixed: one step at a time, and back. With a reason, at
    any time: deferred, wont-fix, not-a-bug, duplicate, already-fixed; and finished back to open.
    """
    import datetime

    from auditkit.model.ticket import Status, parse_status

    repository = open_repository(tickets)
    if new is None:
        say(repository.find(ticket_id).ticket.status_written)
        return
    wanted = choose(parse_status, new, [known.value for known in Status])
    change = repository.set_status(ticket_id, wanted, reason, datetime.date.today())
    ticket = change.after.ticket
    if change.before is change.after:
        say(f"{ticket.id}: is {ticket.status_written} already")
        return
    say(f"{ticket.id}: {change.before.ticket.status_written} -> {ticket.status_written}")
    if wanted is Status.FIXED:
        complain(f"warning: nothing was verified: no probe was run to see whether {ticket.id} is fixed")
