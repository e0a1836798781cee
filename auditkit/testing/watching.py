"""`watch()`: a block of training whose steps are held to the laws of `auditkit run`."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from auditkit.testing.failures import GuardUnavailable, failure

if TYPE_CHECKING:
    from auditkit.live.watch import Watched
    from auditkit.model.runs.run import ProbeResult

__tracebackhide__ = True  # pytest shows the test's own line


class watch:
    """A block that trains: `with watch(optimizer) as seen: train()`.

    Every step of every optimizer in the block is inspected (`every` thins that out); those that exist before it may
    be named, and are found otherwise. When the block ends without an
    exception, a finding of `fail_on` or worse fails the test; with None the block only records, and `findings` are
    there to read. A block without an optimizer step is skipped.
    """

    def __init__(
        self,
        *optimizers: Any,
        every: int = 1,
        fail_on: str | None = "P2",
        root: str | Path | None = None,
    ) -> None:
        self._every, self._fail_on, self._root = every, fail_on, Path(root or Path.cwd())
        self._optimizers = optimizers
        self._process: Any = None
        self.watched: Watched | None = None

    @property
    def findings(self) -> list[ProbeResult]:
        """The broken laws, the worst first; empty until the block has ended."""
        return self.watched.findings if self.watched is not None else []

    def __enter__(self) -> watch:
        from auditkit.worker.watch.process import Process

        self._process = Process("", {"every": self._every, "memory_share": 1e6})
        if not self._process.watch():
            raise GuardUnavailable(self._process.reason)
        self._process.patches.take_imported()
        for optimizer in self._optimizers:
            self._process.watcher.program.optimizer(optimizer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from auditkit.live.command import Ended
        from auditkit.live.recording import Process, Recording
        from auditkit.live.watch import judge

        self._process.watcher.guarded("end", self._process.watcher.ended)
        self._process.patches.remove()
        process = Process(self._process.document(True))
        trained = (process,) if process.steps else ()
        self.watched = judge(Recording(trained, (process,), root=self._root), Ended(0))
        if error is not None or self._fail_on is None:
            return
        if not trained:
            raise GuardUnavailable("the block made no optimizer step")
        found = [each for each in self.findings if each.severity and str(each.severity) <= self._fail_on]
        broken = [f"{each.probe}: {each.message}" for each in self.watched.run.results if each.outcome.value == "error"]
        if found or broken:
            places = [f"{at.file}:{at.line}" if (at := each.location) else "" for each in found]
            facts = zip(found, places, strict=True)
            lines = [f"{each.severity} {each.probe} {at}: {each.message}" for each, at in facts]
            raise failure(f"{len(found)} laws are broken in the block", ("law", lines), ("error", broken))
