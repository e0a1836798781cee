"""Ticket ids on the other local branches of the git repository that holds a tickets folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import TicketId, is_ticket_id, parse_ticket_id

_STEM = re.compile(r"([^/]+)\.md$")


def ids_on_branches(folder: Path) -> frozenset[TicketId]:
    """The ids that files below `folder` are named by on any local branch; none outside git.

    Without git, or in a repository that it refuses to read, there are none either: ids are then unique
    in the working tree only.
    """
    branches = _git(folder, "for-each-ref", "--format=%(refname)", "refs/heads")
    return frozenset(ticket_id for branch in branches for ticket_id in _ids(_listed(folder, branch)))


@dataclass(frozen=True)
class BranchFile:
    """A file named by a ticket id that a branch has added: the branch's name and the path below the folder."""

    branch: str
    path: str


def added_on_branches(folder: Path) -> dict[TicketId, list[BranchFile]]:
    """Files below `folder`, by the id that names them, that other local branches have added on their own.

    Those are ids which a branch has and its common ancestor with HEAD has not. None outside git.
    """
    here = _git(folder, "symbolic-ref", "--quiet", "HEAD")
    found: dict[TicketId, list[BranchFile]] = {}
    for branch in _git(folder, "for-each-ref", "--format=%(refname)", "refs/heads"):
        if branch in here:
            continue
        base = _git(folder, "merge-base", "HEAD", branch)
        before = set(_ids(_listed(folder, base[0]))) if base else set()
        for path in _listed(folder, branch):
            for ticket_id in _ids([path]):
                if ticket_id not in before:
                    found.setdefault(ticket_id, []).append(BranchFile(branch.removeprefix("refs/heads/"), path))
    return found


def read_on_branch(folder: Path, file: BranchFile) -> bytes:
    """What the file holds on its branch, b"" where it cannot be read."""
    return _output(folder, "show", f"refs/heads/{file.branch}:./{file.path}")


def _listed(folder: Path, revision: str) -> list[str]:
    return _git(folder, "ls-tree", "-rz", "--name-only", revision)


def _ids(paths: Iterable[str]) -> Iterable[TicketId]:
    stems = (match[1] for path in paths if (match := _STEM.search(path)) is not None)
    return (parse_ticket_id(stem) for stem in stems if is_ticket_id(stem))


def _git(folder: Path, *arguments: str) -> list[str]:
    text = _output(folder, *arguments).decode("utf-8", "surrogateescape")
    return [name for name in re.split("[\0\n]", text) if name]


def _output(folder: Path, *arguments: str) -> bytes:
    # Imported here because reading tickets never needs it.
    from auditkit.git_process import run_git_bytes

    try:
        done = run_git_bytes(folder, *arguments)
    except (OSError, BadInputError):
        return b""
    return done.stdout if done.returncode == 0 else b""
