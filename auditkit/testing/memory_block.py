"""`no_allocation()`: a block that allocates nothing, or by a law in a size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.enums import Evidence
from auditkit.testing import growth as laws
from auditkit.testing.failures import Unused, failure, in_words, places
from auditkit.testing.here import has_cuda, reads_its_toy

__tracebackhide__ = True  # pytest shows the test's own line

_SCALARS_BYTES = 1024
"""Python's numbers become tensors of 8 bytes, for which an allocator may give 512: no figure of a model's."""
_FEWEST_SIZES = 3


class no_allocation:
    """A block in which torch allocates nothing but scalars; with `growth` one whose peak grows by that law.

    A law needs three sizes: `with no_allocation(growth="constant") as memory:`, and in it `with memory.at(size):`
    around what is measured. Then only those parts are. Measured, on the CPU or the GPU. `peaks` holds the bytes by
    size, 0 for the block itself; `law` is the growth.
    """

    def __init__(self, growth: str | None = None, *, root: str | Path | None = None) -> None:
        self.peaks: dict[int, int] = {}
        self.law = laws.known(growth)
        self._root = Path(root or Path.cwd())
        self._holders: dict[int, list[Any]] = {}
        self._block = contextlib.ExitStack()
        self._device = ""
        self._unused = Unused("no_allocation() is no block: write `with no_allocation():`")

    def __enter__(self) -> no_allocation:
        self._unused.use()
        self._device = "cuda" if has_cuda() else "cpu"
        reads_its_toy("memory", self._device)
        if self.law is None:
            with contextlib.ExitStack() as entered:
                entered.enter_context(self._recording(0))
                self._block = entered.pop_all()
        return self

    @contextlib.contextmanager
    def at(self, size: int) -> Iterator[None]:
        """The part of the block that is measured at one size."""
        if self.law is None or not self._device:
            raise BadInputError("sizes belong to a law", "with no_allocation(growth='constant') as memory: ...")
        with self._recording(size):
            yield

    @contextlib.contextmanager
    def _recording(self, size: int) -> Iterator[None]:
        from auditkit.probing.worker.base.frames import SourceRoots
        from auditkit.probing.worker.instruments.memory import recording_peak

        with recording_peak(self._device, SourceRoots(str(self._root))) as found:
            yield
        self.peaks[size], self._holders[size] = found[0].peak_bytes, found[0].live

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)
        if error is not None:
            return
        if self.law is None:
            if self.peaks[0] > _SCALARS_BYTES:
                raise self._failed(0, f"{self.peaks[0]:,} bytes at the peak of the block; none allowed", "")
            return
        if len(self.peaks) < _FEWEST_SIZES:
            sizes = ", ".join(map(str, self.peaks)) or "none"
            raise BadInputError(
                f"a law of growth needs {_FEWEST_SIZES} sizes; measured: {sizes}", "with memory.at(size): ... for each"
            )
        most = max(self.peaks)
        # A twentieth of what is there at the smallest size, and scalars, are no growth.
        spread = most - min(self.peaks)
        tolerance = (self.peaks[min(self.peaks)] / 20 + _SCALARS_BYTES) / spread
        if not laws.keeps(self.peaks, self.law, tolerance):
            head = f"{self.peaks[most]:,} bytes at the peak at size {most:,}; its growth is to be "
            law = f"bytes by size: {laws.listed(self.peaks)}"
            raise self._failed(most, head + laws.in_words(self.law), law)

    def _failed(self, size: int, head: str, law: str) -> AssertionError:
        largest = [held.site for held in self._holders[size] if held.site is not None][:1]
        line = places(largest, self._root)
        return failure(head, ("law", law), ("line", line), ("evidence", in_words(Evidence.MEASURED, self._device)))
