"""Write files below a folder, without following a symbolic link on the way."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path, PurePosixPath

from auditkit.errors import BadInputError, StoreConflictError

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
    temporary = f".{name[:200]}.{secrets.token_hex(4)}"
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
