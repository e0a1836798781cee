"""git's merge driver for tickets: rows of the tables and reviews are merged one by one, all else as git does."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from auditkit.errors import BadInputError
from auditkit.git_process import run_git_bytes
from auditkit.probing.checkouts import git
from auditkit.store.edits.comments import align_comments
from auditkit.store.edits.merge import Aligned, align_rows, gather_reviews
from auditkit.store.folder import files
from auditkit.store.folder.files import create_file, replace_file
from auditkit.store.markdown.document import BrokenFileError, Document

DRIVER = "auditkit"
_PATTERN = "*.md"
_NAME = "tickets of auditkit, row by row"
# git merge-file ends with the number of conflicts, and with more than this after an error.
_MOST_CONFLICTS = 127


@dataclass(frozen=True)
class Merged:
    """How a merge ended: whether git has conflicts left, and the rows that both sides changed differently."""

    has_conflicts: bool
    rows: tuple[str, ...]


def merge_files(base: Path, ours: Path, theirs: Path, name: str = "", marker_size: int | None = None) -> Merged:
    """Merge what became of `base` in `ours` and in `theirs`, and write the result into `ours`.

    `name` is the ticket's path, for messages. Texts that are no tickets are merged as git merges them. Raises
    BadInputError where a file cannot be read, or git cannot merge them; StoreConflictError where the result
    cannot be written. `ours` is then as it was.
    """
    texts = Aligned(_read(base), _read(ours), _read(theirs))
    aligned = _aligned(texts, PurePath(name or ours))
    merged, conflicts = _merge_file(aligned, name or str(ours), marker_size)
    replace_file(ours, merged, texts.ours)
    return Merged(conflicts > 0, aligned.open)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {path}: {error.strerror}") from error


def _aligned(texts: Aligned, name: PurePath) -> Aligned:
    try:
        base, ours, theirs = (Document.parse(text, name) for text in (texts.base, texts.ours, texts.theirs))
        with contextlib.suppress(BadInputError):  # a review that would hide what is below it in ours
            ours, theirs = gather_reviews(base, ours, theirs)
        return align_rows(*align_comments(base, ours, theirs))
    except (BrokenFileError, BadInputError):
        return texts


def _merge_file(aligned: Aligned, name: str, marker_size: int | None) -> tuple[bytes, int]:
    with tempfile.TemporaryDirectory(prefix="auditkit-") as folder:
        sides = {"ours": aligned.ours, "base": aligned.base, "theirs": aligned.theirs}
        for side, text in sides.items():
            Path(folder, side).write_bytes(text)
        labels = [word for side in sides for word in ("-L", side)]
        size = [f"--marker-size={marker_size}"] if marker_size else []
        files = [str(Path(folder, side)) for side in sides]
        # Run where git stands, so that its merge.conflictStyle holds.
        done = run_git_bytes(Path(), "merge-file", "-p", "-q", *size, *labels, *files)
    if not 0 <= done.returncode <= _MOST_CONFLICTS:
        told = done.stderr.decode("utf-8", "replace").strip().removeprefix("error: ")
        raise BadInputError(f"git cannot merge {name}: {told}", "merge it by hand")
    return done.stdout, done.returncode


@dataclass(frozen=True)
class Installed:
    """The attributes file and the repository's settings, and which of them had to be written."""

    attributes: Path
    command: str
    is_new_line: bool
    is_new_setting: bool


def install(folder: Path) -> Installed:
    """Let git merge the tickets of `folder` with this program: a line in the folder's .gitattributes, and the
    repository's own configuration, which is not committed.

    Raises BadInputError where the folder is in no git repository, or git refuses.
    """
    repository = git.find_repository(folder)
    if repository is None or not repository.has_work_tree:
        raise BadInputError(f"{folder} is in no git repository", "git init")
    command = f"{shlex.quote(sys.executable)} -P -m auditkit ticket merge %O %A %B --path=%P --marker-size=%L"
    attributes = folder / ".gitattributes"
    is_new_line = _with_line(attributes, f"{_PATTERN} merge={DRIVER}")
    settings = {f"merge.{DRIVER}.name": _NAME, f"merge.{DRIVER}.driver": command}
    changed = [_set(folder, key, value) for key, value in settings.items()]
    return Installed(attributes, command, is_new_line, any(changed))


def _with_line(path: Path, line: str) -> bool:
    """Whether the line had to be written into the file."""
    if not path.exists():
        create_file(path, f"{line}\n".encode())
        return True
    old = path.read_bytes()
    if line.encode() in (known.strip() for known in old.splitlines()):
        return False
    gap = b"" if not old or old.endswith(b"\n") else b"\n"
    replace_file(path, old + gap + f"{line}\n".encode(), old)
    return True


def _set(folder: Path, key: str, value: str) -> bool:
    """Whether the setting had to be written."""
    if git.run_git(folder, "config", "--local", "--get", key).stdout.rstrip("\n") == value:
        return False
    if files.plan is not None:
        return True
    done = git.run_git(folder, "config", "--local", key, value)
    if done.returncode != 0:
        raise BadInputError(f"git does not set {key}: {done.stderr.strip()}")
    return True
