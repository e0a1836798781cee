"""One change to many tickets: tried on all of them first, then written to all or to none."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from auditkit.errors import AuditkitError, BadInputError
from auditkit.model.text import inert_line
from auditkit.model.tickets.ids import is_ticket_id, parse_ticket_id
from auditkit.store.folder import files
from auditkit.store.folder.journal import commit
from auditkit.store.folder.repository import Repository

_T = TypeVar("_T")
_MOST_RETRIES = 20


@dataclass(frozen=True)
class Tried:
    """What a change would do to each ticket, by id in the order that was asked for, and the files it would write."""

    plan: files.Plan | None

    def write(self, repository: Repository) -> None:
        """Write all files, or none, under one lock, which is held for no longer than that.

        In a dry run they are planned already. Raises ChangedMeanwhileError where a file is not what it was.
        """
        if self.plan is not None:
            with repository.writing():
                commit(repository.folder, self.plan)


def change_all_at_once(repository: Repository, ids: Sequence[str], change: Callable[[str], _T]) -> list[_T]:
    """What `change` made of each ticket, written into all of them or none; raises as `try_on_all` does.

    It is tried again where somebody else was faster with one of them.
    """
    for is_last in (*[False] * _MOST_RETRIES, True):
        try:
            done, tried = try_on_all(ids, change)
            tried.write(repository)
        except files.ChangedMeanwhileError:
            if is_last:
                raise
        else:
            break
    return done


def try_on_all(ids: Sequence[str], change: Callable[[str], _T]) -> tuple[list[_T], Tried]:
    """What `change` makes of each ticket, with nothing written yet.

    Raises the first error where it cannot be made to all of them, every ticket and its reason named.
    """
    with contextlib.ExitStack() as stack:
        plan = None if files.is_dry_run() else stack.enter_context(files.dry_run())
        done: list[_T] = []
        refused: list[tuple[str, AuditkitError]] = []
        for ticket_id in ids:
            try:
                done.append(change(ticket_id))
            except files.ChangedMeanwhileError:
                raise
            except AuditkitError as error:
                refused.append((ticket_id, error))
    if refused:
        raise _none_changed(refused, len(ids))
    return done, Tried(plan)


def _none_changed(refused: Sequence[tuple[str, AuditkitError]], count: int) -> AuditkitError:
    reasons = [
        f"\n  {error.message if ticket_id in error.message else f'{ticket_id}: {error.message}'}"
        for ticket_id, error in refused
    ]
    first = refused[0][1]
    told = f"{len(refused)} of {count} tickets cannot be changed, so none was:{''.join(reasons)}"
    return type(first)(told, first.hint)


def ids_in(text: str) -> list[str]:
    """The ids that stand first on the lines of a text, as `ticket list` prints them. Raises BadInputError."""
    ids = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.split(maxsplit=1)[0] if line.strip() else ""
        if word and not is_ticket_id(word):
            raise BadInputError(
                f"line {number} of stdin does not begin with a ticket id: '{inert_line(line)[:60]}'",
                "one id on each line, or the lines of `auditkit ticket list`",
            )
        ids += [word] if word else []
    return ids


def each_once(ids: Iterable[str]) -> list[str]:
    """Every id once, in the order of the first mention; commas between them are blanks. Raises BadInputError."""
    words = [word for text in ids for word in re.split(r"[,\s]+", text) if word]
    wrong = next((word for word in words if not is_ticket_id(word)), None)
    if wrong is not None:
        raise BadInputError(f"not a ticket id: '{inert_line(wrong)}'", "auditkit ticket list shows what there is")
    return list(dict.fromkeys(str(parse_ticket_id(word)) for word in words))
