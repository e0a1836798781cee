"""Commands that write fields of tickets: edit, set, assign, label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.ticket.common import IdArgument, app, say_change, text_of
from auditkit.cli.ticket.many import Done, IdsArgument, ManyOptions, change_tickets, chosen

if TYPE_CHECKING:
    from auditkit.store.folder.repository import Repository


@app.command(epilog="Example: auditkit ticket edit B7-PT-01 severity P1")
@write_or_exit
def edit(
    ticket_id: IdArgument,
    field: Annotated[
        str | None, typer.Argument(metavar="[FIELD]", help="severity, domain, files, title, verified, ... or any row.")
    ] = None,
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="The new value; - reads stdin.")] = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set one field of a ticket, or edit it in $VISUAL or $EDITOR.

    verified and unverified tick and untick boxes of the Verification section: by number, a part of the text, or
    all. bound binds boxes to a probe, or to what it measures ('2=norm_overflows_on_finite_grads', or with a
    condition behind it: 'breaking_norm > 1e30 or none'); unbound takes that back. category and tests take all
    that are meant, with commas; a test is path[::node] from the top of the repository. Nothing else in the file
    changes. Status and id have commands of their own: status and renumber.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.edits.fields import edit_field, field_text
    from auditkit.workflows.configuration import tickets_configuration

    repository = open_repository(tickets)
    if field is None:
        from auditkit.workflows.tickets.editor import edit_in_editor

        say_change(edit_in_editor(repository, ticket_id), as_json, "edited")
        return
    if value is None:
        raise BadInputError(f"edit {field}: to what?", f'auditkit ticket edit {ticket_id} {field} VALUE; "" empties it')
    text = text_of(value)
    agents = tickets_configuration(repository).agents
    _check(repository, ticket_id, field, text)
    change = repository.change(ticket_id, lambda entry: edit_field(entry.document, field, text, agents))
    before, after = (field_text(entry.document, field) for entry in (change.before, change.after))
    say_change(change, as_json, f"{field}: {before or 'empty'} -> {after or 'empty'}", before=before, after=after)


@app.command("set", epilog="Example: auditkit ticket set B7-PT-01 labels=overflow,amp due=2026-12-01")
@write_or_exit
def set_fields(
    many: ManyOptions,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID... FIELD=VALUE...", help="Ticket ids (- reads them from stdin), then fields."),
    ] = None,
    is_new: Annotated[
        bool, typer.Option("--new-row", help="Add a row of the metadata that a ticket does not have.")
    ] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set fields of tickets: severity, labels, due, ... or any row.

    They are those of edit. labels take all that are meant, with commas; a value that is empty empties the field.
    Several tickets are shown and asked about first, and all of them are changed or none.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.edits.fields import set_all
    from auditkit.workflows.configuration import tickets_configuration

    fields = [word for word in words or () if "=" in word]
    if not fields:
        raise BadInputError("set what?", "auditkit ticket set B7-PT-01 due=2026-12-01")
    repository = open_repository(tickets)
    found = chosen(repository, [word for word in words or () if "=" not in word], many)
    values = {name.strip(): value.strip() for name, _, value in (field.partition("=") for field in fields)}
    agents = tickets_configuration(repository).agents

    def change(ticket_id: str) -> Done:
        for name, value in values.items():
            _check(repository, ticket_id, name, value)
        made = repository.change(ticket_id, lambda entry: set_all(entry.document, values, agents, is_new))
        return Done(made, ", ".join(f"{name}: {value or 'empty'}" for name, value in values.items()))

    change_tickets(repository, found, many, as_json, change)


@app.command(epilog="Example: auditkit ticket assign B7-PT-01 ada")
@write_or_exit
def assign(
    many: ManyOptions,
    ticket_ids: IdsArgument = None,
    who: Annotated[str | None, typer.Argument(metavar="[WHO]", help="A person or an agent.")] = None,
    nobody: Annotated[bool, typer.Option("--none", help="Take the assignee out.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give tickets to somebody, or take them from them.

    Several tickets are shown and asked about first, and all of them are changed or none.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.edits.fields import edit_field

    ids = list(ticket_ids or ())
    is_last_id = who is not None and (_is_id(who) if nobody else not (ids or many.where))
    if who is not None and is_last_id:
        ids, who = [*ids, who], None
    if (who is None) != nobody:
        raise BadInputError("assign to whom?", f"auditkit ticket assign {' '.join(ids) or 'ID'} WHO, or --none")
    repository = open_repository(tickets)

    def change(ticket_id: str) -> Done:
        made = repository.change(ticket_id, lambda entry: edit_field(entry.document, "assignee", who or ""))
        return Done(made, f"assigned to {who}" if who else "assigned to nobody")

    change_tickets(repository, chosen(repository, ids, many), many, as_json, change)


@app.command(epilog="Example: auditkit ticket label B7-PT-01 overflow,amp")
@write_or_exit
def label(
    many: ManyOptions,
    ticket_ids: IdsArgument = None,
    labels: Annotated[
        str | None, typer.Argument(metavar="LABEL[,LABEL...]", help="What to add, or with --remove to take away.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the labels away.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put labels on tickets, or take them away.

    Several tickets are shown and asked about first, and all of them are changed or none.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.edits.fields import with_labels

    if labels is None or not (ticket_ids or many.where):
        raise BadInputError("which label?", f"auditkit ticket label {labels or 'ID'} LABEL")
    repository = open_repository(tickets)

    def change(ticket_id: str) -> Done:
        made = repository.change(ticket_id, lambda entry: with_labels(entry.document, labels, remove))
        return Done(made, f"labels: {', '.join(made.after.ticket.labels) or 'none'}")

    change_tickets(repository, chosen(repository, ticket_ids, many), many, as_json, change)


def _check(repository: Repository, ticket_id: str, field: str, text: str) -> None:
    """Refuse probes and tests that nobody knows. Raises BadInputError."""
    if field.casefold() == "bound":
        from auditkit.workflows.tickets.ticket_edits import check_binding

        check_binding(repository, text)
    if field.casefold() in ("tests", "test"):
        from auditkit.workflows.tickets.ticket_edits import check_tests

        check_tests(repository, ticket_id, text)


def _is_id(word: str) -> bool:
    from auditkit.model.tickets.ids import is_ticket_id

    return word == "-" or is_ticket_id(word)
