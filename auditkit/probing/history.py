"""The commits between two revisions, and which of them to ask next: git knows, nothing is written."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from auditkit.errors import BadInputError
from auditkit.probing import git


def is_ancestor(repository: git.Repository, older: str, newer: str) -> bool:
    """Whether `older` is `newer` or in its history."""
    return git.run_git(repository.directory, "merge-base", "--is-ancestor", older, newer).returncode == 0


def first_known(repository: git.Repository, revisions: Iterable[str]) -> str:
    """The commit of the first of `revisions` that is there, "" where none is."""
    for revision in revisions:
        with contextlib.suppress(BadInputError):
            return git.resolve_revision(repository, revision)
    return ""


def merge_base(repository: git.Repository, one: str, other: str) -> str:
    """The commit at which two histories parted. Raises BadInputError where they have none in common."""
    answer = git.run_git(repository.directory, "merge-base", one, other)
    if answer.returncode != 0:
        raise BadInputError(
            f"{one[:12]} and {other[:12]} have no commit in common",
            "name two revisions of one history; a shallow clone holds only part of it: git fetch --unshallow",
        )
    return answer.stdout.split()[0]


def between(repository: git.Repository, newer: str, older: Collection[str]) -> list[str]:
    """The commits in the history of `newer` that are in none of `older`: the best one to ask first, `newer` last.

    The best one cuts the rest in halves, also where branches were merged (git's own bisection).
    """
    answer = git.run_git(
        repository.directory, "rev-list", "--bisect-all", newer, *(f"^{commit}" for commit in sorted(older))
    )
    if answer.returncode != 0:
        raise BadInputError(f"git cannot list the commits before {newer[:12]}: {answer.stderr.strip()}")
    listed = [line.split()[0] for line in answer.stdout.splitlines() if line]
    return [commit for commit in listed if commit != newer] + [newer]
