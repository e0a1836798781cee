"""Commands about how tickets hang together: link, renumber."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.completion import relations
from auditkit.cli.completion import ticket_ids as known_ids
from auditkit.cli.lookups import choose
from auditkit.cli.output import say, say_json
from auditkit.cli.ticket.common import app, text_of
from auditkit.cli.ticket.many import Done, IdsArgument, ManyOptions, change_tickets, chosen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditkit.model.tickets.relation import RelationKind
    from auditkit.store.folder.repository import Change


@app.command(epilog='Example: auditkit ticket link B7-PT-01 blocks B7-PT-02 --note "same helper"')
@write_or_exit
def link(
    many: ManyOptions,
    ticket_ids: IdsArgument = None,
    kind: Annotated[
        str | None,
        typer.Argument(metavar="KIND", help="duplicate, related, blocks or blocked-by.", autocompletion=relations),
    ] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="The other ticket's id.", autocompletion=known_ids)
    ] = None,
    note: Annotated[str, typer.Option(help="Why, on one line; - reads stdin.", show_default=False)] = "",
    remove: Annotated[bool, typer.Option("--remove", help="Take the entries out again.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Link tickets with another one, in both files.

    What one blocks is blocked by it. Several tickets are shown and asked about first, and all of them are linked or
    none.
    """
    from auditkit.errors import BadInputError
    from auditkit.model.tickets.relation import RelationKind, parse_relation
    from auditkit.workflows.tickets.ticket_edits import link_tickets

    if kind is None or other is None:
        raise BadInputError("link how, and with what?", "auditkit ticket link B7-PT-01 blocks B7-PT-02")
    wanted = choose(parse_relation, kind, list(RelationKind), "relation")
    repository = open_repository(tickets)
    found = chosen(repository, ticket_ids, many)
    told_note = text_of(note)
    if found.is_one:
        changes = link_tickets(repository, found.ids[0], wanted, other, told_note, remove)
        _say_link(changes, wanted, remove, as_json)
        return

    def change(ticket_id: str) -> Done:
        first, second = link_tickets(repository, ticket_id, wanted, other, told_note, remove)
        one, kind, named = (first, wanted, second) if first.is_edit else (second, wanted.inverse, first)
        told = f"{kind} {named.after.ticket.id}"
        return Done(one, f"not {told} any more" if remove else told)

    change_tickets(repository, found, many, as_json, change)


def _say_link(changes: Sequence[Change], wanted: RelationKind, remove: bool, as_json: bool) -> None:
    written = [change for change in changes if change.is_edit]
    if as_json:
        told = [change.after.ticket.to_json() for change in changes]
        files = [str(change.after.file) for change in written]
        say_json({"schema_version": 1, "changed": bool(written), "files": files, "tickets": told})
        return
    first, second = (change.after.ticket.id for change in changes)
    if not written:
        say(f"{first} and {second}: nothing to change")
    else:
        say(f"{first} and {second}: not linked any more" if remove else f"{first} {wanted} {second}")


@app.command(epilog="Example: auditkit ticket renumber B7-PT-01 B7-PT-12")
@write_or_exit
def renumber(
    old: Annotated[
        str,
        typer.Argument(metavar="OLD", help="An id; a file where two tickets have one id.", autocompletion=known_ids),
    ],
    new: Annotated[
        str | None, typer.Argument(metavar="[NEW]", help="A free id.", show_default="the next free one")
    ] = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a ticket another id, wherever the folder mentions it.

    Its file, its rows and the folder's Markdown files are changed.

    Where another file has the old id too, name the file that is meant; mentions in other files then stay.
    """
    from auditkit.workflows.tickets.renumber import renumber as give_number

    done = give_number(open_repository(tickets), old, new)
    if as_json:
        say_json(done.to_json())
        return
    say(f"{done.old} -> {done.new}: {done.path}")
    if done.is_shared:
        say(f"another file is {done.old}, so mentions elsewhere stay")
    for path in done.references:
        say(f"also changed: {path}")
