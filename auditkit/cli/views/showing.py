"""`auditkit ticket show`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, is_terminal, say, say_bytes, say_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


def show_ticket(ticket_id: str, tickets: Path | str | None = None, *, raw: bool = False, as_json: bool = False) -> int:
    """Print one ticket: its file as it is, on a terminal what decides first, or its fields as JSON; the exit code.

    Reviews that judged other evidence are called stale, and claims what the evidence says of them: on a terminal
    beside their lines, else on stderr. `raw` is the file alone, its bytes where nobody sees them on a screen.
    Raises BadInputError where there is no such ticket or it cannot be read, and StoreConflictError where
    several files have its id.
    """
    folder = tickets_folder(tickets)
    if as_json:
        return _show_json(folder, ticket_id)
    path, data = _known(folder, ticket_id) or _found(folder, ticket_id)
    if raw:
        if is_terminal():
            say(data.decode("utf-8").removesuffix("\n"))
        else:
            say_bytes(data)
        return 0
    text = data.decode("utf-8")
    stale, claims = _remarks(text) if "judged" in text.casefold() or "claim:" in text else ({}, [])
    if is_terminal():
        _show_page(folder, path, text, stale, claims)
    else:
        say(text.removesuffix("\n"))
        for line, reviewer in stale.items():
            complain(f"stale: the review by {reviewer} in line {line} judged other evidence")
        for line, state, message in claims:
            complain(f"claim in line {line}: {state}: {message}")
    return 0


def _show_page(folder: str, path: str, text: str, stale: Iterable[int], claims: Sequence[tuple[int, str, str]]) -> None:
    from auditkit.cli.views.ticket_page import head_of, print_page
    from auditkit.store.listing.index import read_index
    from auditkit.store.listing.rows import PATH

    notes = dict.fromkeys(stale, "stale")
    for line, state, message in claims:
        notes[line] = f"{notes[line]}; {state}: {message}" if line in notes else f"{state}: {message}"
    index = read_index(folder)
    paths = index.column(PATH)
    print_page(text, notes, head_of(index, paths.index(path)) if path in paths else [])


def _remarks(text: str) -> tuple[dict[int, str], list[tuple[int, str, str]]]:
    """By line the reviewers who judged other evidence than the ticket has now; and of every claim its line, and what
    the evidence says of it.
    """
    from pathlib import PurePath

    from auditkit.store.listing.ticket_rows import stale_reviews
    from auditkit.store.markdown.document import BrokenFileError, Document
    from auditkit.store.reading.claim_comments import judged_claims
    from auditkit.store.reading.reader import ticket_of

    document = Document.parse(text.encode(), PurePath())
    try:
        ticket = ticket_of(document)
    except BrokenFileError:
        # It changed since it was known for a ticket; its text is shown all the same.
        return {}, []
    pairs = zip(ticket.reviews, stale_reviews(ticket, document), strict=True)
    stale = {review.line: review.reviewer_written or review.reviewer for review, is_stale in pairs if is_stale}
    return stale, [(one.claim.line, one.state.value, one.message) for one in judged_claims(document, ticket)]


def _known(folder: str, ticket_id: str) -> tuple[str, bytes] | None:
    """Path and bytes of a file that the index knows for a ticket, so that it need not be parsed to be shown."""
    from auditkit.store.folder.walk import named_files
    from auditkit.store.listing.index import is_known_ticket

    paths = named_files(folder, ticket_id)
    if len(paths) != 1 or not is_known_ticket(folder, paths[0]):
        return None
    with open(f"{folder}/{paths[0]}", "rb") as file:
        return paths[0], file.read()


def _found(folder: str, ticket_id: str) -> tuple[str, bytes]:
    from pathlib import Path

    from auditkit.store.folder.repository import Repository

    entry = Repository(Path(folder)).find(ticket_id)
    return entry.ticket.path.as_posix(), entry.document.data


def _show_json(folder: str, ticket_id: str) -> int:
    from pathlib import Path

    from auditkit.cli.views.listing import fields_of
    from auditkit.store.folder.repository import Repository
    from auditkit.store.listing.index import read_index
    from auditkit.store.reading.claim_comments import judged_claims

    entry = Repository(Path(folder)).find(ticket_id)
    text = entry.document.data.decode("utf-8")
    claims = [one.to_json() for one in judged_claims(entry.document, entry.ticket)]
    fields = {**fields_of(entry, read_index(folder).blocked), "claims": claims, "text": text}
    say_json({"schema_version": 1, "tickets": [fields]})
    return 0
