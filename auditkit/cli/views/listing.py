"""`auditkit ticket list`."""

from __future__ import annotations

from auditkit.cli.lookups import choose, tickets_folder
from auditkit.cli.output import complain, is_terminal, say_json, say_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.folder.repository import Entry
    from auditkit.store.listing.index import Index
    from auditkit.store.listing.rows import Row
    from auditkit.store.listing.selection import Filter


def list_tickets(
    tickets: Path | str | None = None,
    *,
    unfinished: bool = False,
    closed: bool = False,
    every: bool = False,
    blocked: bool | None = None,
    stale: bool = False,
    sort: str = "id",
    reverse: bool = False,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
    form: str = "",
    as_json: bool = False,
    **wanted: Sequence[Any] | None,
) -> int:
    """Print the tickets that pass every filter; the exit code.

    `wanted` are the words of the filters in `filters`, by the name of their option, several of one being
    alternatives. Without a word about the status those that are not finished are listed; in JSON all are
    (docs/design/listing.md). Raises BadInputError for words nobody knows.
    """
    from auditkit.cli.views.filters import in_state, named_filters, names_status, passing_all, words_of
    from auditkit.store.listing.index import read_index

    form = "json" if as_json else _format_of(form)
    folder = tickets_folder(tickets)
    index = read_index(folder)
    passes = named_filters(folder, index, wanted, blocked, stale)
    state = state_of(unfinished, closed, every, is_free=form == "json" or names_status(wanted))
    kept, left = in_state(index, passing_all(index, passes), state)
    if not kept:
        _tell_what_matched(index, passes, state, left)
    kept = _in_order(index, kept, sort)
    matching = len(kept)
    kept = (kept[::-1] if reverse else kept)[:limit]
    is_plain = not passes and state is False and (sort, reverse, limit) == ("id", False, None)
    _print(folder, index, kept, form, words_of(columns or ()), is_plain)
    if len(kept) < matching:
        complain(f"{len(kept)} of {matching} tickets: --limit {matching} shows all")
    if kept and state is not None and left and not (unfinished or closed):
        complain(f"{left} finished {'is' if left == 1 else 'are'} not listed: --all")
    _complain_of_odd(index, kept)
    return complain_of_broken(index.broken, folder)


def _format_of(form: str) -> str:
    from auditkit.cli.views.columns import FORMATS

    if form and form not in FORMATS:
        choose(FORMATS.index, form, FORMATS, "format")
    return form


def state_of(unfinished: bool, closed: bool, every: bool, is_free: bool) -> bool | None:
    """Whether what is finished is wanted; None for all. Raises BadInputError for two answers."""
    if unfinished + closed + every > 1:
        from auditkit.errors import BadInputError

        raise BadInputError("--open, --closed and --all exclude each other", "choose one")
    if closed:
        return True
    return False if unfinished or not (every or is_free) else None


def _print(
    folder: str, index: Index, numbers: Sequence[int], form: str, columns: Sequence[str], is_plain: bool
) -> None:
    if form == "json" and not columns:
        say_json(_document(folder, index, numbers))
    elif form in ("csv", "markdown") or columns or is_terminal():
        from auditkit.cli.views.columns import print_columns

        print_columns(index, numbers, columns, form)
    elif is_plain and numbers:
        say_styled(index.listing)
    else:
        print_lines(index, numbers)


def print_lines(index: Index, numbers: Sequence[int]) -> None:
    """One line for each ticket, as a pipe gets it; with a mark where reviewers wait for an answer."""
    from auditkit.store.listing.rows import SHOWN, aligned

    shown = index.column(SHOWN)
    if numbers:
        say_styled(aligned([shown[number] for number in numbers]))


def _complain_of_odd(index: Index, numbers: Sequence[int]) -> None:
    """Name every status and severity that nobody knows."""
    odd: dict[int, list[str]] = {}
    for number, ticket_id, what, word in index.oddities:
        odd.setdefault(number, []).append(f"warning: {ticket_id}: no such {what}: '{word}'")
    for number in numbers if odd else ():
        for line in odd.get(number, ()):
            complain(line)


def _tell_what_matched(index: Index, passes: Sequence[tuple[str, Filter]], state: bool | None, left: int) -> None:
    """Say on stderr how many tickets each filter lets through by itself, where together they let through none."""
    from auditkit.cli.views.filters import passing_all

    if state is not None and left:
        other, option = ("unfinished", "--open") if state else ("finished", "--all")
        complain(f"nothing to list: {left} {other} {'ticket is' if left == 1 else 'tickets are'} left out ({option})")
    elif passes:
        alone = [f"{name} ({len(passing_all(index, [(name, filter_)]))} of {index.count})" for name, filter_ in passes]
        complain(f"no ticket matches all of: {', '.join(alone)}")
    else:
        complain("there are no tickets")


def _in_order(index: Index, numbers: Sequence[int], sort: str) -> Sequence[int]:
    if sort == "id":
        return numbers
    from auditkit.store.listing.selection import ORDERS, ordered

    if sort not in ORDERS:
        choose(ORDERS.index, sort, ORDERS, "order")
    return ordered(index, numbers, sort)


def _document(folder: str, index: Index, numbers: Sequence[int]) -> dict[str, Any]:
    """Every field of the tickets, read from their files, and what only all of them together say."""
    from pathlib import Path

    from auditkit.store.folder.repository import Entry, Repository
    from auditkit.store.listing.rows import PATH, broken_of

    repository = Repository(Path(folder))
    paths = index.column(PATH)
    tickets = []
    for number in numbers:
        read = repository.read(Path(folder, paths[number]))
        if isinstance(read, Entry):
            tickets.append(fields_of(read, index.blocked))
    problems = [problem.to_json() for one in map(broken_of, index.broken) for problem in one.problems]
    return {"schema_version": 1, "tickets": tickets, "broken": problems}


def fields_of(entry: Entry, blocked: dict[str, list[str]]) -> dict[str, Any]:
    """A ticket's fields, which of its reviews are stale, what they come to, and who blocks it."""
    from auditkit.store.listing.rows import AGREEMENT, ANSWER
    from auditkit.store.listing.ticket_rows import row_of, stale_reviews

    row = row_of(entry.ticket, entry.document)
    fields = entry.ticket.to_json()
    for review, is_stale in zip(fields["reviews"], stale_reviews(entry.ticket, entry.document), strict=True):
        review["is_stale"] = is_stale
    together = {"consensus": row[AGREEMENT], "needs_answer": row[ANSWER]}
    return {**fields, **together, "blocked_by": blocked.get(entry.ticket.id, [])}


# What is wrong in the folder.


def complain_of_broken(broken: Sequence[Row], folder: str) -> int:
    """Name every file that is no ticket; the exit code that follows."""
    if not broken:
        return 0
    from pathlib import Path

    from auditkit.errors import ExitCode
    from auditkit.store.listing.rows import broken_of

    for entry in map(broken_of, broken):
        complain(entry.describe(Path(folder, entry.path)))
    return int(ExitCode.BAD_INPUT)
