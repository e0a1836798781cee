"""`auditkit ticket list`."""

from __future__ import annotations

from auditkit.cli.output import complain, say_json, say_styled, wants_colour
from auditkit.cli.reading.folder import tickets_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.rows import Line, Oddity, Row
    from auditkit.store.selection import Filter


def list_tickets(
    tickets: Path | str | None = None,
    *,
    blocked: bool | None = None,
    sort: str = "id",
    reverse: bool = False,
    limit: int | None = None,
    as_json: bool = False,
    **wanted: Sequence[Any],
) -> int:
    """Print the tickets that pass every filter; the exit code.

    `wanted` are the words of the filters in `FILTERS`, by the name of their option, several of one being
    alternatives. Raises BadInputError for words nobody knows.
    """
    from auditkit.store.index import read_index

    folder = tickets_folder(tickets)
    index = read_index(folder)
    if any(wanted.values()) or blocked is not None or as_json or sort != "id" or reverse or limit:
        rows = index.rows
        kept = _in_order(_kept(rows, wanted, blocked), sort)
        kept = (kept[::-1] if reverse else kept)[:limit]
        lines, odd = _said_of(kept)
        if as_json:
            say_json(_document(folder, kept, index.broken, rows))
    else:
        lines, odd = index.lines, index.oddities
    if not as_json:
        print_lines(lines)
    for ticket_id, what, word in odd:
        complain(f"warning: {ticket_id}: no such {what}: '{word}'")
    return complain_of_broken(index.broken, folder)


def print_lines(lines: Sequence[Line]) -> None:
    """One line for each ticket, or on a terminal a table; with a mark where reviewers wait for an answer."""
    if wants_colour():
        from auditkit.cli.reading.table import print_table

        print_table(lines)
    elif lines:
        columns = list(zip(*lines, strict=True))
        widths = [max(map(len, column)) for column in columns[:-1]]
        # The mark's column is only there where some ticket has one.
        form = "  ".join(f"%-{width}s" if width else "%s" for width in widths[:4])
        form += "  %-1s  %s" if widths[4] else "%s  %s"
        say_styled("\n".join([(form % line).rstrip() for line in lines]))


def _said_of(rows: Sequence[Row]) -> tuple[list[Line], list[Oddity]]:
    from auditkit.store.rows import line_of, oddities_of

    return list(map(line_of, rows)), oddities_of(rows)


def _kept(rows: list[Row], wanted: dict[str, Sequence[Any]], blocked: bool | None) -> list[Row]:
    from auditkit.store.selection import blockers, is_blocked

    filters = [*_filters(rows, wanted)]
    if blocked is not None:
        filters.append(is_blocked(blockers(rows), blocked))
    for passes in filters:
        rows = [row for row in rows if passes(row)]
    return rows


def _in_order(rows: list[Row], sort: str) -> list[Row]:
    if sort == "id":
        return rows
    from auditkit.store.selection import ORDERS, ordered

    if sort not in ORDERS:
        from auditkit.cli.choices import choose

        choose(ORDERS.index, sort, ORDERS, "order")
    statuses: list[str] = []
    if sort == "status":
        from auditkit.model.ticket import Status

        statuses = [status.value for status in Status]
    return ordered(rows, sort, statuses)


def _document(folder: str, kept: Sequence[Row], broken: Sequence[Row], rows: Sequence[Row]) -> dict[str, Any]:
    """Every field of the tickets, read from their files, and what only all of them together say."""
    from pathlib import Path

    from auditkit.store.repository import Entry, Repository
    from auditkit.store.rows import PATH, broken_of
    from auditkit.store.selection import blockers

    repository = Repository(Path(folder))
    blocking = blockers(rows)
    tickets = []
    for row in kept:
        read = repository.read(Path(folder, row[PATH]))
        if isinstance(read, Entry):
            tickets.append({**read.ticket.to_json(), **together(row, blocking)})
    problems = [problem.to_json() for one in map(broken_of, broken) for problem in one.problems]
    return {"schema_version": 1, "tickets": tickets, "broken": problems}


