"""What is said while a job runs: a live line on a terminal, plain lines in a pipe; all of it on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from auditkit.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.text import Text

    from auditkit.model.runs.run import ProbeResult
    from auditkit.model.runs.target import Target
    from auditkit.workflows.audit.measurement import Progress

_WIDTH = 80


@contextlib.contextmanager
def progress(findings: bool = False, in_pipe: bool = False, said: list[str] | None = None) -> Iterator[Progress]:
    """Told what is going on while the block runs, and says it: on a terminal always, elsewhere if `in_pipe`.

    `findings` names each thing that was reproduced as soon as it is, and says each note; these are added to `said`.
    """
    from auditkit.workflows.audit.measurement import Progress

    if sys.stderr.isatty():
        with _live(findings, said if said is not None else []) as told:
            yield told
    elif in_pipe:
        yield _plain(said if said is not None else [])
    else:
        yield Progress()


def _plain(said: list[str]) -> Progress:
    """A line for each note, when a target begins and when something was reproduced, each at once."""
    from auditkit.workflows.audit.measurement import Progress

    begun: dict[str, None] = {}
    known: list[Target] = []

    def begin(call: str, _: str) -> None:
        if call not in begun:
            begun[call] = None
            _say(f"asking {call} ({len(begun)} of {len({target.call for target in known})})")

    def finish(result: ProbeResult) -> None:
        if result.severity:
            _say(_finding(result))

    def note(text: str) -> None:
        said.append(text)
        _say(f"note: {text}")

    return Progress(
        targets_known=lambda targets, _: known.extend(targets), noted=note, probe_started=begin, finished=finish
    )


def _say(line: str) -> None:
    complain(line)
    sys.stderr.flush()


def _finding(result: ProbeResult) -> str:
    return f"{result.severity}  {result.probe}  {result.target}"


@contextlib.contextmanager
def _live(findings: bool, said: list[str]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from auditkit.model.text import inert
    from auditkit.workflows.audit.measurement import Progress

    console = Console(stderr=True, highlight=False)
    line = _Line(console if findings else None)

    def note(text: str) -> None:
        if findings:
            said.append(text)
            console.print(Text(inert(f"note: {text}")))

    with Live(get_renderable=line.text, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield Progress(
            targets_known=line.targets_known,
            noted=note,
            trying=lambda call: line.asks("trying", call),
            probe_started=lambda call, probe: line.asks(call.rpartition(":")[2], probe),
            reading=lambda probe: line.asks("reading the source:", probe),
            finished=line.finished,
        )


class _Line:
    """What is being asked, how much of it is done, and what came of it; findings go above it, where wanted."""

    def __init__(self, above: Console | None) -> None:
        self._above = above
        self._asked, self._done, self._found = "reading the checkout", 0, 0
        self._total: int | None = None
        self._began = time.monotonic()

    def targets_known(self, targets: Sequence[Target], probes: int) -> None:
        self._total, self._done = len(targets) * probes, 0

    def asks(self, what: str, of: str) -> None:
        self._asked = f"{what} {of}"

    def finished(self, result: ProbeResult) -> None:
        self._done += not result.is_of_source
        self._found += result.severity is not None
        if result.severity and self._above is not None:
            self._above.print(_cropped(_finding(result)))

    def text(self) -> Text:
        """The line as it is now: first what counts, then what is asked, as far as there is room."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        counts = f"{min(self._done, self._total)}/{self._total}  {self._found} reproduced  " if self._total else ""
        return _cropped(f"{minutes}:{seconds:02}  {counts}{self._asked}")


def _cropped(line: str) -> Text:
    """One inert line of at most 80 columns, and never more than the terminal has."""
    from rich.text import Text

    from auditkit.model.text import inert

    text = Text(inert(line).replace("\n", " "), no_wrap=True, overflow="ellipsis")
    text.truncate(_WIDTH, overflow="ellipsis")
    return text
