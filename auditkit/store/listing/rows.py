"""What lists need of a ticket, as one plain tuple: cheap to keep, to load and to sort by the thousands.

The tuple, rather than a dataclass, is what `marshal` reads back at once, ten thousand in a few milliseconds.
"""

from __future__ import annotations

from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from auditkit.model.tickets.ticket import BrokenTicket, Ticket
    from auditkit.store.markdown.document import Document

    Row = tuple[Any, ...]
    # Id, severity, status, agent, a mark where reviewers wait for an answer, and title; all inert.
    Line = tuple[str, ...]
    # Of a ticket with a word that nobody knows: its number and id, what the word is of, and the word.
    Oddity = tuple[int, str, str, str]

# Places in a row. `ORDER` is batch, agent code and number of the id; `SEVERITY` and `STATUS` are "" where the
# word is not known; `SHOWN` is the ticket's line of the list; `IS_STALE` tells of a review that judged other
# evidence; `FOLDER` is that of an unfinished ticket which lies among finished ones, "" for every other; `VOTES` are
# the verdicts that count, "" for one that is not known; `FURTHER` are pairs of a label in lower case and a text, for
# the project's own rows of the metadata.
(
    PATH, ID, ORDER, TITLE, SEVERITY, SEVERITY_WRITTEN, STATUS, STATUS_WRITTEN, IS_FINISHED, BATCH, AGENT, AGENT_CODE,
    DOMAINS, ASSIGNEE, CREATED, UPDATED, FILES, SUMMARY, CATEGORIES, REVIEWS, BLOCKS, AGREEMENT, VERDICT,
    ANSWER, SHOWN, IS_STALE, FOLDER, VOTES, FINGERPRINTS, LABELS, DUE, FURTHER,
) = range(32)  # fmt: skip
FIELDS = FURTHER + 1

LIFE = (
    "open", "investigating", "fix-in-progress", "in-review", "deferred", "fixed", "closed", "wont-fix", "already-fixed",
    "not-a-bug", "duplicate",
)  # fmt: skip
"""Every status in the order of a ticket's life, as `model.tickets.ticket.Status` has them, which loads slowly."""


def read_row(folder: str, path: str) -> tuple[Row | None, Row | None]:
    """The row of a file below `folder`, or its broken row; neither for another page or none."""
    from pathlib import PurePath

    from auditkit.store.reading.reader import brief_of, read_file

    read = read_file(f"{folder}/{path}", PurePath(path), brief_of)
    if isinstance(read, tuple):
        document, ticket = read
        return row_of(ticket, document), None
    return None, broken_row(read) if read is not None else None


def row_of(ticket: Ticket, document: Document) -> Row:
    """The row of a ticket, of which what `brief_of` reads is enough.

    REVIEWS are pairs of a reviewer and a verdict ("" where it is not known), BLOCKS pairs of `blocks` or
    `blocked-by` and an id, AGREEMENT and VERDICT the consensus, ANSWER what waits for an answer, "" for nothing.
    """
    from dataclasses import replace

    from auditkit.model.tickets.ids import id_parts
    from auditkit.model.tickets.relation import RelationKind
    from auditkit.rules.tickets.consensus import consensus_of
    from auditkit.store.reading.resolution import read_resolution

    consensus = consensus_of(ticket)
    if consensus.needs_answer and ticket.resolution is None:
        # Few tickets have a question; of the others nobody needs to know how they ended.
        consensus = consensus_of(replace(ticket, resolution=read_resolution(document)))
    severity = ticket.severity.value if ticket.severity else ""
    status = ticket.status.value if ticket.status else ""
    blocking = (RelationKind.BLOCKS, RelationKind.BLOCKED_BY)
    return (
        ticket.path.as_posix(),
        str(ticket.id),
        id_parts(ticket.id),
        ticket.title,
        severity,
        ticket.severity_written,
        status,
        ticket.status_written,
        ticket.status is not None and ticket.status.is_finished,
        ticket.batch,
        ticket.agent,
        _agent_code(ticket.agent),
        ticket.domains,
        ticket.assignee,
        ticket.created,
        ticket.updated,
        ticket.files,
        ticket.summary,
        ticket.categories,
        tuple(
            (review.reviewer or review.reviewer_written, review.verdict.value if review.verdict else "")
            for review in ticket.reviews
        ),
        tuple((one.kind.value, str(one.id)) for one in ticket.related if one.kind in blocking and one.id),
        consensus.kind.value,
        consensus.verdict.value if consensus.verdict else "",
        consensus.needs_answer,
        shown(
            ticket.id,
            severity or ticket.severity_written or "-",
            status or ticket.status_written or "-",
            ticket.agent,
            mark_of(consensus.needs_answer),
            ticket.title,
        ),
        any(stale_reviews(ticket, document)),
        "" if ticket.is_finished else _folder_of_finished(ticket.path.parent.as_posix()),
        tuple(vote.verdict.value if vote.verdict else "" for vote in consensus.votes),
        ticket.fingerprints,
        ticket.labels,
        ticket.due,
        tuple((row.label.casefold(), row.text) for row in ticket.further),
    )


