"""Where a job's code comes from: a folder that is here, or a URL that is cloned once and never asked again."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.git_process import fetch_with_git
from auditkit.probing.checkout import git

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:)\S+")


class NoCodeError(BadInputError):
    """A repository or a revision of it that is not there, or not any more."""


@dataclass(frozen=True)
class Code:
    """One revision of the repository in a folder; the folder as it lies for a revision of ""."""

    folder: Path
    revision: str

    def text_of(self, name: str) -> str | None:
        """What a file of it holds; None where it has none of that name."""
        if not self.revision:
            path = self.folder / name
            return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        found = git.find_repository(self.folder)
        asked = f"{self.revision}:{'./' if found is not None and found.has_work_tree else ''}{name}"
        held = git.read_objects(self.folder, [asked]).get(asked)
        return held.decode("utf-8", "replace") if held is not None else None


def is_url(repository: str) -> bool:
    """Whether git has to fetch it: `https://host/owner/name`, `git@host:owner/name`."""
    return _URL.fullmatch(repository) is not None


def short_name(repository: str) -> str:
    """`nanoGPT` of `https://host/karpathy/nanoGPT.git` and of a folder."""
    return re.split(r"[/:]", repository.rstrip("/"))[-1].removesuffix(".git") or "checkout"


def folder_of(repository: str, revision: str, clones: Path | None, cache: Path) -> Path:
    """The folder that holds a repository with `revision`: itself, a clone under `clones`, or a mirror in `cache`.

    Raises NoCodeError where it has no such revision, where it is not there, or where git cannot fetch it.
    """
    near = clones / short_name(repository) if clones is not None and is_url(repository) else None
    if near is not None and near.is_dir():
        place = near
    elif is_url(repository):
        place = _mirror(repository, revision, cache)
    else:
        place = Path(repository)
        if not place.is_dir():
            raise NoCodeError(f"no such directory: {repository}", "a plan names folders of the machine it runs on")
    found = git.find_repository(place) if revision else None
    if revision and found is None:
        raise NoCodeError(f"{place} is no git repository any more, so it has no revision {revision[:12]}")
    if found is not None:
        try:
            git.resolve_revision(found, revision)
        except BadInputError as error:
            raise NoCodeError(error.message, error.hint) from None
    return place


def resolve(repository: str, revision: str, clones: Path | None) -> str:
    """The full commit that `revision` ("" for the newest) names in a folder or at a URL; "" for a folder outside git.

    Raises BadInputError where there is none.
    """
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", revision):
        return revision
    near = clones / short_name(repository) if clones is not None and is_url(repository) else None
    if is_url(repository) and not (near is not None and near.is_dir()):
        return _resolve_remote(repository, revision)
    folder = near or Path(repository)
    if not folder.is_dir():
        raise BadInputError(f"no such directory: {folder}", "a checkout is a directory, or the URL of a repository")
    found = git.find_repository(folder)
    if found is None:
        if revision:
            raise BadInputError(f"{folder} is not in a git repository, so it has no revision {revision!r}")
        return ""
    if revision or not found.has_work_tree:
        return git.resolve_revision(found, revision or "HEAD")
    return git.current_revision(found)


def _resolve_remote(url: str, revision: str) -> str:
    name = revision or "HEAD"
    answer = fetch_with_git(Path.cwd(), "ls-remote", "--", url, name, f"{name}^{{}}")
    if answer.returncode != 0:
        raise BadInputError(f"git cannot ask {url}: {_why(answer.stderr)}", "check the URL and the network")
    lines = [line.split("\t", 1) for line in answer.stdout.splitlines() if "\t" in line]
    found = {ref: commit for commit, ref in lines}
    best = [f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}", name]
    commit = next((found[ref] for ref in best if ref in found), "")
    if not commit:
        hint = "name a branch or a tag; of a commit all its digits"
        raise BadInputError(f"{url} has no revision {revision!r}", hint)
    return commit


def _mirror(url: str, revision: str, cache: Path) -> Path:
    """A bare clone of the URL that has `revision`, made or fetched where it is missing; one process at a time."""
    digest = hashlib.sha256(url.encode()).hexdigest()[:12]
    place = cache / "repositories" / f"{short_name(url)}-{digest}.git"
    with locked_file(place.with_suffix(".lock")):
        if not (place / "HEAD").is_file():
            half = place.with_suffix(f".{os.getpid()}.half")
            try:
                answer = fetch_with_git(place.parent, "clone", "--quiet", "--mirror", "--", url, str(half))
                if answer.returncode != 0:
                    hint = "check the URL and the network; --clones DIR names folders that are here"
                    raise NoCodeError(f"git cannot clone {url}: {_why(answer.stderr)}", hint)
                half.rename(place)
            finally:
                shutil.rmtree(half, ignore_errors=True)
        elif not _has(place, revision):
            fetch_with_git(place, "fetch", "--quiet", "--prune", "origin")
        if not _has(place, revision):
            # A commit that no branch holds any more, but that the server may still give to who knows its name.
            fetch_with_git(place, "fetch", "--quiet", "origin", revision)
    return place


def _has(repository: Path, revision: str) -> bool:
    return git.run_git(repository, "cat-file", "-e", f"{revision}^{{commit}}").returncode == 0


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold a lock file, as long as that takes; it goes with its holder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _why(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()] or ["no word from git"]
    return next((line for line in lines if line.startswith("fatal:")), lines[-1])
