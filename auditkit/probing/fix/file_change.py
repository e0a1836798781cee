"""A changed file, its unified diff for `git apply`, and the changes that a diff makes."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from auditkit.errors import BadInputError
from auditkit.files import write_below
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout
from auditkit.probing.fix.patches import CannotComplete, text_of

_FILE = re.compile(r"^\+\+\+ (?:b/)?([^\t\n]+)")
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class FileChange:
    """The bytes of a file, relative to the checkout, before and after a change."""

    file: str
    before: bytes
    after: bytes

    def difference(self, prefix: str = "") -> str:
        """Return the unified diff, with paths below `prefix`, such as "sub/".

        Raises CannotComplete if it is not UTF-8.
        """
        path = prefix + self.file
        try:
            before, after = (_lines(content.decode("utf-8")) for content in (self.before, self.after))
        except UnicodeDecodeError:
            raise CannotComplete("would change a file that is not UTF-8, which no ticket can show") from None
        lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)

    @contextlib.contextmanager
    def put_into(self, copy: OpenCheckout) -> Iterator[OpenCheckout]:
        """Yield a copy of the checkout with the file changed, and restore the file at the end.

        Raises BadInputError for a link, which may lead out of the copy, and for a file with other bytes than `before`.
        """
        path = copy.path / self.file
        if not path.is_file() or path.read_bytes() != self.before:
            raise BadInputError(f"{self.file} changed while it was audited")
        try:
            write_below(copy.path, self.file, self.after)
            yield replace(copy, dirty=True)
        finally:
            write_below(copy.path, self.file, self.before)


def prefix_of(spec: CheckoutSpec) -> str:
    """Return the path from the top of the repository to the checkout, such as `sub/`; or ""."""
    repository = git.find_repository(spec.directory)
    return f"{repository.prefix}/" if repository is not None and repository.prefix else ""


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


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
