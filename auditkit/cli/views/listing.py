"""`auditkit ticket list`."""

from __future__ import annotations

from auditkit.cli.lookups import choose, configured_agents, tickets_folder
from auditkit.cli.output import complain, say_json, say_styled, wants_colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.folder.repository import Entry
    from auditkit.store.listing.index import Index
    from auditkit.store.listing.rows import Line, Row
    from auditkit.store.listing.selection import Filter


def list_tickets(
    tickets: Path | str | None = None,
    *,
    blocked: bool | None = None,
    stale: bool = False,
    sort: str = "id",
    reverse: bool = False,
    limit: int | None = None,
    where: Sequence[str] | None = None,
    as_json: bool = False,
    **wanted: Sequence[Any],
) -> int:
    """Print the tickets that pass every filter; the exit code.

    `wanted` are the words of the filters in `filters`, by the name of their option, several of one being
    alternatives. Raises BadInputError for words nobody knows.
    """
    from auditkit.store.listing.index import read_index

    folder = tickets_folder(tickets)
    index = read_index(folder)
    kept: Sequence[int] = range(index.count)
    if any(wanted.values()) or blocked is not None or stale:
        kept = _kept(folder, index, wanted, blocked, stale)
    if where:
        from auditkit.cli.views.where import filters_of
        from auditkit.store.listing.selection import passing

        kept = passing(kept, filters_of(folder, index, where))
    kept = _in_order(index, kept, sort)
    kept = (kept[::-1] if reverse else kept)[:limit]
    if as_json:
        say_json(_document(folder, index, kept))
    else:
        print_tickets(index, kept)
    _complain_of_odd(index, kept)
    return complain_of_broken(index.broken, folder)


def print_tickets(index: Index, numbers: Sequence[int]) -> None:
    """One line for each ticket, or on a terminal a table; with a mark where reviewers wait for an answer."""
    if wants_colour():
        from auditkit.cli.views.terminal import print_table

        print_table(_lines(index, numbers))
    elif not numbers:
        return
    elif numbers == range(index.count):
        say_styled(index.listing)
    else:
        from auditkit.store.listing.rows import aligned

        say_styled(aligned(_lines(index, numbers)))


def _lines(index: Index, numbers: Sequence[int]) -> list[Line]:
    from auditkit.store.listing.rows import SHOWN

    shown = index.column(SHOWN)
    return [shown[number] for number in numbers]


def _complain_of_odd(index: Index, numbers: Sequence[int]) -> None:
    """Name every status and severity that nobody knows."""
    odd: dict[int, list[str]] = {}
    for number, ticket_id, what, word in index.oddities:
        odd.setdefault(number, []).append(f"warning: {ticket_id}: no such {what}: '{word}'")
    for number in numbers if odd else ():
        for line in odd.get(number, ()):
            complain(line)


def _kept(
    folder: str, index: Index, wanted: dict[str, Sequence[Any]], blocked: bool | None, stale: bool
) -> Sequence[int]:
    from auditkit.store.listing import selection as sel

    passes = [*filters(folder, index, wanted)]
    if blocked is not None:
        passes.append(sel.is_blocked(index, blocked))
    if stale:
        passes.append(sel.is_stale(index))
    return sel.passing(range(index.count), passes)


def _in_order(index: Index, numbers: Sequence[int], sort: str) -> Sequence[int]:
    if sort == "id":
        return numbers
    from auditkit.store.listing.selection import ORDERS, ordered

    if sort not in ORDERS:
        choose(ORDERS.index, sort, ORDERS, "order")
    statuses: list[str] = []
    if sort == "status":
        from auditkit.model.tickets.ticket import Status

        statuses = [status.value for status in Status]
    return ordered(index, numbers, sort, statuses)


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
    from auditkit.store.listing.rows import AGREEMENT, ANSWER, row_of, stale_reviews

    row = row_of(entry.ticket, entry.document)
    fields = entry.ticket.to_json()
    for review, is_stale in zip(fields["reviews"], stale_reviews(entry.ticket, entry.document), strict=True):
        review["is_stale"] = is_stale
    together = {"consensus": row[AGREEMENT], "needs_answer": row[ANSWER]}
    return {**fields, **together, "blocked_by": blocked.get(entry.ticket.id, [])}


# Filters.


def filters(folder: str, index: Index, wanted: dict[str, Sequence[Any]]) -> Iterator[Filter]:
    """What the words of the options let pass, by the name of the option."""
    from auditkit.store.listing import rows as at
    from auditkit.store.listing import selection as sel

    def among(field: int, parse: Callable[[Sequence[str]], set[str]]) -> Callable[[Sequence[Any]], Filter]:
        return lambda names: sel.among(index, field, _canonical(index, field, names, parse))

    makers: dict[str, Callable[[Sequence[Any]], Filter]] = {
        "status": among(at.STATUS, _statuses),
        "severity": among(at.SEVERITY, _severities),
        "batch": lambda numbers: sel.among(index, at.BATCH, set(numbers)),
        "agent": lambda names: of_agents(folder, index, names),
        "domain": lambda names: sel.in_domain(index, names),
        "category": lambda words: sel.in_category(index, words),
        "assignee": lambda names: sel.assigned_to(index, names),
        "file": lambda patterns: sel.with_file(index, patterns),
        "consensus": lambda names: sel.agreed(index, _agreements(names)),
    }
    for name, words in wanted.items():
        if words and name in makers:
            yield makers[name](words)
    yield from (sel.with_text(index, text) for text in wanted.get("text") or ())
    reviewers, verdicts = wanted.get("reviewer") or (), wanted.get("verdict") or ()
    if reviewers or verdicts:
        yield sel.reviewed(index, _reviewers(reviewers), _verdicts(verdicts))


def _canonical(index: Index, field: int, names: Sequence[str], parse: Callable[[Sequence[str]], set[str]]) -> set[str]:
    """The words as the vocabulary has them; it is only loaded for words that no ticket has."""
    present = set(index.column(field)) - {""}
    return set(names) if present.issuperset(names) else parse(names)


def of_agents(folder: str, index: Index, names: Sequence[str]) -> Filter:
    """Tickets of these agents, by code or name, those of the project among them."""
    from auditkit.store.listing import rows as at
    from auditkit.store.listing import selection as sel

    agents = configured_agents(folder)
    if agents is None:
        return sel.among(index, at.AGENT_CODE, _canonical(index, at.AGENT_CODE, names, _codes))
    from auditkit.model.tickets.ids import agent_code

    codes = {agent_code(name, agents) for name in names}
    return sel.among(
        index, at.AGENT, {name for name in set(index.column(at.AGENT)) if agent_code(name, agents) in codes}
    )


def _codes(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.ids import agent_code

    return {agent_code(name) for name in names}


def _statuses(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.ticket import Status, parse_status

    return {choose(parse_status, name, list(Status)).value for name in names}


def _severities(names: Sequence[str]) -> set[str]:
    from auditkit.model.enums import Severity
    from auditkit.model.tickets.ticket import parse_severity

    return {choose(parse_severity, name, list(Severity)).value for name in names}


def _reviewers(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.review import read_reviewer

    return {read_reviewer(name) or name.strip() for name in names}


def _verdicts(names: Sequence[str]) -> set[str]:
    from auditkit.model.tickets.review import Verdict, parse_verdict

    return {choose(parse_verdict, name, list(Verdict)).value for name in names}


def _agreements(names: Sequence[str]) -> set[str]:
    from auditkit.store.listing.selection import AGREEMENTS

    known = list(AGREEMENTS)
    return {choose(lambda text: known[known.index(text)], name.casefold(), known, "consensus") for name in names}


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
