"""Commands that move a ticket: status, resolve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.completion import statuses
from auditkit.cli.lookups import choose
from auditkit.cli.output import complain, say
from auditkit.cli.ticket.common import IdArgument, app, say_change, text_of
from auditkit.cli.ticket.many import Done, IdsArgument, ManyOptions, change_tickets, chosen

if TYPE_CHECKING:
    from auditkit.model.tickets.ticket import Status
    from auditkit.store.folder.repository import Change
    from auditkit.workflows.tickets.resolution import Moved

CommitOption = Annotated[
    list[str] | None, typer.Option("--commit", metavar="HASH", help="A commit of the fix (may be repeated).")
]
TestsOption = Annotated[
    list[str] | None, typer.Option("--test", metavar="PATH", help="A test of the fix (may be repeated).")
]
CommitsInOption = Annotated[
    str | None,
    typer.Option("--checkout", metavar="DIR[@REV]", help="Where the commits are; default: configured, else here."),
]


@app.command(epilog='Example: auditkit ticket status B7-PT-01 wont-fix --reason "only in a demo"')
@write_or_exit
def status(
    many: ManyOptions,
    ticket_ids: IdsArgument = None,
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW_STATUS]", help="Where to move them.", autocompletion=statuses)
    ] = None,
    reason: Annotated[str, typer.Option(help="Why: kept in the ticket.", show_default=False)] = "",
    commit: CommitOption = None,
    checkout: CommitsInOption = None,
    force: Annotated[bool, typer.Option("--force", help="fixed although something is missing: written down.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a ticket's status, or move tickets to another one.

    open, investigating, fix-in-progress, in-review, fixed: one step at a time, and back. With a reason, at
    any time: deferred, wont-fix, not-a-bug, duplicate, already-fixed; and finished back to open.

    fixed needs a Resolution without placeholders, a commit that git knows, ticked verification, a sign-off by
    the reporting agent, and of each finding a run at that commit, or after it, in which it is gone: ticket verify.

    Several tickets are shown and asked about first, and all of them are moved or none.
    """
    import datetime

    from auditkit.model.tickets.ticket import Status, parse_status

    repository = open_repository(tickets)
    ids, new = _ids_and_status(ticket_ids, new, many)
    found = chosen(repository, ids, many)
    if new is None:
        for ticket_id in found.ids:
            written = repository.find(ticket_id).ticket.status_written
            say(written if found.is_one else f"{ticket_id}  {written}")
        return
    from auditkit.workflows.tickets.resolution import Move, move

    wanted = choose(parse_status, new, list(Status))
    request = Move(wanted, reason, commit or (), checkout, force)

    def change(ticket_id: str) -> Done:
        outcome = move(repository, ticket_id, request, datetime.date.today())
        missing = [item.problem for item in outcome.missing]
        return Done(
            outcome.change,
            *steps_told(outcome.change),
            {"missing": missing},
            [f"warning: forced: {problem}" for problem in missing],
        )

    change_tickets(repository, found, many, as_json, change)


def _ids_and_status(ids: list[str] | None, new: str | None, many: ManyOptions) -> tuple[list[str], str | None]:
    """The last word is the new status unless it is an id, whose status is asked for."""
    from auditkit.model.tickets.ids import is_ticket_id

    words = list(ids or ())
    if new is not None and (new == "-" or is_ticket_id(new) or not (words or many.where)):
        return [*words, new], None
    return words, new


def steps_told(change: Change) -> tuple[str, str]:
    """From where to where a ticket went, and what is said where it is there already."""
    before, after = change.before.ticket, change.after.ticket
    is_there = f"is {after.status_written} already"
    return is_there if before.status is after.status else f"{before.status_written} -> {after.status_written}", is_there


@app.command(epilog='Example: auditkit ticket resolve B7-PT-01 --as fixed --text "scaled the sum" --commit 3f2a9c1')
@write_or_exit
def resolve(
    ticket_id: IdArgument,
    decision: Annotated[
        str,
        typer.Option("--as", metavar="STATUS", help="fixed, wont-fix, duplicate, ...", autocompletion=statuses),
    ],
    text: Annotated[str, typer.Option(help="What was done, or why nothing is; - reads stdin.")],
    commit: CommitOption = None,
    test: TestsOption = None,
    checkout: CommitsInOption = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill in a ticket's Resolution, and move it to its end.

    It takes the steps before fixed. Where fixed still lacks something, such as the sign-off, the ticket goes to
    in-review, what is missing is named, and the exit code is 1.
    """
    import datetime

    from auditkit.errors import BadInputError
    from auditkit.model.tickets.ticket import Status, parse_status
    from auditkit.workflows.tickets.resolution import ResolveRequest
    from auditkit.workflows.tickets.resolution import resolve as resolve_ticket

    wanted = choose(parse_status, decision, list(Status))
    if not (wanted.is_finished or wanted is Status.DEFERRED) or wanted is Status.CLOSED:
        raise BadInputError(
            f"{wanted} resolves nothing", "fixed, already-fixed, wont-fix, not-a-bug, duplicate, deferred"
        )
    request = ResolveRequest(wanted, text_of(text), commit or (), test or (), checkout)
    end_resolved(resolve_ticket(open_repository(tickets), ticket_id, request, datetime.date.today()), wanted, as_json)


def end_resolved(outcome: Moved, wanted: Status, as_json: bool) -> None:
    """Say how far a ticket came; where something is missing for its end, the next step, and exit with 1."""
    from auditkit.errors import ExitCode

    before, after = outcome.change.before.ticket, outcome.change.after.ticket
    told = f"{before.status_written} -> {after.status_written}"
    if before.status is after.status:
        told = f"resolution written, still {after.status_written}"
    say_change(outcome.change, as_json, told, missing=[item.problem for item in outcome.missing])
    _say_next(after.id, wanted, outcome)
    if outcome.missing:
        raise typer.Exit(int(ExitCode.FINDINGS))


def _say_next(ticket_id: str, wanted: Status, outcome: Moved) -> None:
    """The next step with its command, and in two lines at most what follows."""
    if not outcome.missing:
        return
    first, *others = outcome.steps
    complain(f"{ticket_id}: not {wanted} yet: {first.problem}\n  {first.hint}")
    then = [item.problem for item in others]
    if len(then) > 2:
        then = [then[0], f"{then[1]}; and {len(then) - 2} more"]
    for problem in then:
        complain(f"  then: {problem}")
