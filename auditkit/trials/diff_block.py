"""A unified diff as a ticket shows it, applied to the files of a checkout."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from auditkit.probing.fix.file_change import FileChange
from auditkit.probing.fix.patches import CannotComplete, text_of

DIFF = frozenset({"diff", "patch"})
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)")
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class _Hunk:
    """Lines of a diff with their marks, from about line `first` (1-based) of a file."""

    first: int
    lines: tuple[str, ...]

    @property
    def old(self) -> list[str]:
        """The lines that the file has."""
        return [line[1:] for line in self.lines if line[0] != "+"]


def changes_of(diff: str, checkout: Path, prefix: str = "") -> list[FileChange]:
    """What the diff makes of the checkout's files; its paths begin with `prefix`, the way from the repository's top.

    Lines may have moved; their ends are the file's own. Raises
    CannotComplete if the text is not a diff, names a missing file, or shows lines that the file does not have.
    """
    changes = [_changed(file, hunks, checkout) for file, hunks in _hunks_by_file(diff, prefix).items()]
    if not changes:
        raise CannotComplete("is not a unified diff")
    return changes


def _hunks_by_file(diff: str, prefix: str) -> dict[str, list[_Hunk]]:
    found: dict[str, list[_Hunk]] = {}
    file, lines = "", diff.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        if named := _FILE.match(line):
            file = named[1].strip().removeprefix(prefix)
            found[file] = []
        elif (begins := _HUNK.match(line)) and file:
            hunk = _Hunk(int(begins[1]), tuple(_body(lines[number + 1 :])))
            found[file] += [hunk] if any(line[0] != " " for line in hunk.lines) else []
    return {file: hunks for file, hunks in found.items() if hunks}


def _body(lines: Sequence[str]) -> Iterator[str]:
    """The lines of one hunk; an editor may have taken the blank from an empty line of context."""
    for number, line in enumerate(lines):
        is_last = not any(rest.strip() for rest in lines[number:])
        if is_last or line.startswith(("@@", "diff ", "--- ")):
            return
        if line[:1] in (" ", "+", "-", ""):
            yield line or " "


def _changed(file: str, hunks: Sequence[_Hunk], checkout: Path) -> FileChange:
    path = checkout / file
    if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts or not path.is_file():
        raise CannotComplete(f"changes {file}, which is not there")
    before = path.read_bytes()
    try:
        text, encoding, end = text_of(before)
    except (SyntaxError, UnicodeError) as error:
        raise CannotComplete(f"changes {file}, which cannot be read: {error}") from None
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = text.removeprefix(mark).split("\n")
    moved = 0
    for hunk in hunks:
        bare = [line.removesuffix("\r") for line in lines]
        place = _place(hunk, bare, max(hunk.first - 1 + moved, 0))
        if place is None:
            raise CannotComplete(f"no longer applies: {file} has other lines at {hunk.first}")
        new, there = [], iter(lines[place : place + len(hunk.old)])
        for line in hunk.lines:
            own = next(there) if line[0] != "+" else line[1:] + end.removesuffix("\n")
            new += [own] if line[0] != "-" else []
        lines[place : place + len(hunk.old)] = new
        moved = place - (hunk.first - 1) + len(new) - len(hunk.old)
    # The text after the last newline is not a complete line.
    lines[-1] = lines[-1].removesuffix("\r")
    return FileChange(file, before, (mark + "\n".join(lines)).encode(encoding))


def _place(hunk: _Hunk, lines: list[str], expected: int) -> int | None:
    """Where the hunk's lines stand, the nearest to where they are expected."""
    last = len(lines) - len(hunk.old)
    for place in sorted(range(last + 1), key=lambda place: abs(place - expected)):
        if lines[place : place + len(hunk.old)] == hunk.old:
            return place
    return None
