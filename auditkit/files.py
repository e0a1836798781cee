"""Write files below a folder, without following a symbolic link on the way; in a dry run only say so."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from auditkit.errors import BadInputError, StoreConflictError


@dataclass
class Plan:
    """What a dry run would write: the bytes of each file by its absolute path, before (None: no file) and after."""

    before: dict[Path, bytes | None] = field(default_factory=dict)
    after: dict[Path, bytes] = field(default_factory=dict)


plan: Plan | None = None
"""What this process would have written, if it runs dry."""


@contextlib.contextmanager
def dry_run() -> Iterator[Plan]:
    """Write nothing within the block: the plan collects what would be written."""
    global plan
    plan = Plan()
    try:
        yield plan
    finally:
        plan = None


def is_dry_run() -> bool:
    """Return whether this process writes nothing."""
    return plan is not None


def write_file(path: Path, data: bytes) -> None:
    """Replace or create one file that the user named. Raises as `write_below`."""
    write_below(path.absolute().parent, path.name, data)


def create_file(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, atomically: of several processes that create it, the first one wins.

    Raises StoreConflictError if it exists.
    """
    if os.path.lexists(path) or (plan is not None and path.absolute() in plan.after):
        raise StoreConflictError(f"{path} exists already; nothing was written")
    if plan is not None:
        write_file(path, data)
        return
    temporary = path.absolute().with_name(f".{path.name[:200]}.{os.urandom(4).hex()}")
    write_file(temporary, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise StoreConflictError(f"{path} exists already; nothing was written") from None
    except OSError:
        os.rename(temporary, path)  # a file system without hard links
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def create_files(contents: Mapping[Path, bytes]) -> None:
    """Write new files, all or none. Raises StoreConflictError before the first one if any of them exists."""
    for path in contents:
        if os.path.lexists(path):
            raise StoreConflictError(f"{path} exists already; nothing was written")
    with ExitStack() as if_it_fails:
        for path, data in contents.items():
            for folder in reversed([folder for folder in path.parents if not os.path.lexists(folder)]):
                if_it_fails.callback(_remove, os.rmdir, folder)
            create_file(path, data)
            if_it_fails.callback(_remove, os.unlink, path)
        if_it_fails.pop_all()


def _remove(remove: Callable[[Path], None], path: Path) -> None:
    with suppress(OSError):
        remove(path)


def ensure_writable(folder: Path) -> None:
    """Raise StoreConflictError if no file can be written in `folder`, or where it would be created."""
    existing = folder.absolute()
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise StoreConflictError(f"{existing} is not a folder")
    if plan is None:
        name = f".auditkit-{os.urandom(4).hex()}"
        write_below(existing, name, b"")
        with suppress(OSError):
            os.unlink(existing / name)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_below(root: Path, relative: str | PurePosixPath, data: bytes) -> None:
    """Replace `root/relative` by `data`, atomically, and create the folders in between.

    Each component below `root` is opened by descriptor with O_NOFOLLOW, so a link in a checkout cannot direct the
    write elsewhere. An existing file keeps its mode. After an error the old content is still there.

    Raises BadInputError for a path that leaves `root` or passes through a link, StoreConflictError if the system
    refuses the write (no permission, no space).
    """
    parts = PurePosixPath(relative).parts
    if not parts or ".." in parts or parts[0] == "/":
        raise BadInputError(f"{relative} is not a path below {root}")
    path = root / relative
    if plan is not None:
        name = path.absolute()
        plan.before.setdefault(name, path.read_bytes() if path.is_file() else None)
        plan.after[name] = data
        return
    try:
        root.mkdir(parents=True, exist_ok=True)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
                below = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
            _replace(folder, parts[-1], data)
        finally:
            os.close(folder)
    except _LinkError:
        raise BadInputError(f"{path} is a symbolic link", "auditkit writes no file through a link: remove it") from None
    except NotADirectoryError:
        raise BadInputError(
            f"{path} passes through a link or a file", "auditkit writes only below its folder"
        ) from None
    except OSError as error:
        if error.errno == errno.ENOMEM:  # not the fault of the file: the command line names the shortage
            raise
        raise StoreConflictError(f"{path} cannot be written: {error.strerror}") from error


class _LinkError(Exception):
    """The name to write is a symbolic link."""


def _replace(folder: int, name: str, data: bytes) -> None:
    """Write `data` to a temporary file in the open `folder`, sync it, and rename it to `name`."""
    mode = 0o666 & ~_umask()
    with suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise _LinkError
        mode = status.st_mode & 0o7777
    temporary = f".{name[:200]}.{os.urandom(4).hex()}"
    flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EBUSY):
            raise
        # In a sandbox an output file is a mount of its own: nothing can take its name, but it can be written.
        with os.fdopen(os.open(name, flags | os.O_TRUNC, dir_fd=folder), "wb") as file:
            file.write(data)


def _umask() -> int:
    """Read the umask; the system offers no way to read it without setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
