"""A fix that was run: a change of the audited code with which its findings do not reproduce and nothing got worse."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.codec import Record


@dataclass(frozen=True)
class FixRow(Record):
    """One probe's result without the fix and with it, as the cells of a table: `P2 reproduced (3n+1)`."""

    probe: str
    base: str
    patched: str


@dataclass(frozen=True)
class Fix(Record, keys="target file function difference changes mends rows device torch"):
    """A change of one function that was run in its place, and is sufficient for every finding that it fixes.

    `target` was called, `function` in `file` was changed; `difference` is the unified diff that `git apply` takes at
    the audited revision, `changes` says of each change what it does. `mends` are fingerprints of findings; `rows` are
    these findings' probes and every other probe whose law or outcome changed. `device` and `torch` are those
    that it ran on.
    """

    target: str
    file: str
    function: str
    difference: str
    changes: tuple[str, ...]
    mends: tuple[str, ...]
    rows: tuple[FixRow, ...]
    device: str
    torch: str
