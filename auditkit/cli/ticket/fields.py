"""Commands that write a ticket's text: edit, assign."""

from __future__ import annotations

from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, open_repository, write_or_exit
from auditkit.cli.ticket.common import IdArgument, app, say_change, text_of


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
    if field.casefold() == "bound":
        from auditkit.workflows.tickets.ticket_edits import check_binding

        check_binding(repository, text)
    if field.casefold() in ("tests", "test"):
        from auditkit.workflows.tickets.ticket_edits import check_tests

        check_tests(repository, ticket_id, text)
    change = repository.change(ticket_id, lambda entry: edit_field(entry.document, field, text, agents))
    before, after = (field_text(entry.document, field) for entry in (change.before, change.after))
    say_change(change, as_json, f"{field}: {before or 'empty'} -> {after or 'empty'}", before=before, after=after)


@app.command(epilog="Example: auditkit ticket assign B7-PT-01 ada")
@write_or_exit
def assign(
    ticket_id: IdArgument,
    who: Annotated[str | None, typer.Argument(metavar="[WHO]", help="A person or an agent.")] = None,
    nobody: Annotated[bool, typer.Option("--none", help="Take the assignee out.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give a ticket to somebody, or take it from them."""
    from auditkit.errors import BadInputError
    from auditkit.store.edits.fields import edit_field

    if (who is None) != nobody:
        raise BadInputError("assign to whom?", f"auditkit ticket assign {ticket_id} WHO, or --none")
    change = open_repository(tickets).change(ticket_id, lambda entry: edit_field(entry.document, "assignee", who or ""))
    say_change(change, as_json, f"assigned to {who}" if who else "assigned to nobody")
