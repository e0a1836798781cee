"""Writes that happen whole or not at all, and say so when they did not."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.errors import StoreConflictError
from auditkit.files import write_below

_TEMP_SUFFIX = ".auditkit-tmp"
_OF_WRITER = re.compile(rf"\.(\d+)-[0-9a-f]+{re.escape(_TEMP_SUFFIX)}$")
# Where temporary files lie while the lock of a tickets folder is held: its side folder, which git ignores. Those
# of other writers lie beside what they write.
temporaries: Path | None = None
# How many files this process has put in place; a command whose output is lost afterwards has not failed.
written_count = 0


class ChangedMeanwhileError(StoreConflictError):
    """A file is not what it was when it was read; nothing was written."""


def changed_meanwhile(path: Path) -> ChangedMeanwhileError:
    return ChangedMeanwhileError(f"{path} changed on disk meanwhile; nothing was written", "run the command again")


@dataclass
class Plan:
    """What a dry run would have written, by absolute path: what a file held and would hold, None where it is not there.

    `moves` are the old paths of files that would have another name, `named` the files of folders by their stems.
    """

    before: dict[str, bytes | None] = field(default_factory=dict)
    after: dict[str, bytes | None] = field(default_factory=dict)
    moves: dict[str, str] = field(default_factory=dict)
    named: dict[Path, dict[str, list[Path]]] = field(default_factory=dict)

    def put(self, path: Path, data: bytes | None) -> None:
        """Remember that `path` would hold `data`."""
        name = os.path.abspath(path)
        self.before.setdefault(name, Path(name).read_bytes() if os.path.lexists(name) else None)
        self.after[name] = data


# What this process would have written, where it is not to write anything.
plan: Plan | None = None
# Told of each file before it is changed: its path, what it holds and what it is to hold, None where it is not there.
recorder: Callable[[Path, bytes | None, bytes | None], None] | None = None


@contextlib.contextmanager
def dry_run() -> Iterator[Plan]:
    """Within, nothing is written: what would be is in the plan, and is read as if it had been."""
    global plan
    plan = Plan()
    try:
        yield plan
    finally:
        plan = None


def is_dry_run() -> bool:
    """Whether this process is not to write anything."""
    return plan is not None


def read_planned(path: Path) -> bytes | None:
    """What a dry run would have written to the file, None where it has not touched it."""
    return plan.after.get(os.path.abspath(path)) if plan is not None else None


def read_bytes(path: Path) -> bytes:
    """What the file holds; in a dry run what it would hold by now."""
    planned = read_planned(path)
    return path.read_bytes() if planned is None else planned


def is_there(path: Path) -> bool:
    """Whether anything has that name; in a dry run whether it would have by now."""
    if plan is not None and (name := os.path.abspath(path)) in plan.after:
        return plan.after[name] is not None
    return os.path.lexists(path)


def replace_file(path: Path, data: bytes, expected: bytes) -> None:
    """Put `data` in the place of a file that still holds `expected`; its mode stays.

    Raises StoreConflictError when the file changed meanwhile, is a symbolic link, or cannot be written;
    it is then as it was.
    """
    with _write_errors(path):
        if plan is not None:
            if read_bytes(path) != expected:
                raise changed_meanwhile(path)
            plan.put(path, data)
            return
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            raise StoreConflictError(f"not a regular file, so it is not written: {path}")
        with _temporary(path, data) as temporary:
            os.chmod(temporary, stat.S_IMODE(status.st_mode))
            _keep_owner(temporary, status)
            if path.read_bytes() != expected:
                raise changed_meanwhile(path)
            _record(path, expected, data)
            os.replace(temporary, path)
        _note_written(path.parent)


def create_file(path: Path, data: bytes) -> None:
    """Write a new file, and its folder where that is missing.

    Raises StoreConflictError when something is there already, or when it cannot be written.
    """
    with _write_errors(path):
        if plan is not None:
            if is_there(path):
                raise StoreConflictError(f"{path} exists already", "run the command again")
            plan.put(path, data)
            return
        _make_folder(path.parent)
        with _temporary(path, data) as temporary:
            _record(path, None, data)
            _link_or_move(temporary, path)
        _note_written(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write a file that may be there already. Raises BadInputError for a link, else StoreConflictError."""
    if plan is not None:
        plan.put(path, data)
        return
    write_below(path.parent, path.name, data)
    _note_written(path.parent)


