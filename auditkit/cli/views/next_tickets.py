"""`auditkit ticket next`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, say, say_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.listing.index import Index


def next_tickets(
    tickets: Path | str | None = None,
    *,
    limit: int = 1,
    agent: Sequence[str] = (),
    assignee: Sequence[str] = (),
    as_json: bool = False,
) -> int:
    """Print what to take, and why; the exit code."""
    from auditkit.cli.views.listing import complain_of_broken, print_tickets
    from auditkit.store.listing.index import read_index

    folder = tickets_folder(tickets)
    index = read_index(folder)
    free, held = _queue(folder, index, agent, assignee)
    shown = free[:limit]
    if as_json:
        left = {"unblocked": len(free), "blocked": len(held)}
        say_json({"schema_version": 1, "tickets": [_fields(index, number) for number in shown], **left})
    elif not shown:
        complain(f"nothing to take: {len(held)} unfinished, {len(held)} of them blocked")
    else:
        for number in shown:
            print_tickets(index, [number])
            say(f"  because: {_reason(index, number)}")
        blocked = f"; {len(held)} more {'is' if len(held) == 1 else 'are'} blocked" if held else ""
        say(f"  of {len(free)} that can be taken{blocked}")
    return complain_of_broken(index.broken, folder)


def _queue(
    folder: str, index: Index, agent: Sequence[str], assignee: Sequence[str]
) -> tuple[Sequence[int], Sequence[int]]:
    free, held = index.queue
    if not agent and not assignee:
        return free, held
    from auditkit.cli.views.listing import of_agents
    from auditkit.store.listing.selection import assigned_to, passing

    filters = [
        *([of_agents(folder, index, agent)] if agent else []),
        *([assigned_to(index, assignee)] if assignee else []),
    ]
    return passing(free, filters), passing(held, filters)


def _fields(index: Index, number: int) -> dict[str, Any]:
    from auditkit.store.listing import rows as at

    columns = {
        "id": at.ID, "title": at.TITLE, "severity": at.SEVERITY, "status": at.STATUS, "agent": at.AGENT,
        "assignee": at.ASSIGNEE, "created": at.CREATED, "consensus": at.AGREEMENT, "needs_answer": at.ANSWER,
        "path": at.PATH,
    }  # fmt: skip
    fields = {name: index.column(column)[number] for name, column in columns.items()}
    fields |= {name: fields[name] or None for name in ("severity", "status")}
    return {**fields, "reason": _reason(index, number)}


def _reason(index: Index, number: int) -> str:
    """What the ticket was chosen by, in the order in which it counts."""
    from auditkit.store.listing import rows as at

    fields = (at.SEVERITY, at.AGREEMENT, at.VERDICT, at.ANSWER, at.CREATED)
    severity, agreement, verdict, answer, created = [index.column(field)[number] for field in fields]
    agreement = {"none": "no review", "partial": "one review:" if verdict else "one review"}.get(agreement, agreement)
    parts = [
        severity or "no known severity",
        f"{agreement} {verdict}" if verdict else agreement,
        *([answer] if answer else []),
        f"created {created or 'nobody knows when'}",
        "nothing unfinished blocks it",
    ]
    return ", ".join(parts)
