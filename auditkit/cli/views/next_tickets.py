"""`auditkit ticket next`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, fitted, is_terminal, say, say_json, say_styled, terminal_width

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
    from auditkit.cli.views.listing import complain_of_broken
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
        _print(index, shown)
        say(fitted(f"{len(shown)} of {_summary(index, free, held)}", terminal_width()))
    return complain_of_broken(index.broken, folder)


def _print(index: Index, numbers: Sequence[int]) -> None:
    """One table, and below each of its tickets why it stands there."""
    reasons = [f"because: {_reason(index, number)}" for number in numbers]
    if not is_terminal():
        from auditkit.store.listing.rows import SHOWN, aligned

        shown = index.column(SHOWN)
        lines = aligned([shown[number] for number in numbers]).split("\n")
        say_styled("\n".join(f"{line}\n  {reason}" for line, reason in zip(lines, reasons, strict=True)))
        return
    from auditkit.cli.views import terminal
    from auditkit.cli.views.columns import ON_A_TERMINAL, table_of

    head, *lines = terminal.table_lines(terminal.fitting(table_of(index, numbers, ON_A_TERMINAL)))
    say_styled(head)
    for line, reason in zip(lines, reasons, strict=True):
        told = terminal.styled(terminal.cut(reason, max(terminal.screen_width() - 2, 1)), terminal.DIM)
        say_styled(f"{line}\n  {told}")


def _summary(index: Index, free: Sequence[int], held: Sequence[int]) -> str:
    """How many can be taken, how many of these may be finished, and how many are blocked."""
    from auditkit.store.listing.rows import FOLDER

    folders = index.column(FOLDER)
    doubtful = sum(folders[number] != "" for number in free)
    parts = [f"{len(free)} that can be taken"]
    if doubtful:
        parts.append(f"{doubtful} of them in a folder for finished tickets, so last")
    if held:
        parts.append(f"{len(held)} more {'is' if len(held) == 1 else 'are'} blocked")
    return "; ".join(parts)


def _queue(
    folder: str, index: Index, agent: Sequence[str], assignee: Sequence[str]
) -> tuple[Sequence[int], Sequence[int]]:
    free, held = index.queue
    if not agent and not assignee:
        return free, held
    from auditkit.cli.views.filters import of_agents
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

    fields = (at.SEVERITY, at.AGREEMENT, at.VERDICT, at.ANSWER, at.CREATED, at.FOLDER)
    severity, agreement, verdict, answer, created, folder = [index.column(field)[number] for field in fields]
    agreement = {"none": "no review", "partial": "one review:" if verdict else "one review"}.get(agreement, agreement)
    parts = [
        *([f"unfinished in {folder}/, so it comes last: one of the two is wrong"] if folder else []),
        severity or "no known severity",
        f"{agreement} {verdict}" if verdict else agreement,
        *([answer] if answer else []),
        f"created {created or 'nobody knows when'}",
        "nothing unfinished blocks it",
    ]
    return ", ".join(parts)
