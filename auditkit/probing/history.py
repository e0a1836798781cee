"""The commits between two revisions, and which of them to ask next: git knows, nothing is written."""

from __future__ import annotations

from collections.abc import Collection

from auditkit.errors import BadInputError
from auditkit.model.bisection import Commit
from auditkit.probing import git


def is_ancestor(repository: git.Repository, older: str, newer: str) -> bool:
    """Whether `older` is `newer` or in its history."""
    return git.run_git(repository.directory, "merge-base", "--is-ancestor", older, newer).returncode == 0


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


def read_commit(repository: git.Repository, commit: str) -> Commit:
    """Date, author, first line and changed files of a commit that is there."""
    shown = git.run_git(
        repository.directory, "show", "--no-ext-diff", "--no-textconv", "--numstat", "-z",
        "--format=%H%x00%as%x00%an%x00%s", commit, "--",
    )  # fmt: skip
    hash_, date, author, rest = [*shown.stdout.split("\0", 3), "", "", "", ""][:4]
    subject, *entries = rest.replace("\n", "\0", 1).split("\0") if rest else [""]
    return Commit(hash_ or commit, date, author, subject, tuple(_files(entries)))


def _files(entries: list[str]) -> list[tuple[str, int, int]]:
    found = []
    waiting = [entry.lstrip("\n") for entry in entries]
    while waiting:
        counts, _, path = waiting.pop(0).rpartition("\t")
        added, tab, removed = counts.partition("\t")
        if not tab:
            continue
        if not path and len(waiting) > 1:  # a renamed file: its old and its new name follow
            _, path = waiting.pop(0), waiting.pop(0)
        found.append((path, _lines(added), _lines(removed)))
    return found


def _lines(text: str) -> int:
    return int(text) if text.isdigit() else 0
