"""One command for many tickets: which ones are meant, what it will do to them, and whether it may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.completion import ticket_ids
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import change_document, is_agreed, say_change, text_of, told_line

if TYPE_CHECKING:
    from auditkit.store.folder.repository import Change, Repository

IdsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="ID...", help="Ticket ids; - reads them from stdin.", autocompletion=ticket_ids),
]


@dataclass(frozen=True)
class ManyOptions:
    """Which further tickets are meant, and whether anybody is asked."""

    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="FIELD=VALUE", help="Every ticket of which this is true (may be repeated, then all)."
        ),
    ] = None
    is_sure: Annotated[
        bool, typer.Option("--yes", "-y", help="Change several tickets without asking: scripts need it.")
    ] = False


@dataclass(frozen=True)
class Done:
    """What was done to one ticket, in words, and what is said where nothing had to be.

    `more` are further fields of its document, `warnings` lines for stderr.
    """

    change: Change
    told: str
    same: str = "nothing to change"
    more: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    @property
    def line(self) -> str:
        return told_line(self.change, self.told, self.same)

    @property
    def is_change(self) -> bool:
        return self.change.is_edit or self.change.before.file != self.change.after.file


@dataclass(frozen=True)
class Chosen:
    """The tickets that a command line means; one that is named by its id alone is changed at once."""

    ids: Sequence[str]
    is_one: bool


def chosen(repository: Repository, named: Sequence[str] | None, options: ManyOptions) -> Chosen:
    """Which tickets are meant by their ids, by stdin (`-`) or by --where. Raises BadInputError."""
    from auditkit.errors import BadInputError
    from auditkit.workflows.tickets.many import each_once, ids_in

    words = list(named or ())
    if options.where:
        if words:
            raise BadInputError("name tickets by their ids or by --where, not both")
        from auditkit.cli.views.filters import ids_where

        ids, left = ids_where(str(repository.folder), options.where)
        if left:
            complain(f"{left} finished {'is' if left == 1 else 'are'} left out: --where status=... names them")
        return Chosen(ids, is_one=False)
    if not words:
        raise BadInputError("which tickets?", "name their ids, - for those on stdin, or --where FIELD=VALUE")
    if words == ["-"]:
        return Chosen(each_once(ids_in(text_of("-"))), is_one=False)
    if len(words) == 1 and "," not in words[0]:
        return Chosen(words, is_one=True)
    ids = each_once(words)
    return Chosen(ids, is_one=len(ids) == 1)


def change_tickets(
    repository: Repository,
    tickets: Chosen,
    options: ManyOptions,
    as_json: bool,
    change: Callable[[str], Done],
) -> list[Done]:
    """Change one ticket and say so; or show what becomes of several, ask, and write all or none of them.

    Raises what `change` raises, and BadInputError where nobody can be asked and --yes is not given.
    """
    if tickets.is_one:
        done = change(tickets.ids[0])
        say_change(done.change, as_json, done.told, done.same, **done.more)
        for warning in done.warnings:
            complain(warning)
        return [done]
    if not tickets.ids:
        complain("no ticket is meant; nothing to change")
        if as_json:
            _say_many([])
        return []
    from auditkit.model.text import counted
    from auditkit.workflows.tickets.many import change_all_at_once, try_on_all

    if options.is_sure:
        made = change_all_at_once(repository, tickets.ids, change)
        _show(made, as_json)
        return made
    made, tried = try_on_all(tickets.ids, change)
    count = sum(done.is_change for done in made)
    if count and tried.plan is not None:
        _ask(made, count)
        tried.write(repository)
        complain(f"{counted(count, 'ticket')} changed")
        if as_json:
            _say_many(made)
    else:
        _show(made, as_json)
    return made


def _ask(made: Sequence[Done], count: int) -> None:
    """Show what would be done and ask on a terminal. Raises BadInputError without a yes."""
    from auditkit.errors import BadInputError
    from auditkit.model.text import counted

    meant = counted(count, "ticket")
    complain(f"{meant} would change:")
    for done in made:
        complain(f"  {done.line}")
    _warn(made)
    if not is_agreed(f"change {meant}?"):
        raise BadInputError(f"nothing was written: {meant} would change", "--yes changes them without asking")


def _show(made: Sequence[Done], as_json: bool) -> None:
    if as_json:
        _say_many(made)
        return
    for done in made:
        say(done.line)
    _warn(made)


def _warn(made: Sequence[Done]) -> None:
    for done in made:
        for warning in (*([f"note: {done.change.note}"] if done.change.note else []), *done.warnings):
            complain(warning)


def _say_many(made: Sequence[Done]) -> None:
    told = [change_document(done.change, done.more) for done in made]
    say_json({"schema_version": 1, "changed": sum(done.is_change for done in made), "tickets": told})
