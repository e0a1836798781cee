"""A changed file, and its unified diff for `git apply`."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from auditkit.errors import BadInputError
from auditkit.files import write_below
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout
from auditkit.probing.fix.patches import CannotComplete

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
