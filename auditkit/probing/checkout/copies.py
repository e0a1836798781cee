"""A private copy of a checkout's files, which may be run and changed."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.text import listed
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import (
    CheckoutSpec,
    OpenCheckout,
    open_checkout,
    outermost_package,
    scratch_directory,
)
from auditkit.probing.checkout.reading import open_file

# For files that are neither tracked nor code: checkouts also contain datasets and checkpoints.
_LARGEST_DATA_BYTES = 16 << 20
_MOST_DATA_BYTES = 256 << 20
# For tracked files and code: a sparse file takes no space on disk, but its full size in a copy.
_LARGEST_FILE_BYTES = 1 << 30
_CODE = (".py", ".pyi", ".so", ".pyd")
_LEFT_OUT = ("__pycache__", "node_modules")
_PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def open_copy(spec: CheckoutSpec, python: str | Path | None = None) -> Iterator[OpenCheckout]:
    """Open the checkout in a separate writable directory, removed at the end of the block.

    A revision is a worktree as in `open_checkout`. Otherwise the files are copied, except untracked hidden folders and
    virtual environments; data that is too large is left out, and the notes say so. In a git repository the copy is a
    worktree of a private repository: git works there, and writes nothing to the original. Raises BadInputError as
    `open_checkout` does, and for a file that cannot be copied.
    """
    with open_checkout(spec, python) as opened:
        if opened.at_revision:
            yield opened
            return
        repository = git.find_repository(opened.path) if opened.revision else None
        top = repository.top if repository is not None else outermost_package(opened.path.resolve())
        with scratch_directory() as scratch:
            tree = scratch / "tree" / (top.name or "checkout")
            try:
                tree.mkdir(parents=True)
                if repository is not None:
                    git.link_worktree(repository, opened.revision, scratch / "repository.git", tree)
                copy = _Copy(top, tree)
                copy.take(set(git.tracked_files(top)) if repository is not None else set())
            except OSError as error:
                raise BadInputError(f"{error.filename or top} cannot be copied: {error.strerror or error}") from None
            path = tree / opened.path.resolve().relative_to(top)
            yield replace(opened, path=path, copied=(str(tree), str(top)), notes=opened.notes + copy.notes())


@dataclass
class _Copy:
    """Files to copy from `top` to `tree`."""

    top: Path
    tree: Path
    data_bytes: int = 0
    too_large: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def take(self, tracked: set[str]) -> None:
        """Copy tracked files and those that `walk` finds."""
        folders = {name.rpartition("/")[0] for name in tracked}
        # An index may name files behind a link to a folder outside.
        outside = {folder for folder in folders if not self._is_inside(os.path.realpath(self.top / folder))}
        for folder in folders - outside:
            os.makedirs(self.tree / folder, exist_ok=True)
        for name in tracked:
            if name.rpartition("/")[0] in outside:
                continue
            self._take_file(name, is_wanted=True)
        for entry, name in walk(self.top):
            if entry.is_dir(follow_symlinks=False):
                os.makedirs(self.tree / name, exist_ok=True)
            elif name not in tracked:
                self._take_file(name, is_wanted=name.endswith(_CODE))

    def _take_file(self, name: str, is_wanted: bool) -> None:
        source, copy = os.path.join(self.top, name), os.path.join(self.tree, name)
        try:
            found = os.lstat(source)
            if stat.S_ISLNK(found.st_mode):
                self._take_link(source, copy)
                return
            if not stat.S_ISREG(found.st_mode):
                return  # a submodule, a pipe
            if found.st_size <= _LARGEST_FILE_BYTES if is_wanted else self._has_space(found.st_size):
                _copy_file(source, copy)
                if found.st_mode & stat.S_IXUSR:
                    os.chmod(copy, stat.S_IMODE(found.st_mode) | stat.S_IWUSR)
            else:
                self.too_large.append(name)
        except FileNotFoundError as error:
            if error.filename != source:
                raise
            # deleted and not committed
        except PermissionError as error:
            if error.filename != source:
                raise
            self.unreadable.append(name)
        except OSError as error:
            if error.errno not in (None, errno.ELOOP):  # A pipe or a link has replaced it.
                raise

    def _take_link(self, source: str, copy: str) -> None:
        """Link to the same place in the copy, or to the original target outside the checkout, which is not copied."""
        target = os.path.realpath(source)
        if target != str(self.top) and self._is_inside(target):
            place = os.path.join(self.tree, os.path.relpath(target, self.top))
            target = os.path.relpath(place, os.path.dirname(copy))
        os.symlink(target, copy)

    def _is_inside(self, path: str) -> bool:
        return path == str(self.top) or path.startswith(f"{self.top}{os.sep}")

    def _has_space(self, size_bytes: int) -> bool:
        if size_bytes > _LARGEST_DATA_BYTES or self.data_bytes + size_bytes > _MOST_DATA_BYTES:
            return False
        self.data_bytes += size_bytes
        return True

    def notes(self) -> tuple[str, ...]:
        """Say what was left out, and why."""
        reasons = (
            (self.too_large, "too large to copy; --in-place audits the checkout where it lies"),
            (self.unreadable, "not readable"),
        )
        return tuple(f"left out of the copy: {listed(sorted(names), 3)}: {why}" for names, why in reasons if names)


def _copy_file(source: str, copy: str) -> None:
    with open_file(source, os.O_NOFOLLOW) as read, open(copy, "wb") as written:
        shutil.copyfileobj(read, written, _PIECE_BYTES)


def walk(top: Path, folder: str = "") -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield files and folders under `top` by relative name, without hidden folders, caches and virtual environments."""
    try:
        entries = sorted(os.scandir(top / folder), key=lambda entry: entry.name)
    except PermissionError:
        return
    if folder and any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        name = f"{folder}/{entry.name}" if folder else entry.name
        if not entry.is_dir(follow_symlinks=False):
            yield entry, name
        elif not entry.name.startswith(".") and entry.name not in _LEFT_OUT:
            yield entry, name
            yield from walk(top, name)


def written_since(top: Path, time_ns: int) -> list[str]:
    """Return the files under `top` that changed after `time_ns`, in nanoseconds since 1970."""
    files = ((entry, name) for entry, name in walk(top) if entry.is_file(follow_symlinks=False))
    return [name for entry, name in files if entry.stat(follow_symlinks=False).st_mtime_ns > time_ns]
