"""The command for a word between review and resolution: comment."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.ticket.common import IdArgument, app, say_change, text_of


@app.command(epilog='Example: auditkit ticket comment B7-PT-01 "seen in run 12, too"')
@write_or_exit
def comment(
    ticket_id: IdArgument,
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="What is said; - reads stdin; without it, your editor.")
    ] = None,
    author: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who says it.", show_default="git's user.name")
    ] = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say something about a ticket, dated and with your name.

    It stands under Discussion, between the reviews and the Resolution, and decides nothing: verdicts are reviews, and
    what was done is the resolution.
    """
    import datetime

    from auditkit.workflows.tickets.comments import comment_on

    said = text_of(text) if text is not None else None
    change = comment_on(open_repository(tickets), ticket_id, said, author, datetime.datetime.now())
    say_change(change, as_json, f"comment by {change.after.ticket.comments[-1].author} written")
