"""Where a job's code comes from: a folder, or a URL that is cloned once into the cache."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.git_process import fetch_with_git
from auditkit.probing.checkout import git
from auditkit.tickets.store import locked

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://|[\w.-]+@[\w.-]+:)\S+")
_CLONED_WITHIN_S = 3600.0


def text_of(folder: Path, revision: str, name: str) -> str | None:
    """Return the text of a file of the folder at a revision, "" for the folder as it is; None if it has none."""
    if not revision:
        path = folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    found = git.find_repository(folder)
    wanted = f"{revision}:{'./' if found is not None and found.has_work_tree else ''}{name}"
    content = git.read_objects(folder, [wanted]).get(wanted)
    return content.decode("utf-8", "replace") if content is not None else None


def is_url(repository: str) -> bool:
    """Whether git has to fetch it: `https://host/owner/name`, `git@host:owner/name`."""
    return _URL.fullmatch(repository) is not None


def short_name(repository: str) -> str:
    """Return `nanoGPT` of `https://host/karpathy/nanoGPT.git` and of a folder."""
    return re.split(r"[/:]", repository.rstrip("/"))[-1].removesuffix(".git") or "checkout"


def folder_of(repository: str, revision: str, cache: Path) -> Path:
    """Return the folder of a repository that has `revision`: itself, or a mirror in `cache`.

    Raises BadInputError if there is no such repository or revision, and if git cannot fetch it.
    """
    place = _mirror(repository, revision, cache) if is_url(repository) else Path(repository)
    _resolve_here(place, revision)
    return place


def resolve(repository: str, revision: str) -> str:
    """Return the full commit that `revision` ("" for the newest) names; "" for a folder outside git.

    Raises BadInputError if there is none.
    """
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", revision):
        return revision
    if not is_url(repository):
        return _resolve_here(Path(repository), revision)
    name = revision or "HEAD"
    done = fetch_with_git(Path.cwd(), "ls-remote", "--", repository, name, f"{name}^{{}}")
    if done.returncode != 0:
        raise BadInputError(f"git cannot read {repository}: {_why(done.stderr)}", "check the URL and the network")
    found = {ref: commit for commit, _, ref in (line.partition("\t") for line in done.stdout.splitlines())}
    best = [f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}", name]
    commit = next((found[ref] for ref in best if ref in found), "")
    if not commit:
        raise BadInputError(f"{repository} has no revision {revision!r}", "name a branch, a tag, or a whole commit")
    return commit


def _resolve_here(folder: Path, revision: str) -> str:
    if not folder.is_dir():
        raise BadInputError(f"no such directory: {folder}", "a checkout is a directory of this machine, or a URL")
    found = git.find_repository(folder)
    if found is None:
        if revision:
            raise BadInputError(f"{folder} is not in a git repository, so it has no revision {revision!r}")
        return ""
    if revision or not found.has_work_tree:
        return git.resolve_revision(found, revision or "HEAD")
    return git.current_revision(found)


def _mirror(url: str, revision: str, cache: Path) -> Path:
    """Return a bare clone of the URL that has `revision`; one process at a time makes or updates it."""
    name = f"{short_name(url)}-{hashlib.sha256(url.encode()).hexdigest()[:12]}.git"
    place = cache / "repositories" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked(cache / "locks" / name, _CLONED_WITHIN_S):
        if not (place / "HEAD").is_file():
            half = place.with_suffix(f".{os.getpid()}.half")
            try:
                done = fetch_with_git(place.parent, "clone", "--quiet", "--mirror", "--", url, str(half))
                if done.returncode != 0:
                    raise BadInputError(f"git cannot clone {url}: {_why(done.stderr)}", "check the URL and the network")
                half.rename(place)
            finally:
                shutil.rmtree(half, ignore_errors=True)
        elif not _has(place, revision):
            fetch_with_git(place, "fetch", "--quiet", "--prune", "origin")
        if not _has(place, revision):
            # A commit that no branch holds any more: the server may still send it by its name.
            fetch_with_git(place, "fetch", "--quiet", "origin", revision)
    return place


def _has(repository: Path, revision: str) -> bool:
    return git.run_git(repository, "cat-file", "-e", f"{revision}^{{commit}}").returncode == 0


def _why(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()] or ["git gave no reason"]
    return next((line for line in lines if line.startswith("fatal:")), lines[-1])