def together(row: Row, blocking: dict[str, list[str]]) -> dict[str, Any]:
    """What a ticket's reviews come to, and who blocks it."""
    from auditkit.store.rows import AGREEMENT, ANSWER, ID

    return {"consensus": row[AGREEMENT], "needs_answer": row[ANSWER], "blocked_by": blocking.get(row[ID], [])}


# Filters.


def _filters(rows: Sequence[Row], wanted: dict[str, Sequence[Any]]) -> Iterator[Filter]:
    from auditkit.store import rows as at
    from auditkit.store import selection as sel

    # Words that some ticket has are known; only for others the vocabulary is loaded.
    makers: dict[str, Callable[[Sequence[Any]], Filter]] = {
        "status": lambda names: sel.among(at.STATUS, _canonical(at.STATUS, rows, names, _statuses)),
        "severity": lambda names: sel.among(at.SEVERITY, _canonical(at.SEVERITY, rows, names, _severities)),
        "batch": lambda numbers: sel.among(at.BATCH, set(numbers)),
        "agent": lambda names: sel.among(at.AGENT_CODE, _canonical(at.AGENT_CODE, rows, names, agents)),
        "domain": sel.in_domain,
        "category": sel.in_category,
        "assignee": sel.assigned_to,
        "file": sel.with_file,
        "text": sel.with_text,
        "consensus": lambda names: sel.agreed(_agreements(names)),
    }
    for name, words in wanted.items():
        if words and name in makers:
            yield makers[name](words)
    reviewers, verdicts = wanted.get("reviewer") or (), wanted.get("verdict") or ()
    if reviewers or verdicts:
        yield sel.reviewed(_reviewers(reviewers), _verdicts(verdicts))


def _canonical(
    field: int, rows: Sequence[Row], names: Sequence[str], parse: Callable[[Sequence[str]], set[str]]
) -> set[str]:
    present = {row[field] for row in rows} - {""}
    return set(names) if present.issuperset(names) else parse(names)


def _statuses(names: Sequence[str]) -> set[str]:
    from auditkit.cli.choices import choose
    from auditkit.model.ticket import Status, parse_status

    return {choose(parse_status, name, [known.value for known in Status]).value for name in names}


def _severities(names: Sequence[str]) -> set[str]:
    from auditkit.cli.choices import choose
    from auditkit.model.enums import Severity
    from auditkit.model.ticket import parse_severity

    return {choose(parse_severity, name, [known.value for known in Severity]).value for name in names}


def agents(names: Sequence[str]) -> set[str]:
    """The codes of agents' names."""
    from auditkit.model.ids import agent_code

    return {agent_code(name) for name in names}


def _reviewers(names: Sequence[str]) -> set[str]:
    from auditkit.model.review import read_reviewer

    return {read_reviewer(name) or name.strip() for name in names}


def _verdicts(names: Sequence[str]) -> set[str]:
    from auditkit.cli.choices import choose
    from auditkit.model.review import Verdict, parse_verdict

    return {choose(parse_verdict, name, [known.value for known in Verdict]).value for name in names}


def _agreements(names: Sequence[str]) -> set[str]:
    from auditkit.cli.choices import choose
    from auditkit.store.selection import AGREEMENTS

    known = list(AGREEMENTS)
    return {choose(lambda text: known[known.index(text)], name.casefold(), known, "consensus") for name in names}


# What is wrong in the folder.


def complain_of_broken(broken: Sequence[Row], folder: str) -> int:
    """Name every file that is no ticket; the exit code that follows."""
    if not broken:
        return 0
    from pathlib import Path

    from auditkit.errors import ExitCode
    from auditkit.store.rows import broken_of

    for entry in map(broken_of, broken):
        complain(entry.describe(Path(folder, entry.path)))
    return int(ExitCode.BAD_INPUT)
