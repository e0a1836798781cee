"""What is said while a job runs: a live line on a terminal, plain lines in a pipe; all of it on stderr."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from auditkit.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from auditkit.model.runs.run import ProbeResult
    from auditkit.model.runs.target import Target
    from auditkit.probing.run.measurement import Progress

_LONGEST = 60
"""Characters of what runs, so that the line fits into 80 columns."""


@contextlib.contextmanager
def progress(in_pipe: bool = False) -> Iterator[Progress]:
    """Print what is going on while the block runs: on a terminal always, elsewhere if `in_pipe`.

    In a pipe findings are named as soon as they reproduce, but for minor ones.
    """
    from auditkit.probing.run.measurement import Progress

    if sys.stderr.isatty():
        with _live() as told:
            yield told
    elif in_pipe:
        yield _plain()
    else:
        yield Progress()


def _plain() -> Progress:
    """Print a line when a target begins and when something was reproduced."""
    from auditkit.probing.run.measurement import Progress

    begun: dict[str, None] = {}
    known: list[Target] = []
    named: set[tuple[str, object]] = set()

    def begin(call: str, _: str) -> None:
        if call not in begun:
            begun[call] = None
            _say(f"checking {call} ({len(begun)} of {len({target.call for target in known})})")

    def finish(result: ProbeResult) -> None:
        if _is_news(result, named):
            _say(f"{result.severity}  {result.probe}  {result.target}")

    return Progress(targets_known=lambda targets, _: known.extend(targets), probe_started=begin, finished=finish)


def _say(line: str) -> None:
    complain(line)
    sys.stderr.flush()


def _is_news(result: ProbeResult, named: set[tuple[str, object]]) -> bool:
    """Whether a finding is named on the way: not a minor one, and one of a probe at a line once."""
    if result.severity is None or result.severity == "P4":
        return False
    key = (result.probe, result.location or result.target)
    is_known = key in named
    named.add(key)
    return not is_known


@contextlib.contextmanager
def _live() -> Iterator[Progress]:
    """Show one line: how much is done, how much reproduced, and what runs."""
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TextColumn, TimeElapsedColumn

    from auditkit.model.runs.target import short_target
    from auditkit.model.text import inert
    from auditkit.probing.run.measurement import Progress

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
