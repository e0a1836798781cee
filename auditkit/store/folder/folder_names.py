"""What the name of a folder says of the tickets in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from auditkit.model.tickets.ticket import FINISHED, Status, read_status
from auditkit.rules.lint.rule import FOLDERS


def folders_named_by_status(tickets: Path) -> Mapping[str, Sequence[str]]:
    """The folders below a tickets folder whose name is a finished status in any spelling, with what is filed there."""
    names = sorted({name for _, inner, _ in os.walk(tickets) for name in inner if name not in FOLDERS})
    return {name: filed for name in names if (filed := statuses_of_folder(name))}


def statuses_of_folder(name: str) -> tuple[str, ...]:
    """The statuses that a folder's name means: `WONT_FIX` and `duplicates` too; none where it means no finished one."""
    if name in FOLDERS:
        return FOLDERS[name]
    status = read_status(name) or read_status(name.rstrip("sS"))
    if status is None or not status.is_finished:
        return ()
    if status is Status.CLOSED:
        return tuple(sorted(FINISHED))
    return FOLDERS["fixed"] if status.value in FOLDERS["fixed"] else (status.value, Status.CLOSED.value)
