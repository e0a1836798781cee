"""Progress of a job on stderr: one live line on a terminal, a line for each target in a pipe."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence

from auditkit.cli.output import complain
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target, short_target
from auditkit.model.text import inert
from auditkit.probing.run.measurement import Progress

_LONGEST = 60
"""Characters of what runs, so that the line fits into 80 columns."""


@contextlib.contextmanager
def progress(in_pipe: bool = False) -> Iterator[Progress]:
    """Print what is going on while the block runs: on a terminal always, elsewhere if `in_pipe`."""
    if not sys.stderr.isatty():
        yield _plain() if in_pipe else Progress()
        return
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TextColumn, TimeElapsedColumn

    console = Console(stderr=True, highlight=False)
    columns = (TimeElapsedColumn(), TextColumn("{task.fields[counts]}"), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
        task = bar.add_task("reading the checkout", total=None, counts="")
        done = {"results": 0, "found": 0, "planned": 0}

        def run(what: str) -> None:
            bar.update(task, description=inert(what).replace("\n", " ")[:_LONGEST])

        def begin(targets: Sequence[Target], probes: int) -> None:
            done.update(planned=len(targets) * probes, results=0)

        def finish(result: ProbeResult) -> None:
            done["results"] += not result.is_of_source
            done["found"] += result.severity is not None
            count = min(done["results"], done["planned"])
            bar.update(task, counts=f"{count}/{done['planned']}  {done['found']} reproduced")

        yield Progress(
            targets_known=begin,
            trying=lambda call: run(f"trying {call}"),
            probe_started=lambda call, probe: run(f"{probe} on {short_target(call)}"),
            reading=lambda probe: run(f"reading the source: {probe}"),
            finished=finish,
        )


def _plain() -> Progress:
    """Print a line when a target begins."""
    waiting: list[str] = []
    begun: dict[str, None] = {}

    def begin(call: str, _: str) -> None:
        if call not in begun:
            begun[call] = None
            complain(f"checking {call} ({len(begun)} of {len(set(waiting))})")
            sys.stderr.flush()

    return Progress(targets_known=lambda targets, _: waiting.extend(one.call for one in targets), probe_started=begin)
