"""What the ticket commands share: their application, long texts, dates, and how a change is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.completion import ticket_ids
from auditkit.cli.help_pages import Commands
from auditkit.cli.output import complain, say, say_json

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterable, Mapping

    from auditkit.store.folder.repository import Change

_VERBS = {
    "See what there is": "list board next search show log stats",
    "Write": "new edit set assign label comment link undo",
    "Review and decide": "start review sign-off status resolve done from-commits",
    "Prove with probes": "try-fix fix verify claim",
    "Keep the folder in order": "lint import renumber merge",
}
app = Commands(
    "ticket",
    "Read, write, review and prove the tickets of a folder.",
    "auditkit ticket list --status open --severity P1",
    _VERBS,
)

IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="A ticket id, such as B7-PT-01.", autocompletion=ticket_ids)
]


def text_of(value: str) -> str:
    """The option's text, or for `-` what stands on stdin. Raises BadInputError where that is not UTF-8."""
    from auditkit.errors import BadInputError

    if value != "-":
        return value
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise BadInputError(f"stdin is not UTF-8: byte {error.start}") from None


def is_agreed(question: str, told: Iterable[str] = ()) -> bool:
    """Whether somebody at a terminal says yes, who is `told` first what it is about; elsewhere nobody does."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    for line in told:
        complain(line)
    return typer.confirm(question, err=True)


def date_of(text: str | None) -> datetime.date | None:
    """The date that an option says, None without one. Raises BadInputError."""
    import datetime

    from auditkit.errors import BadInputError

    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise BadInputError(f"not a date: '{text}'", "dates look like 2026-03-04") from None


_SAME = "nothing to change"


def say_change(change: Change, as_json: bool, told: str, same: str = _SAME, **more: Any) -> None:
    """Say what was done in one line (`same` where nothing was), or give the ticket as it is then as JSON."""
    if change.note:
        complain(f"note: {change.note}")
    if as_json:
        say_json({"schema_version": 1, **change_document(change, more)})
        return
    say(told_line(change, told, same))


def change_document(change: Change, more: Mapping[str, Any]) -> dict[str, Any]:
    """One changed ticket as JSON has it."""
    ticket = change.after.ticket
    document = {"id": ticket.id, "path": str(change.after.file), "changed": change.is_edit}
    return {**document, **more, "ticket": ticket.to_json()}


def told_line(change: Change, told: str, same: str = _SAME) -> str:
    """What was done to one ticket, in one line; `same` where nothing was."""
    moved = f", now {change.after.file}" if change.after.file != change.before.file else ""
    return f"{change.after.ticket.id}: {told if change.is_edit else same}{moved}"
