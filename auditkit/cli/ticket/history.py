"""The command that says who changed what: log."""

from __future__ import annotations

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, run_or_exit
from auditkit.cli.output import say, say_json
from auditkit.cli.ticket.common import IdArgument, app

_NOT_YET = "not committed"


@app.command(epilog="Example: auditkit ticket log B7-PT-01")
@run_or_exit
def log(ticket_id: IdArgument, tickets: TicketsOption = None, as_json: JsonOption = False) -> None:
    """Say who changed what in a ticket, and when.

    Each commit is one line, read from git over moves between folders and another id. What is not committed comes last.
    """
    from auditkit.workflows.tickets.history import ticket_log

    found = ticket_log(open_repository(tickets), ticket_id)
    if as_json:
        say_json(found.to_json())
        return
    width = max((len(one.author) for one in found.entries), default=0)
    for one in found.entries:
        who = f"{one.date[:10]}  {one.commit[:7]}  {one.author:<{width}}" if one.commit else f"{_NOT_YET:<{width + 21}}"
        say(f"{who}  {', '.join(one.changes)}")
