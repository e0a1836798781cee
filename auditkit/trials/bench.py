"""A copy of the checkout into which one fix after the other is put, to be run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from auditkit.errors import BadInputError
from auditkit.files import write_below
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.fix.file_change import FileChange


@dataclass(frozen=True)
class Bench:
    """The copy; what is put into it is taken out again."""

    opened: OpenCheckout

    @classmethod
    @contextlib.contextmanager
    def open(cls, spec: CheckoutSpec, interpreter: str | None) -> Iterator[Bench]:
        """A bench with the files of `spec`, gone at the end of the block. Raises as `open_copy` does."""
        with open_copy(spec, interpreter) as opened:
            yield cls(opened)

    @contextlib.contextmanager
    def holding(self, change: FileChange) -> Iterator[OpenCheckout]:
        """The copy with one file changed.

        Raises BadInputError for a file behind a link, which may lead out of the copy, and for one that is not what was
        audited any more.
        """
        path = self.opened.path / change.file
        if not path.is_file() or path.read_bytes() != change.before:
            raise BadInputError(f"{change.file} changed while it was audited")
        try:
            write_below(self.opened.path, change.file, change.after)
            yield replace(self.opened, dirty=True)
        finally:
            write_below(self.opened.path, change.file, change.before)
