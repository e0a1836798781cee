"""One file with a change in it, byte for byte, and the unified diff of it that `git apply` takes."""

from __future__ import annotations

import codecs
import difflib
from dataclasses import dataclass

from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec
from auditkit.probing.patching.fragments import CannotComplete

_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True)
class FileChange:
    """What a file, named from the checkout, holds before and after a change."""

    file: str
    before: bytes
    after: bytes

    @classmethod
    def of(cls, file: str, before: bytes, text: str, encoding: str) -> FileChange:
        """The change to `text`, whose lines end as Python reads them: in the file they end as its own lines do.

        Raises CannotComplete where the text cannot be written so that every other line keeps its bytes.
        """
        encoding = _plain(encoding)
        try:
            ours = before.decode(encoding).split("\n")
            bare = [line.removesuffix("\r") for line in ours]
            theirs = text.split("\n")
            mark = "\ufeff" if bare[0].startswith("\ufeff") else ""
            if "\r" in "".join(bare):
                raise CannotComplete("would change a file whose lines end in a carriage return alone")
            theirs[0] = mark + theirs[0].removeprefix("\ufeff")
            end = "\r" if sum(line.endswith("\r") for line in ours) * 2 > len(ours) - 1 else ""
            after = "\n".join(_merged(ours, bare, theirs, end))
            return cls(file, before, after.encode(encoding))
        except (UnicodeError, LookupError) as error:
            raise CannotComplete(f"cannot be written as {encoding}: {error}") from None

    def difference(self, prefix: str = "") -> str:
        """The unified diff, its paths below `prefix`, such as "sub/". Raises CannotComplete where it is no UTF-8."""
        path = prefix + self.file
        try:
            before, after = (_lines(content.decode("utf-8")) for content in (self.before, self.after))
        except UnicodeDecodeError:
            raise CannotComplete("would change a file that is not UTF-8, which no ticket can show") from None
        lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}")
        return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}" for line in lines)


def prefix_of(spec: CheckoutSpec) -> str:
    """The way from the top of a checkout's repository to the checkout, such as `sub/`; "" at the top or without one."""
    repository = git.find_repository(spec.directory)
    return f"{repository.prefix}/" if repository is not None and repository.prefix else ""


def _merged(ours: list[str], bare: list[str], theirs: list[str], end: str) -> list[str]:
    """The lines of `theirs`; those that were there before keep their own ends, the others have `end`."""
    merged: list[str] = []
    for tag, i, j, k, m in difflib.SequenceMatcher(None, bare, theirs, autojunk=False).get_opcodes():
        merged += ours[i:j] if tag == "equal" else [line + end for line in theirs[k:m]]
    # What follows the last newline is no whole line.
    return [*merged[:-1], merged[-1].removesuffix("\r")]


def _lines(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _plain(encoding: str) -> str:
    """The encoding that keeps a byte order mark as a character."""
    return "utf-8" if codecs.lookup(encoding).name == "utf-8-sig" else encoding
