"""What lies between two revisions: commits, and the files they changed."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.codec import Record


@dataclass(frozen=True)
class Commit(Record):
    """One commit: its full hash, author, date (YYYY-MM-DD) and whole message."""

    hash: str
    author: str
    date: str
    message: str

    @property
    def subject(self) -> str:
        return self.message.strip().partition("\n")[0]


@dataclass(frozen=True)
class FileChange(Record):
    """A file that differs, with how many lines were added and removed; None for both in a binary file.

    `old_path` is its name at the base, "" where it was not there; `path` "" where it is gone.
    """

    path: str
    old_path: str
    added: int | None
    removed: int | None

    @property
    def name(self) -> str:
        return self.path or self.old_path

    def describe(self) -> str:
        """`+8 -13`, or what else happened to it."""
        lines = "binary" if self.added is None else f"+{self.added} -{self.removed}"
        if not self.old_path:
            return f"{lines}, new"
        if not self.path:
            return f"{lines}, deleted"
        return lines if self.path == self.old_path else f"{lines}, renamed from {self.old_path}"


@dataclass(frozen=True)
class Changes(Record):
    """The commits from base to head, newest first, with files; both empty outside git."""

    commits: tuple[Commit, ...] = ()
    files: tuple[FileChange, ...] = ()
