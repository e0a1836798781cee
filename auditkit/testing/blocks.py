"""`no_sync()` and `no_allocation()`: blocks in which the host does not wait, and in which torch allocates nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from auditkit.errors import BadInputError
from auditkit.model.enums import Evidence
from auditkit.testing import growth as laws
from auditkit.testing.failures import GuardFailed, Unused, failure, in_words, places, whole_number
from auditkit.testing.here import has_cuda, reads_its_toy

__tracebackhide__ = True  # pytest shows the test's own line

_SCALARS_BYTES = 1024
"""Python's numbers become tensors of 8 bytes, for which an allocator may give 512: no figure of a model's."""
_FEWEST_SIZES = 3


class _Block:
    """A block that an instrument measures; an exception of the block itself passes as it is."""

    _instrument = ""

    def __init__(self, root: str | Path | None) -> None:
        self._root = Path(root or Path.cwd())
        self._block = contextlib.ExitStack()
        self._device = ""
        name = type(self).__name__
        self._unused = Unused(f"{name}() is not a block: write `with {name}():`")

    def __enter__(self) -> Self:
        self._unused.use()
        self._device = "cuda" if has_cuda() else "cpu"
        reads_its_toy(self._instrument, self._device)
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
        """Enter what measures the block."""

    def _judge(self) -> None:
        """Raise GuardFailed if the block does not keep to its bound."""


class no_sync(_Block):
    """A block that waits for the device at most `at_most` times: `with no_sync(): train_step(model, batch)`.

    With a GPU its runtime counts. Without one, tensors on the CPU stand for those of a device: what exists before
    the block, and what is computed from it; a tensor that the block makes without naming a device is the host's.
    `count` is known when the block has ended.
    """

    _instrument = "syncs"

    def __init__(self, at_most: int = 0, *, root: str | Path | None = None) -> None:
        whole_number("at_most", at_most)
        super().__init__(root)
        self.count: int | None = None
        self._at_most = at_most
        self._found: list[Any] = []

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
            raise failure(
                f"{counted.total} {times} in the block; {allowed} allowed",
                ("line", places(counted.sites, self._root)),
                ("evidence", in_words(evidence, self._device)),
            )


class no_allocation(_Block):
    """A block in which torch allocates nothing but scalars; with `growth` one whose peak grows by that law.

    A law needs three sizes: `with no_allocation(growth="constant") as memory:`, and in it `with memory.at(size):`
    around each part to measure. The numbers are measured, on the CPU or the GPU. `peaks` holds the bytes by size, 0
    for the block itself; `law` is the growth.
    """

    _instrument = "memory"

    def __init__(self, growth: str | None = None, *, root: str | Path | None = None) -> None:
        self.law = laws.known(growth)
        super().__init__(root)
        self.peaks: dict[int, int] = {}
        self._holders: dict[int, list[Any]] = {}

    def _measure(self, entered: contextlib.ExitStack) -> None:
        if self.law is None:
            entered.enter_context(self._recording(0))

    @contextlib.contextmanager
    def at(self, size: int) -> Iterator[None]:
        """Measure a part of the block at one size."""
        if self.law is None or not self._device:
            raise BadInputError("sizes belong to a law", "with no_allocation(growth='constant') as memory: ...")
        with self._recording(size):
            yield

    @contextlib.contextmanager
    def _recording(self, size: int) -> Iterator[None]:
        from auditkit.worker.base.frames import SourceRoots
        from auditkit.worker.measure.memory import recording_peak

        with recording_peak(self._device, SourceRoots(str(self._root))) as found:
            yield
        self.peaks[size], self._holders[size] = found[0].peak_bytes, found[0].live

    def _judge(self) -> None:
        if self.law is None:
            if self.peaks[0] > _SCALARS_BYTES:
                raise self._failed(0, f"{self.peaks[0]:,} bytes at the peak of the block; none allowed", "")
            return
        if len(self.peaks) < _FEWEST_SIZES:
            sizes = ", ".join(map(str, self.peaks)) or "none"
            raise BadInputError(
                f"a law of growth needs {_FEWEST_SIZES} sizes; measured: {sizes}", "with memory.at(size): ... for each"
            )
        least, most = min(self.peaks), max(self.peaks)
        # A twentieth of the bytes at the smallest size, and scalars, are no growth.
        tolerance = (self.peaks[least] / 20 + _SCALARS_BYTES) / (most - least)
        if not laws.keeps(self.peaks, self.law, tolerance):
            head = f"{self.peaks[most]:,} bytes at the peak at size {most:,}; its growth is to be "
            raise self._failed(most, head + laws.in_words(self.law), f"bytes by size: {laws.listed(self.peaks)}")

    def _failed(self, size: int, head: str, law: str) -> GuardFailed:
        largest = [held.site for held in self._holders[size] if held.site is not None][:1]
        line, evidence = places(largest, self._root), in_words(Evidence.MEASURED, self._device)
        return failure(head, ("law", law), ("line", line), ("evidence", evidence))
