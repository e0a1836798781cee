"""Read a git repository without changing it, and check a revision out elsewhere."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError, nearest_names
from auditkit.git_process import run_git as run_git


@dataclass(frozen=True)
class Repository:
    """The repository of `directory`.

    `prefix` is the path of `directory` below the top of the work tree, "" at the top; `objects` is the object store;
    `has_work_tree` is False for a bare repository and inside `.git`.
    """

    directory: Path
    prefix: str
    objects: Path
    has_work_tree: bool

    @property
    def top(self) -> Path:
        """The top of the work tree."""
        return self.directory.resolve().joinpath(*[".."] * len(Path(self.prefix).parts)).resolve()


def git_is_installed() -> bool:
    return shutil.which("git") is not None


def find_repository(directory: Path) -> Repository | None:
    """Return the repository around `directory`, or None without one or without git.

    Raises BadInputError if git rejects it because of its owner, or if it claims files outside its folder.
    """
    if not git_is_installed():
        return None
    questions = ("--is-inside-work-tree", "--git-path", "objects", "--show-prefix")
    answer = run_git(directory, "rev-parse", *questions)
    if answer.returncode != 0:
        _check_that_there_is_none(directory, answer.stderr.strip().removeprefix("fatal: "))
        return None
    inside, objects, prefix = [*answer.stdout.split("\n"), "", ""][:3]
    has_work_tree = inside == "true"
    found = Repository(
        directory, prefix.rstrip("/") if has_work_tree else "", (directory / objects).resolve(), has_work_tree
    )
    folders = (found.directory.resolve(), *found.directory.resolve().parents)
    holder = next((folder for folder in folders if os.path.lexists(folder / ".git")), None)
    if has_work_tree and holder is not None and not found.top.is_relative_to(holder):
        text = f"the repository in {holder} names {found.top} as its folder of files, which is outside of it"
        raise BadInputError(text, f"git -C {holder} config --unset core.worktree")
    return found


def _check_that_there_is_none(directory: Path, told: str) -> None:
    """Raise BadInputError if git rejects a repository, which is not the same as having none."""
    if told.startswith(("detected dubious ownership", "cannot use bare repository", "unsafe repository")):
        first, *rest = (line.strip() for line in told.splitlines() if line.strip())
        raise BadInputError(f"git does not read {directory}: {first}", rest[-1] if rest else None)


def resolve_revision(repository: Repository, revision: str) -> str:
    """Return the full hash of the commit that `revision` names.

    Raises BadInputError with the nearest branch and tag names if there is no such commit.
    """
    if not revision.startswith("-"):  # git would read it as an option; no ref can start with a dash.
        answer = run_git(repository.directory, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if answer.returncode == 0:
            return answer.stdout.strip()
    raise BadInputError(
        f"{repository.directory} has no revision {revision!r}", _unknown_revision_hint(repository, revision)
    )


def _unknown_revision_hint(repository: Repository, revision: str) -> str:
    listed = run_git(repository.directory, "for-each-ref", "--format=%(refname:short)")
    nearest = nearest_names(revision, listed.stdout.split())
    if nearest:
        return f"did you mean {' or '.join(nearest)}?"
    return "git log --oneline --all lists the commits that are here; git fetch brings newer ones (--unshallow all)"


def first_known(repository: Repository, revisions: Iterable[str]) -> str:
    """Return the commit of the first of `revisions` that exists, or ""."""
    for revision in revisions:
        with contextlib.suppress(BadInputError):
            return resolve_revision(repository, revision)
    return ""


def current_revision(repository: Repository) -> str:
    """Return the full hash of HEAD, or "" if HEAD does not contain this directory.

    A folder that its repository does not track (a virtual environment, a scratch folder) has no revision: the
    repository's commit says nothing about it.
    """
    if not repository.has_work_tree:
        return ""
    tracked = run_git(repository.directory, "rev-parse", "--verify", "--quiet", "HEAD:./")
    if tracked.returncode != 0:
        return ""
    return run_git(repository.directory, "rev-parse", "--verify", "--quiet", "HEAD").stdout.strip()


def is_dirty(repository: Repository, apart_from: Path | None = None) -> bool:
    """Return whether files in the directory, except in the folder `apart_from`, differ from HEAD.

    Changes to tracked files and untracked Python files count; other untracked files (tickets, reports, logs) do not
    change what an audit measures.
    """
    where = ["."]
    folder, top = apart_from.resolve() if apart_from is not None else None, repository.top
    if folder is not None and folder.is_relative_to(top) and not repository.directory.resolve().is_relative_to(folder):
        where.append(f":(top,exclude,literal){folder.relative_to(top)}")
    status = run_git(repository.directory, "status", "--porcelain", "-z", "--untracked-files=all", "--", *where)
    entries = status.stdout.split("\0")
    return any(entry and (not entry.startswith("??") or entry.endswith(".py")) for entry in entries)


def check_out(repository: Repository, commit: str, private: Path, tree: Path) -> None:
    """Check out `commit` under `tree`, as a worktree of a new repository at `private`.

    The new repository borrows the audited one's objects, so nothing is written there: no `.git/worktrees` entry, no
    ref, no index, even if this process is killed. Raises BadInputError with git's message if the files cannot be
    written, as in a partial clone.
    """
    made = _add_worktree(repository, commit, private, tree)
    if made.returncode != 0:
        raise BadInputError(
            f"git could not check out {commit[:12]} of {repository.directory}: {made.stderr.strip()}",
            "a partial clone lacks files that were never fetched; git fetch --refetch brings them",
        )


def link_worktree(repository: Repository, commit: str, private: Path, tree: Path) -> None:
    """Make the empty folder `tree` a worktree of a new repository at `private`, as `check_out` does, without files.

    git works there as in the audited repository if it can; otherwise `tree` stays as it is.
    """
    if _add_worktree(repository, commit, private, tree, "--no-checkout").returncode == 0:
        run_git(tree, "read-tree", "HEAD")


def tracked_files(top: Path) -> list[str]:
    """Return the files in the index of the repository with the work tree `top`, by relative path."""
    return [name for name in run_git(top, "ls-files", "-z", "--cached").stdout.split("\0") if name]


def _add_worktree(
    repository: Repository, commit: str, private: Path, tree: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    object_format = run_git(repository.directory, "rev-parse", "--show-object-format").stdout.strip()
    kind = f"--object-format={object_format or 'sha1'}"
    made = run_git(private.parent, "init", "--quiet", "--bare", "--template=", kind, str(private))
    if made.returncode != 0:
        return made
    alternates = private / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.write_bytes(os.fsencode(repository.objects) + b"\n")
    add = ("worktree", "add", "--quiet", "--detach", *options, str(tree), commit)
    return run_git(private.parent, f"--git-dir={private}", *add)
