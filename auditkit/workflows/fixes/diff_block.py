"""A unified diff as a ticket shows it, applied to the files of a checkout."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from auditkit.probing.patching.fragments import CannotComplete
from auditkit.workflows.fixes.file_change import FileChange

DIFF = frozenset({"diff", "patch"})
_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)")
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


@dataclass(frozen=True)
class _Hunk:
    """Lines that a file has from about line `first` (1-based), and those that come in their place."""

    first: int
    old: tuple[str, ...]
    new: tuple[str, ...]

    def without_context(self) -> _Hunk:
        """Return the hunk from its first to its last changed line."""
        shorter = min(len(self.old), len(self.new))
        begin = next((n for n in range(shorter) if self.old[n] != self.new[n]), shorter)
        end = next((n for n in range(shorter - begin) if self.old[-1 - n] != self.new[-1 - n]), shorter - begin)
        return _Hunk(self.first + begin, self.old[begin : len(self.old) - end], self.new[begin : len(self.new) - end])


def changes_of(diff: str, checkout: Path, prefix: str = "") -> list[FileChange]:
    """What the diff makes of the checkout's files; its paths begin with `prefix`, the way from the repository's top.

    Lines may have moved, and others may have changed around them; their ends are the file's own. Raises
    CannotComplete where the text is no diff, names a file that is not there, or shows lines that are not in it.
    """
    changes = [_changed(file, hunks, checkout) for file, hunks in _hunks_by_file(diff, prefix).items()]
    if not changes:
        raise CannotComplete("is no unified diff")
    return changes


def _hunks_by_file(diff: str, prefix: str) -> dict[str, list[_Hunk]]:
    found: dict[str, list[_Hunk]] = {}
    file, lines = "", diff.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        if named := _FILE.match(line):
            file = named[1].strip().removeprefix(prefix)
            found[file] = []
        elif (begins := _HUNK.match(line)) and file:
            body = list(_body(lines[number + 1 :]))
            old = tuple(text[1:] for text in body if text[:1] != "+")
            new = tuple(text[1:] for text in body if text[:1] != "-")
            found[file].append(_Hunk(int(begins[1]), old, new))
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
        encoding, _ = tokenize.detect_encoding(io.BytesIO(before).readline)
        lines = io.TextIOWrapper(io.BytesIO(before), encoding).read().split("\n")
    except (SyntaxError, UnicodeError) as error:
        raise CannotComplete(f"changes {file}, which cannot be read: {error}") from None
    moved = 0
    for hunk in hunks:
        place = _place(hunk, lines, max(hunk.first - 1 + moved, 0))
        if place is None:
            # Another diff of this function may have changed the lines around: the changed ones alone have to be there.
            hunk = hunk.without_context()
            place = _place(hunk, lines, max(hunk.first - 1 + moved, 0)) if _is_only(hunk.old, lines) else None
        if place is None:
            raise CannotComplete(f"does not apply any more: {file} has other lines at {hunk.first}")
        lines[place : place + len(hunk.old)] = hunk.new
        moved = place - (hunk.first - 1) + len(hunk.new) - len(hunk.old)
    return FileChange.of(file, before, "\n".join(lines), encoding)


def _is_only(old: tuple[str, ...], lines: Sequence[str]) -> bool:
    """Return whether the file has these lines once; a hunk that only adds lines has none to find."""
    return bool(old) and sum(tuple(lines[n : n + len(old)]) == old for n in range(len(lines) - len(old) + 1)) == 1


def _place(hunk: _Hunk, lines: Sequence[str], expected: int) -> int | None:
    """Where the hunk's lines stand, the nearest to where they are expected."""
    last = len(lines) - len(hunk.old)
    for place in sorted(range(last + 1), key=lambda place: abs(place - expected)):
        if tuple(lines[place : place + len(hunk.old)]) == hunk.old:
            return place
    return None