def create_files(contents: Mapping[Path, bytes]) -> None:
    """Write every new file, or none: what was written is taken back where another one cannot be."""
    folders = {folder for path in contents for folder in path.parents if not folder.exists()}
    made: list[Path] = []
    try:
        for path, data in contents.items():
            create_file(path, data)
            made.append(path)
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def move_file(path: Path, new: Path) -> None:
    """Give a file another name, and make its folder where that is missing; every byte and its mode stay.

    Raises StoreConflictError when something has the new name already, or when it cannot be moved.
    """
    with _write_errors(new):
        if plan is not None:
            if is_there(new):
                raise StoreConflictError(f"{new} exists already")
            plan.put(new, read_bytes(path))
            plan.moves[os.path.abspath(new)] = plan.moves.pop(os.path.abspath(path), os.path.abspath(path))
            plan.put(path, None)
            return
        _make_folder(new.parent)
        data = path.read_bytes() if recorder is not None else None
        _record(path, data, None)
        _record(new, None, data)
        _link_or_move(path, new)
        path.unlink(missing_ok=True)
        _note_written(new.parent, path.parent)


def remove_file(path: Path) -> None:
    """Take a file away. Raises StoreConflictError where it cannot be."""
    with _write_errors(path):
        if plan is not None:
            plan.put(path, None)
            return
        _record(path, path.read_bytes() if recorder is not None else None, None)
        path.unlink()
        _note_written(path.parent)


def ensure_writable(folder: Path) -> None:
    """Check that files can be written in `folder`, or where it would be made; leaves nothing behind.

    Raises StoreConflictError when they cannot.
    """
    existing = folder
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    with _write_errors(existing):
        if not existing.is_dir():
            raise NotADirectoryError(20, "Not a directory", str(existing))
        if plan is not None:
            return
        with _temporary(existing / "check", b"auditkit\n"):
            pass


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of writers that are gone; one that names none is an older release's."""
    if plan is not None:
        return
    for leftover in folder.glob(f".*{_TEMP_SUFFIX}"):
        writer = _OF_WRITER.search(leftover.name)
        if writer is None or not _is_running(int(writer[1])):
            with contextlib.suppress(OSError):
                leftover.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _record(path: Path, before: bytes | None, after: bytes | None) -> None:
    if recorder is not None:
        recorder(path, before, after)


@contextlib.contextmanager
def _temporary(path: Path, data: bytes) -> Iterator[Path]:
    """A new file with `data`, flushed to disk, which can be moved to `path`; gone afterwards unless moved."""
    temporary = _place_of_temporary(path.parent) / f".{path.name}.{os.getpid()}-{os.urandom(6).hex()}{_TEMP_SUFFIX}"
    # Mode 0o666 is cut by the umask here, as for any file that an editor makes.
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def _place_of_temporary(folder: Path) -> Path:
    with contextlib.suppress(OSError):
        if temporaries is not None and temporaries.stat().st_dev == folder.stat().st_dev:
            return temporaries
    return folder


def _link_or_move(temporary: Path, path: Path) -> None:
    """Give the file its name without overwriting another one; a link fails where a rename would not."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise StoreConflictError(f"{path} exists already; nothing was written", "run the command again") from None
    except OSError:
        # Some file systems have no hard links; the lock still keeps other auditkits away.
        if os.path.lexists(path):
            raise StoreConflictError(f"{path} exists already; nothing was written") from None
        os.rename(temporary, path)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _sync_folder(folder.parent)


def _keep_owner(temporary: Path, status: os.stat_result) -> None:
    made = temporary.stat()
    if (made.st_uid, made.st_gid) != (status.st_uid, status.st_gid):
        # Only a privileged user may give a file away; for others the new owner is the writer.
        with contextlib.suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)


def _note_written(*folders: Path) -> None:
    """Count a file that has its name now, and flush the folders: it is there even where that fails."""
    global written_count
    written_count += 1
    for folder in folders:
        with contextlib.suppress(OSError):
            _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """What the system refused, as an error that names the file and exits 4."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        named = str(error.filename or path)
        raise StoreConflictError(
            f"cannot write {path if named.endswith(_TEMP_SUFFIX) else named}: {reason}; nothing was changed",
            "check that the folder exists, is yours to write, and that the disk has room",
        ) from error
