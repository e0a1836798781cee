"""`auditkit ticket show`."""

from __future__ import annotations

from auditkit.cli.output import say, say_json, wants_colour
from auditkit.cli.reading.folder import tickets_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def show_ticket(ticket_id: str, tickets: Path | str | None = None, as_json: bool = False) -> int:
    """Print one ticket: its file as it is, or its fields as JSON; the exit code.

    Raises BadInputError where there is no such ticket or it cannot be read, and StoreConflictError where
    several files have its id.
    """
    folder = tickets_folder(tickets)
    if as_json:
        return _show_json(folder, ticket_id)
    text = _text_of_known(folder, ticket_id)
    if text is None:
        text = _text_of_any(folder, ticket_id)
    if wants_colour():
        from auditkit.cli.reading.page import print_page

        print_page(text)
    else:
        say(text.removesuffix("\n"))
    return 0


def _text_of_known(folder: str, ticket_id: str) -> str | None:
    """The text of a file that the index knows for a ticket, so that it need not be parsed to be shown."""
    from auditkit.store.index import is_known_ticket, named_files

    paths = named_files(folder, ticket_id)
    if len(paths) != 1 or not is_known_ticket(folder, paths[0]):
        return None
    with open(f"{folder}/{paths[0]}", encoding="utf-8", newline="") as file:
        return file.read()


def _text_of_any(folder: str, ticket_id: str) -> str:
    from pathlib import Path

    from auditkit.store.repository import Repository

    return Repository(Path(folder)).find(ticket_id).document.data.decode("utf-8")


def _show_json(folder: str, ticket_id: str) -> int:
    from pathlib import Path

    from auditkit.cli.reading.listing import together
    from auditkit.store.index import read_index
    from auditkit.store.repository import Repository
    from auditkit.store.rows import row_of
    from auditkit.store.selection import blockers

    entry = Repository(Path(folder)).find(ticket_id)
    blocking = blockers(read_index(folder).rows)
    text = entry.document.data.decode("utf-8")
    fields = {**entry.ticket.to_json(), **together(row_of(entry.ticket), blocking), "text": text}
    say_json({"schema_version": 1, "tickets": [fields]})
    return 0
