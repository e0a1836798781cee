"""`auditkit ticket next`."""

from __future__ import annotations

from auditkit.cli.output import complain, say, say_json
from auditkit.cli.reading.folder import tickets_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.rows import Row


def next_tickets(
    tickets: Path | str | None = None,
    *,
    limit: int = 1,
    agent: Sequence[str] = (),
    assignee: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Print what to take, and why; the exit code."""
    from auditkit.cli.reading.listing import agents, complain_of_broken, print_lines
    from auditkit.store import rows as at
    from auditkit.store import selection as sel
    from auditkit.store.index import read_index
    from auditkit.store.rows import line_of

    folder = tickets_folder(tickets)
    index = read_index(folder)
    rows = index.rows
    blocking = sel.blockers(rows)
    filters = [
        *([sel.among(at.AGENT_CODE, agents(agent))] if agent else []),
        *([sel.assigned_to(assignee)] if assignee else []),
    ]
    waiting = [row for row in rows if sel.is_waiting(row) and all(passes(row) for passes in filters)]
    free = [row for row in waiting if row[at.ID] not in blocking]
    shown = sel.most_worth(free, limit)
    if as_json:
        left = {"unblocked": len(free), "blocked": len(waiting) - len(free)}
        say_json({"schema_version": 1, "tickets": [_fields(row) for row in shown], **left})
    elif not shown:
        complain(f"nothing to take: {len(waiting)} unfinished, {len(waiting) - len(free)} of them blocked")
    for row in shown if not as_json else ():
        print_lines([line_of(row)])
        say(f"  because: {_reason(row)}")
    if shown and not as_json:
        say(f"  of {len(free)} that can be taken; {len(waiting) - len(free)} more are blocked")
    return complain_of_broken(index.broken, folder)


def _fields(row: Row) -> dict[str, Any]:
    from auditkit.store import rows as at

    return {
        "id": row[at.ID],
        "title": row[at.TITLE],
        "severity": row[at.SEVERITY] or None,
        "status": row[at.STATUS] or None,
        "agent": row[at.AGENT],
        "assignee": row[at.ASSIGNEE],
        "created": row[at.CREATED],
        "consensus": row[at.AGREEMENT],
        "needs_answer": row[at.ANSWER],
        "path": row[at.PATH],
        "reason": _reason(row),
    }


def _reason(row: Row) -> str:
    """What the ticket was chosen by, in the order in which it counts."""
    from auditkit.store import rows as at

    agreement = {"none": "no review", "partial": "too few reviews"}.get(row[at.AGREEMENT], row[at.AGREEMENT])
    verdict = f" {row[at.VERDICT]}" if row[at.VERDICT] else ""
    parts = [
        row[at.SEVERITY] or "no known severity",
        f"{agreement}{verdict}",
        *([row[at.ANSWER]] if row[at.ANSWER] else []),
        f"created {row[at.CREATED] or 'nobody knows when'}",
        "nothing unfinished blocks it",
    ]
    return ", ".join(parts)
