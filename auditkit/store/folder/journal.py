"""What commands write, kept with what was there before: to take the last one back, and to mend what a killed one left.

One command is kept, in the side folder, as lines of JSON: what was typed, then each file with its bytes before and
a digest of those after. A file is written down before it is changed, so that no kill leaves a change unaccounted for.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from auditkit.errors import AuditkitError, BadInputError, StoreConflictError
from auditkit.store.folder import files
from auditkit.store.folder.side_folder import SIDE_FOLDER

LAST = "last-command"
UNFINISHED = "unfinished-command"

Contents = Mapping[Path, bytes | None]
"""What files hold, None where there is none."""


@dataclass
class _Written:
    """One file of a command: what it held, and the digests of all that the command put there, "" for nothing."""

    before: bytes | None
    after: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Command:
    """What one command wrote: the words that were typed, when, and each file."""

    words: tuple[str, ...]
    time: str
    written: Mapping[Path, _Written]

    @property
    def typed(self) -> str:
        """As the user would type it again."""
        import shlex

        return shlex.join(["auditkit", *self.words])

    @property
    def before(self) -> dict[Path, bytes | None]:
        return {path: one.before for path, one in self.written.items()}


@contextlib.contextmanager
def recorded(folder: Path, session: str) -> Iterator[None]:
    """Keep account of what is written below `folder` meanwhile; only under the lock.

    Several locked sections with one name of their `session` are one command.
    """
    if files.is_dry_run():
        yield
        return
    mend(folder)
    files.recorder = _recorder(folder, session)
    try:
        yield
    finally:
        files.recorder = None


def write_together(folder: Path, before: Contents, after: Contents) -> None:
    """Write all files or none, also where the process is killed meanwhile; only under the lock.

    Raises ChangedMeanwhileError where a file is not what `before` says any more, and StoreConflictError where one
    cannot be written: every file is then as it was.
    """
    for path, data in before.items():
        if _held(path) != data:
            raise files.changed_meanwhile(path)
    journal = folder / SIDE_FOLDER / UNFINISHED
    lines = [_line(folder, path, before[path], data) for path, data in after.items()]
    try:
        _write_whole(journal, [_header(), *lines])
    except OSError as error:
        raise StoreConflictError(f"cannot write {journal}: {error.strerror}; nothing was changed") from error
    kept, files.recorder = files.recorder, None
    try:
        _put(after)
        os.replace(journal, journal.with_name(LAST))
    except BaseException:
        mend(folder)
        raise
    finally:
        files.recorder = kept


def mend(folder: Path) -> str:
    """Take back what a command wrote that was to write all or nothing and was killed; only under the lock.

    Returns what was done, in words, "" for nothing. Files that somebody else has changed since stay as they are.
    """
    journal = folder / SIDE_FOLDER / UNFINISHED
    if not journal.exists():
        return ""
    unfinished, told = _read(folder, UNFINISHED), ""
    if unfinished is not None:
        foreign = changed_since(unfinished)
        _put({path: data for path, data in unfinished.before.items() if path not in foreign})
        told = f"'{unfinished.typed}' was stopped in the middle of its work and is taken back"
        told += f", but not in {', '.join(map(str, foreign))}, changed since" if foreign else ""
    journal.unlink(missing_ok=True)
    return told


def mend_if_killed(folder: Path) -> str:
    """For commands that only read: `mend`, where such a command was killed and nobody holds the lock."""
    if not (folder / SIDE_FOLDER / UNFINISHED).exists() or files.is_dry_run():
        return ""
    from auditkit.store.folder.locks import locked

    # Who holds the lock is at work, and has not been killed; who cannot write, reads what is there.
    with contextlib.suppress(AuditkitError, OSError), locked(folder, 0):
        return mend(folder)
    return ""


def changed_since(command: Command) -> list[Path]:
    """The files of a command that hold neither what was there before it nor what it put there.

    A file that is moved holds for a moment at its new place what it held at its old one.
    """
    moved: dict[str, set[str]] = {}
    for path, one in command.written.items():
        moved.setdefault(path.name, set()).add(_digest(one.before))
    return [
        path
        for path, one in command.written.items()
        if _digest(_held(path)) not in (_digest(one.before), *one.after, *moved[path.name])
    ]


def take_back(folder: Path) -> Command:
    """Put back what the last command changed; only under the lock. Taking that back again repeats the command.

    Raises BadInputError where there is nothing to take back, and StoreConflictError where a file has changed since:
    nothing is written then.
    """
    command = _read(folder, LAST)
    if command is None:
        raise BadInputError(f"nothing to undo: no command of auditkit has written to {folder}")
    foreign = changed_since(command)
    if foreign:
        raise StoreConflictError(
            f"{foreign[0]} has changed since '{command.typed}'; nothing was taken back",
            "git diff shows what is there; the last command is only undone as a whole",
        )
    now = {path: _held(path) for path in command.written}
    if now == command.before:
        raise BadInputError(f"nothing to undo: '{command.typed}' left every file as it was")
    _write(folder, now, command.before)
    return command


def commit(folder: Path, plan: files.Plan) -> None:
    """Write what was planned, all or none; only under the lock. Raises as `write_together` does."""
    after = {Path(name): data for name, data in plan.after.items() if data != plan.before[name]}
    _write(folder, {path: plan.before[str(path)] for path in after}, after)


def _write(folder: Path, before: Contents, after: Contents) -> None:
    """`write_together`, and in a dry run its plan."""
    if files.is_dry_run():
        _put(after)
    elif after:
        write_together(folder, before, after)


def _put(contents: Contents) -> None:
    """Give each file what it is to hold. One that goes and one of its name that comes are one file that moves."""
    held = {path: _held(path) for path in contents}
    going = {path.name: path for path, data in contents.items() if data is None and held[path] is not None}
    for path, data in contents.items():
        if data is None or held[path] == data:
            continue
        old = held[path]
        if old is None and path.name in going:
            moved = going.pop(path.name)
            files.move_file(moved, path)
            old = held[moved]
        if old is None:
            files.create_file(path, data)
        elif old != data:
            files.replace_file(path, data, old)
    for path in going.values():
        files.remove_file(path)


def _recorder(folder: Path, session: str) -> Callable[[Path, bytes | None, bytes | None], None]:
    journal = folder / SIDE_FOLDER / LAST

    def record(path: Path, before: bytes | None, after: bytes | None) -> None:
        if not _is_ours(os.path.relpath(path, folder)):
            return
        lines = [_line(folder, path, before, after)]
        if _session_of(journal) == session:
            with open(os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "w", encoding="utf-8") as file:
                file.writelines(lines)
        else:
            _write_whole(journal, [_header(session), *lines], is_synced=False)

    return record


def _write_whole(journal: Path, lines: list[str], is_synced: bool = True) -> None:
    """Write the journal anew. A command of one file needs no flush to the disk: it is whole by itself."""
    journal.unlink(missing_ok=True)
    new = journal.with_name(f"{journal.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.writelines(lines)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())
    os.replace(new, journal)


def _header(session: str = "") -> str:
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return json.dumps({"session": session, "words": sys.argv[1:], "time": now}) + "\n"


def _line(folder: Path, path: Path, before: bytes | None, after: bytes | None) -> str:
    kept = base64.b64encode(before).decode() if before is not None else None
    return json.dumps({"path": os.path.relpath(path, folder), "before": kept, "after": _digest(after)}) + "\n"


def _session_of(journal: Path) -> str:
    try:
        with open(journal, encoding="utf-8") as file:
            return str(json.loads(file.readline())["session"])
    except (OSError, ValueError, KeyError):
        return ""


def _read(folder: Path, name: str) -> Command | None:
    """The command in a journal; a last line that a kill cut off is of a file that was not changed any more."""
    try:
        lines = (folder / SIDE_FOLDER / name).read_text("utf-8").split("\n")[:-1]
        header, *others = [json.loads(line) for line in lines]
        written: dict[Path, _Written] = {}
        for one in others:
            if not _is_ours(one["path"]) or _is_behind_link(folder, one["path"]):
                return None
            before = base64.b64decode(one["before"]) if one["before"] is not None else None
            kept = written.setdefault(folder / one["path"], _Written(before))
            kept.after.append(one["after"])
        return Command(tuple(map(str, header["words"])), str(header["time"]), written)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_behind_link(folder: Path, path: str) -> bool:
    return any((folder / parent).is_symlink() for parent in Path(path).parents)


def _held(path: Path) -> bytes | None:
    """What a file holds; a link holds nothing that is ours."""
    try:
        return files.read_bytes(path) if files.is_there(path) and not path.is_symlink() else None
    except OSError as error:
        raise StoreConflictError(f"cannot read {path}: {error.strerror}; nothing was changed") from error


def _digest(data: bytes | None) -> str:
    return hashlib.sha256(data).hexdigest() if data is not None else ""


def _is_ours(path: str) -> bool:
    """Whether a path from the tickets folder is one that a journal may speak of: a Markdown page that is listed.

    A repository may hold a journal that somebody else made up, and nothing but its own tickets is at its mercy.
    """
    parts = Path(path).parts
    return path.endswith(".md") and not os.path.isabs(path) and not any(part.startswith(".") for part in parts)
