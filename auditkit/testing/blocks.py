"""`no_sync()` and `no_allocation()`: blocks in which the host does not wait, and in which torch allocates nothing."""

from __future__ import annotations

import contextlib
import functools
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from auditkit.model.enums import Evidence
from auditkit.testing.failures import GuardUnavailable, Unused, failure, in_words, places
from auditkit.testing.here import has_cuda

__tracebackhide__ = True  # pytest shows the test's own line

_SCALARS_BYTES = 1024
"""Python's numbers become tensors of 8 bytes, for which an allocator may give 512: no figure of a model's."""


class _Block:
    """A block that an instrument measures; an exception of the block itself passes as it is."""

    _instrument = ""

    def __init__(self, root: str | Path | None) -> None:
        self._root = Path(root or Path.cwd())
        self._block = contextlib.ExitStack()
        self._device = ""
        self._found: list[Any] = []
        name = type(self).__name__
        self._unused = Unused(f"{name}() is not a block: write `with {name}():`")

    def __enter__(self) -> Self:
        self._unused.use()
        self._device = "cuda" if has_cuda() else "cpu"
        _check(self._instrument, self._device)
        with contextlib.ExitStack() as entered:
            self._measure(entered)
            self._block = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)
        if error is None:
            self._judge()

    def _measure(self, entered: contextlib.ExitStack) -> None:
        """Enter what measures the block; its result will be in `_found`."""

    def _judge(self) -> None:
        """Raise GuardFailed if the block does not keep to its bound."""

    def _fail(self, headline: str, sites: list[Any], evidence: Evidence) -> None:
        lines, kind = places(sites, self._root), in_words(evidence, self._device)
        raise failure(headline, ("line", lines), ("evidence", kind))


@functools.cache
def _check(instrument: str, device: str) -> None:
    """Raise GuardUnavailable if an instrument misreads its toy in this process: its guard would pass anything."""
    from auditkit.worker.base.frames import SourceRoots
    from auditkit.worker.measure import selfcheck

    try:
        selfcheck.check(instrument, device, SourceRoots(os.sep))
    except selfcheck.SelfCheckError as error:
        raise GuardUnavailable(str(error)) from None


class no_sync(_Block):
    """A block that waits for the device at most `at_most` times: `with no_sync(): train_step(model, batch)`.

    With a GPU its runtime counts. Without one, tensors on the CPU stand for those of a device: what exists before
    the block, and what is computed from it; a tensor that the block makes without naming a device is the host's.
    `count` is known when the block has ended.
    """

    _instrument = "syncs"

    def __init__(self, at_most: int = 0, *, root: str | Path | None = None) -> None:
        super().__init__(root)
        self.count: int | None = None
        self._at_most = at_most

    def _measure(self, entered: contextlib.ExitStack) -> None:
        from auditkit.worker.base.frames import SourceRoots
        from auditkit.worker.measure.syncs import counting_syncs
        from auditkit.worker.steps.host import on_host

        roots = SourceRoots(str(self._root))
        self._found = entered.enter_context(counting_syncs(self._device, roots, of_block=True))
        if self._device == "cpu":
            entered.enter_context(on_host())

    def _judge(self) -> None:
        (counted,) = self._found
        self.count = counted.total
        if counted.total > self._at_most:
            times = "synchronization" if counted.total == 1 else "synchronizations"
            evidence = Evidence.MEASURED if self._device == "cuda" else Evidence.SIMULATED
            allowed = f"at most {self._at_most}" if self._at_most else "none"
            self._fail(f"{counted.total} {times} in the block; {allowed} allowed", counted.sites, evidence)


class no_allocation(_Block):
    """A block in which torch allocates nothing but scalars, measured on the CPU or the GPU."""

    _instrument = "memory"

    def __init__(self, *, root: str | Path | None = None) -> None:
        super().__init__(root)

    def _measure(self, entered: contextlib.ExitStack) -> None:
        from auditkit.worker.base.frames import SourceRoots
        from auditkit.worker.measure.memory import recording_peak

        self._found = entered.enter_context(recording_peak(self._device, SourceRoots(str(self._root))))

    def _judge(self) -> None:
        (peak,) = self._found
        if peak.peak_bytes > _SCALARS_BYTES:
            largest = [held.site for held in peak.live if held.site is not None][:1]
            self._fail(f"{peak.peak_bytes:,} bytes at the peak of the block; none allowed", largest, Evidence.MEASURED)
