"""`no_sync()`: a block in which the host does not wait for the device."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any

from auditkit.model.enums import Evidence
from auditkit.testing.failures import Unused, failure, in_words, places, whole_number
from auditkit.testing.here import has_cuda, reads_its_toy

__tracebackhide__ = True  # pytest shows the test's own line


class no_sync:
    """A block that waits for the device at most `at_most` times: `with no_sync(): train_step(model, batch)`.

    With a GPU its runtime is asked. Without one, tensors on the CPU stand for those of a device: what is there before
    the block, and what is computed from it; what the block makes without naming a device is the host's. `count` is
    known when the block has ended. An exception of the block itself passes as it is.
    """

    def __init__(self, at_most: int = 0, *, root: str | Path | None = None) -> None:
        whole_number("at_most", at_most)
        self.count: int | None = None
        self._at_most = at_most
        self._root = Path(root or Path.cwd())
        self._block = contextlib.ExitStack()
        self._device = ""
        self._found: list[Any] = []
        self._unused = Unused("no_sync() is no block: write `with no_sync():`")

    def __enter__(self) -> no_sync:
        self._unused.use()
        self._device = "cuda" if has_cuda() else "cpu"
        reads_its_toy("syncs", self._device)
        from auditkit.probing.worker.base.frames import SourceRoots
        from auditkit.probing.worker.instruments.syncs import counting_syncs
        from auditkit.probing.worker.steps.host import on_host

        roots = SourceRoots(str(self._root))
        with contextlib.ExitStack() as entered:
            self._found = entered.enter_context(counting_syncs(self._device, roots, of_block=True))
            if self._device == "cpu":
                entered.enter_context(on_host())
            self._block = entered.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)
        if error is not None:
            return
        (counted,) = self._found
        self.count = counted.total
        if counted.total > self._at_most:
            times = "synchronisation" if counted.total == 1 else "synchronisations"
            evidence = Evidence.MEASURED if self._device == "cuda" else Evidence.SIMULATED
            allowed = f"at most {self._at_most}" if self._at_most else "none"
            raise failure(
                f"{counted.total} {times} in the block; {allowed} allowed",
                ("line", places(counted.sites, self._root)),
                ("evidence", in_words(evidence, self._device)),
            )
