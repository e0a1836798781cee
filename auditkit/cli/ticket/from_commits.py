"""The command that reads which tickets commits fix: from-commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import app, is_agreed
from auditkit.cli.ticket.status import CommitsInOption, steps_told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditkit.workflows.tickets.from_commits import Proposal


@app.command("from-commits", epilog="Example: auditkit ticket from-commits v1.1..v1.2 --yes")
@write_or_exit
def from_commits(
    revisions: Annotated[str, typer.Argument(metavar="RANGE", help="Commits, as git log takes them: v1.1..v1.2.")],
    is_sure: Annotated[bool, typer.Option("--yes", "-y", help="Write without asking: scripts need it.")] = False,
    checkout: CommitsInOption = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Resolve the tickets that commits say to fix.

    fixes, closes and resolves B7-PT-01 in a message resolve the ticket with that commit, and so does a first line
    such as "fix(telemetry): B7-PT-01 - ...". Each goes as far as its proof: what fixed still needs is said for each
    ticket, and it waits in review until then. refs, and any other mention, is only shown. All that is written is
    written together.
    """
    import datetime

    from auditkit.model.text import counted
    from auditkit.workflows.tickets.from_commits import commits_of, propose, tickets_named
    from auditkit.workflows.tickets.many import try_on_all

    repository = open_repository(tickets)
    named = {str(one.id): one for one in tickets_named(commits_of(repository, revisions, checkout))}
    if not named and not as_json:
        complain(f"no commit of {revisions} names a ticket")
        return
    today = datetime.date.today()
    made, tried = try_on_all(list(named), lambda name: propose(repository, named[name], checkout, today))
    count = sum(one.moved is not None and one.moved.change.is_edit for one in made)
    lines = list(_lines(made))
    if not as_json:
        say("\n".join(lines))
    meant = counted(count, "ticket")
    is_written = is_sure or tried.plan is None
    is_written = is_written or (count > 0 and is_agreed(f"resolve {meant}?", lines if as_json else ()))
    if count and is_written:
        tried.write(repository)
    elif count:
        complain(f"nothing was written: {meant} would change; --yes writes without asking")
    if as_json:
        _say_json(made, is_written)
    if any((one.named.fixed_by and one.problem) or (one.moved and one.moved.missing) for one in made):
        from auditkit.errors import ExitCode

        raise typer.Exit(int(ExitCode.FINDINGS))


def _lines(made: Sequence[Proposal]) -> Iterator[str]:
    for one in made:
        if one.moved is None:
            named = one.named.fixed_by or one.named.mentioned_by
            what = one.problem or "mentioned"
            yield f"{one.named.id}: {what} ({', '.join(commit.told for commit in named)})"
            continue
        moved, is_there = steps_told(one.moved.change)
        by = ", ".join(commit.told for commit in one.named.fixed_by)
        is_same = not one.moved.change.is_edit
        yield f"{one.named.id}: {is_there if is_same else moved}, {'named' if is_same else 'resolved'} by {by}"
        for number, item in enumerate(one.moved.steps):
            yield f"  for fixed: {item.problem}" + ("" if number else f"\n    {item.hint}")


def _say_json(made: Sequence[Proposal], is_written: bool) -> None:
    told: list[dict[str, Any]] = []
    for one in made:
        change = one.moved.change if one.moved else None
        told.append(
            {
                "id": one.named.id,
                "fixed_by": [{"commit": commit.hash, "subject": commit.subject} for commit in one.named.fixed_by],
                "mentioned_by": [
                    {"commit": commit.hash, "subject": commit.subject} for commit in one.named.mentioned_by
                ],
                "from": change.before.ticket.status_written if change else None,
                "to": change.after.ticket.status_written if change else None,
                "changed": change is not None and change.is_edit and is_written,
                "missing": [item.problem for item in one.moved.missing] if one.moved else [],
                "problem": one.problem,
            }
        )
    say_json({"schema_version": 1, "tickets": told})