@cache
def _folder_of_finished(folder: str) -> str:
    """The innermost folder of a path in which only finished tickets belong, by its name."""
    from auditkit.store.folder.folder_names import statuses_of_folder

    return next((name for name in reversed(folder.split("/")) if statuses_of_folder(name)), "")


@cache
def _agent_code(agent: str) -> str:
    from auditkit.model.tickets.ids import agent_code

    return agent_code(agent)


def stale_reviews(ticket: Ticket, document: Document) -> list[bool]:
    """Of each review of a ticket, whether it judged other evidence than the ticket's document has now."""
    if not any(review.judged for review in ticket.reviews):
        return [False] * len(ticket.reviews)
    from auditkit.rules.tickets.code_digest import is_stale
    from auditkit.store.markdown.evidence import ticket_digest

    digest = ticket_digest(document)
    return [is_stale(review, digest) for review in ticket.reviews]


def shown(*words: str) -> tuple[str, ...]:
    """Words as they may stand on a terminal; each that is harmless comes back as the same object."""
    return tuple(word if _is_inert_line(word) else _inert_line(word) for word in words)


def mark_of(answer: str) -> str:
    """What stands before the title of a ticket whose reviewers wait for an answer."""
    return "!" if answer else ""


def aligned(lines: Sequence[Line]) -> str:
    """The lines of a list below each other, each column as wide as its widest word."""
    if not lines:
        return ""
    columns = list(zip(*lines, strict=True))
    widths = [max(map(len, column)) for column in columns[:-1]]
    # The mark's column is only there where some ticket has one.
    form = "  ".join(f"%-{width}s" if width else "%s" for width in widths[:4])
    form += "  %-1s  %s" if widths[4] else "%s  %s"
    return "\n".join([(form % line).rstrip() for line in lines])


def oddities_of(rows: Sequence[Row]) -> list[Oddity]:
    """Every status and severity that nobody knows."""
    found = []
    for number, row in enumerate(rows):
        if not row[STATUS]:
            found.append((number, row[ID], "status", row[STATUS_WRITTEN]))
        if not row[SEVERITY]:
            found.append((number, row[ID], "severity", row[SEVERITY_WRITTEN]))
    return found


def broken_row(broken: BrokenTicket) -> Row:
    """A file that is no ticket, as a tuple: path, place, message, source, and its further problems."""
    also = tuple(broken_row(one) for one in broken.also)
    return (broken.path.as_posix(), broken.line, broken.column, broken.message, broken.source, also)


def broken_of(row: Row) -> BrokenTicket:
    """What `broken_row` was made from."""
    from pathlib import PurePath

    from auditkit.model.tickets.ticket import BrokenTicket

    path, line, column, message, source, also = row
    return BrokenTicket(PurePath(path), line, column, message, source, tuple(map(broken_of, also)))


def _is_inert_line(word: str) -> bool:
    return word.isascii() and word.isprintable() and "  " not in word and word == word.strip()


def _inert_line(word: str) -> str:
    from auditkit.model.text import inert_line

    return inert_line(word)
