"""The source that tickets speak of: a git repository at a revision, its working tree, or a plain folder."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.probing.checkouts import git

_HASH = re.compile(r"[0-9a-f]{4,64}", re.IGNORECASE)
_LARGEST_FILE = 20_000_000  # bytes; no source that a ticket speaks of is larger
_FILE_MODES = ("100644", "100755")  # neither links nor submodules


def open_source_tree(checkout: Path, revision: str = "") -> GitTree | FolderTree:
    """The files of `checkout` at `revision`; without one those that lie there, ignored ones left out.

    A context manager: leaving it ends the git process that reads for it. Raises BadInputError where
    `checkout` is no folder, or is not in git while a revision is asked for, or has no such revision.
    """
    if not checkout.is_dir():
        raise BadInputError(f"no such directory: {checkout}", "a checkout is a directory, or DIR@REVISION")
    repository = git.find_repository(checkout)
    if repository is None:
        if revision:
            raise BadInputError(f"{checkout} is not a git repository, so it has no revision {revision!r}")
        return FolderTree(checkout, frozenset(_walk(checkout)))
    if not revision and not repository.has_work_tree:
        raise BadInputError(f"{checkout} has no working tree", f"name a revision: {checkout}@HEAD")
    commit = git.resolve_revision(repository, revision) if revision else ""
    return GitTree(repository, commit)


class FolderTree(contextlib.ExitStack):
    """A folder without git: it has files and no commits."""

    has_history = False

    def __init__(self, folder: Path, paths: frozenset[str]) -> None:
        super().__init__()
        self.folder = folder
        self.paths = paths
        self.lines = functools.cache(self._read_lines)

    def _read_lines(self, path: str) -> tuple[str, ...]:
        return _lines_of_file(self.folder / path) if path in self.paths else ()

    def has_commit(self, commit: str) -> bool:  # noqa: ARG002 - the protocol of a source tree
        return False

    def is_ancestor(self, commit: str) -> bool:  # noqa: ARG002 - the protocol of a source tree
        return False


class GitTree(contextlib.ExitStack):
    """A repository at `commit`, or its working tree where that is "".

    One `git cat-file` process answers for all files and commits; one `git rev-list` lists the history.
    """

    def __init__(self, repository: git.Repository, commit: str) -> None:
        super().__init__()
        self.folder = repository.directory
        self.commit = commit
        self.has_history = self._git("rev-parse", "--is-shallow-repository").strip() != "true"
        self._blobs = dict(self._committed_files()) if commit else {}
        self.paths = frozenset(self._blobs if commit else self._present_files())
        self.lines = functools.cache(self._read_lines)
        self._resolve = functools.cache(self._full_hash)
        self._reader: subprocess.Popen[bytes] | None = None

    def has_commit(self, commit: str) -> bool:
        return self._resolve(commit) != ""

    def is_ancestor(self, commit: str) -> bool:
        return self._resolve(commit) in self._history

    @functools.cached_property
    def _history(self) -> frozenset[str]:
        return frozenset(self._git("rev-list", self.commit or "HEAD").split())

    def _committed_files(self) -> Iterator[tuple[str, str]]:
        """Path and blob of every file of the commit, as seen from the folder."""
        for entry in self._git("ls-tree", "-rz", self.commit).split("\0"):
            head, _, path = entry.partition("\t")
            if head.split(" ")[0] in _FILE_MODES:
                yield path, head.split(" ")[2]

    def _present_files(self) -> Iterator[str]:
        listed = self._git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        return (path for path in listed.split("\0") if path and _is_file(self.folder / path))

    def _read_lines(self, path: str) -> tuple[str, ...]:
        if path not in self.paths:
            return ()
        if not self.commit:
            return _lines_of_file(self.folder / path)
        _, _, data = self._ask(self._blobs[path])
        return _lines(data)

    def _full_hash(self, commit: str) -> str:
        """The full hash of the commit that `commit` abbreviates, "" where there is none or more than one."""
        if _HASH.fullmatch(commit) is None:
            return ""
        full, kind, _ = self._ask(f"{commit}^{{commit}}")
        return full if kind == "commit" else ""

    def _ask(self, name: str) -> tuple[str, str, bytes]:
        """Hash, kind and content of an object; the kind is `missing` or `ambiguous` for none."""
        if self._reader is None:
            self._reader = git.start_git(self.folder, "cat-file", "--batch")
            self.callback(self._reader.communicate)
        assert self._reader.stdin is not None, "started with pipes"
        assert self._reader.stdout is not None, "started with pipes"
        self._reader.stdin.write(name.encode() + b"\n")
        self._reader.stdin.flush()
        answer = self._reader.stdout.readline().decode().split()
        if len(answer) != 3:
            return "", answer[-1] if answer else "missing", b""
        data = self._reader.stdout.read(int(answer[2]) + 1)[:-1]
        return answer[0], answer[1], data

    def _git(self, *arguments: str) -> str:
        return git.run_git(self.folder, *arguments).stdout


def _walk(folder: Path) -> Iterator[str]:
    """The files below a folder; hidden folders and caches are left out."""
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in files:
            path = Path(here, name)
            if _is_file(path):
                yield path.relative_to(folder).as_posix()


def _is_file(path: Path) -> bool:
    """Whether a file of its own lies there: a link may lead out of the checkout."""
    return path.is_file() and not path.is_symlink()


def _lines_of_file(path: Path) -> tuple[str, ...]:
    try:
        return _lines(path.read_bytes() if path.stat().st_size <= _LARGEST_FILE else b"")
    except OSError:
        return ()


def _lines(data: bytes) -> tuple[str, ...]:
    """The lines of a text, () for bytes that are none."""
    if b"\0" in data or len(data) > _LARGEST_FILE:
        return ()
    lines = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n")
    return tuple(lines[:-1] if lines[-1] == "" else lines)
