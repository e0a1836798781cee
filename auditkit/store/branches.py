"""Ticket ids on the other local branches of the git repository that holds a tickets folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from auditkit.model.ids import TicketId, is_ticket_id, parse_ticket_id

_GIT_TIMEOUT_S = 60
_STEM = re.compile(r"([^/]+)\.md$")


def ids_on_branches(folder: Path) -> frozenset[TicketId]:
    """The ids that files below `folder` are named by on any local branch; none outside git.

    Without git, or in a repository that it refuses to read, there are none either: ids are then unique
    in the working tree only.
    """
    branches = _git(folder, "for-each-ref", "--format=%(refname)", "refs/heads")
    return frozenset(
        ticket_id for branch in branches for ticket_id in _ids(_git(folder, "ls-tree", "-rz", "--name-only", branch))
    )


def _ids(paths: Iterable[str]) -> Iterable[TicketId]:
    stems = (match[1] for path in paths if (match := _STEM.search(path)) is not None)
    return (parse_ticket_id(stem) for stem in stems if is_ticket_id(stem))


def _git(folder: Path, *arguments: str) -> list[str]:
    # Imported here because reading tickets never needs it.
    import subprocess

    # A hook that runs us exports GIT_DIR and the like, which would point git at another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=True,
            timeout=_GIT_TIMEOUT_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [name for name in re.split("[\0\n]", done.stdout.decode("utf-8", "surrogateescape")) if name]
