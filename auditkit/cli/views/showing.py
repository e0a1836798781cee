"""`auditkit ticket show`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, say, say_json, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


def show_ticket(ticket_id: str, tickets: Path | str | None = None, as_json: bool = False) -> int:
    """Print one ticket: its file as it is, or its fields as JSON; the exit code.

    Reviews that judged other evidence are called stale, and claims what the evidence says of them: on a terminal
    beside their lines, else on stderr.
    Raises BadInputError where there is no such ticket or it cannot be read, and StoreConflictError where
    several files have its id.
    """
    folder = tickets_folder(tickets)
    if as_json:
        return _show_json(folder, ticket_id)
    text = _text_of_known(folder, ticket_id)
    if text is None:
        from pathlib import Path

        from auditkit.store.folder.repository import Repository

        text = Repository(Path(folder)).find(ticket_id).document.data.decode("utf-8")
    stale, claims = _remarks(text) if "judged" in text.casefold() or "claim:" in text else ({}, [])
    if wants_colour():
        from auditkit.cli.views.terminal import print_page

        notes = dict.fromkeys(stale, "stale")
        for line, state, message in claims:
            notes[line] = f"{notes[line]}; {state}: {message}" if line in notes else f"{state}: {message}"
        print_page(text, notes)
    else:
        say(text.removesuffix("\n"))
        for line, reviewer in stale.items():
            complain(f"stale: the review by {reviewer} in line {line} judged other evidence")
        for line, state, message in claims:
            complain(f"claim in line {line}: {state}: {message}")
    return 0


def _remarks(text: str) -> tuple[dict[int, str], list[tuple[int, str, str]]]:
    """By line the reviewers who judged other evidence than the ticket has now; and of every claim its line, and what
    the evidence says of it.
    """
    from pathlib import PurePath

    from auditkit.store.listing.rows import stale_reviews
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


def _text_of_known(folder: str, ticket_id: str) -> str | None:
    """The text of a file that the index knows for a ticket, so that it need not be parsed to be shown."""
    from auditkit.store.folder.walk import named_files
    from auditkit.store.listing.index import is_known_ticket

    paths = named_files(folder, ticket_id)
    if len(paths) != 1 or not is_known_ticket(folder, paths[0]):
        return None
    with open(f"{folder}/{paths[0]}", encoding="utf-8", newline="") as file:
        return file.read()


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
