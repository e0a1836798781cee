"""The history in which a fix has to lie: what git says of the commits that a resolution names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import parse_checkout
from auditkit.probing.checkouts.git import is_ancestor


@dataclass(frozen=True)
class FixHistory:
    """Where commits are looked up: `DIR`, or `DIR@REV` whose history has to hold them; read only for a commit."""

    checkout: str | Path

    def problems(self, commits: Sequence[str]) -> Iterator[str]:
        """What git says against the commits: none of that name, or on no branch."""
        if not commits:
            return
        spec = parse_checkout(self.checkout)
        directory, revision = spec.directory, spec.revision
        repository = git.find_repository(directory)
        if repository is None:
            yield f"{directory} is in no git repository, so its commits cannot be looked up"
            return
        for commit in commits:
            found = git.run_git(repository.directory, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
            if found.returncode != 0:
                yield f"commit {commit} is not in {directory}"
            elif not _is_reachable(repository, found.stdout.strip(), revision):
                yield f"commit {commit} is not in the history of {revision or 'any branch'} of {directory}"

    def holds(self, commits: Sequence[str], revision: str) -> bool:
        """Whether a revision contains every one of `commits`."""
        repository = git.find_repository(parse_checkout(self.checkout).directory)
        return repository is not None and all(is_ancestor(repository, commit, revision) for commit in commits)


def _is_reachable(repository: git.Repository, commit: str, revision: str) -> bool:
    if is_ancestor(repository, commit, revision or "HEAD"):
        return True
    if revision:
        return False
    branches = git.run_git(repository.directory, "for-each-ref", "--count=1", f"--contains={commit}", "refs/heads")
    return bool(branches.stdout.strip())
