"""Differences between two revisions by git: commits, and files with their line counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from auditkit.model.revisions.changes import Changes, Commit, FileChange
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import OpenCheckout

_SEPARATOR = "\x1e"
_FORM = "--format=%H%x00%an%x00%as%x00%B%x1e"


def read_changes(base: OpenCheckout, head: OpenCheckout) -> Changes:
    """Return the commits that head has and base lacks, and the files that differ; nothing outside git."""
    repository = git.find_repository(head.source)
    if repository is None or not (base.revision and head.revision):
        return Changes()
    files = tuple(_files(repository, base.revision, head.revision))
    return Changes(tuple(read_commits(repository, base.revision, head.revision)), files)


def read_commits(repository: git.Repository, base: str, head: str, *paths: str) -> Iterator[Commit]:
    """Yield the commits that head has and base lacks, newest first; with `paths` those that touched one of them."""
    return _read(git.run_git(repository.directory, "log", _FORM, f"{base}..{head}", "--", *paths).stdout)


def _read(told: str) -> Iterator[Commit]:
    for entry in told.split(_SEPARATOR):
        parts = entry.lstrip("\n").split("\0")
        if len(parts) == 4:
            yield Commit(parts[0], parts[1], parts[2], parts[3].strip())


def _files(repository: git.Repository, base: str, head: str) -> Iterator[FileChange]:
    """Yield changed files below the checkout's directory, with relative paths."""
    words = ["-M", "-z", *(["--relative"] if repository.prefix else [])]
    told = git.run_git(repository.directory, "diff", "--name-status", *words, base, head, "--").stdout
    state = {path: (old, kind) for kind, old, path in _statuses(told.split("\0"))}
    counted = git.run_git(repository.directory, "diff", "--numstat", *words, base, head, "--").stdout
    for added, removed, path in _counts(counted.split("\0")):
        old, kind = state.get(path, (path, "M"))
        yield FileChange(
            path="" if kind == "D" else path,
            old_path="" if kind == "A" else old,
            added=None if added == "-" else int(added),
            removed=None if removed == "-" else int(removed),
        )


def _statuses(fields: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (letter, old path, path) of every file."""
    left = iter(fields)
    for kind in left:
        if kind:
            old = next(left)
            yield kind[0], old, next(left) if kind[0] in "RC" else old


def _counts(fields: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (lines added, lines removed, path); a renamed file's two paths follow in separate fields."""
    left = iter(fields)
    for field in left:
        if field:
            added, removed, path = field.split("\t", 2)
            if not path:
                next(left)
                path = next(left)
            yield added, removed, path
