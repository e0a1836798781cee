"""What is said while a job runs: a live line on a terminal, plain lines in a pipe; all of it on stderr."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from auditkit.cli.output import complain, fitted, terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Group
    from rich.text import Text

    from auditkit.model.runs.run import ProbeResult
    from auditkit.model.runs.target import Target
    from auditkit.probing.run.measurement import Progress

_WIDTH = 80
_MOST_FINDINGS = 8


@contextlib.contextmanager
def progress(findings: bool = False, in_pipe: bool = False, said: list[str] | None = None) -> Iterator[Progress]:
    """Told what is going on while the block runs, and says it: on a terminal always, elsewhere if `in_pipe`.

    `findings` names what was reproduced as soon as it is, but for what is minor, and says each note; these are added
    to `said`. A terminal forgets the findings when the block ends: the report of the run has them all.
    """
    from auditkit.probing.run.measurement import Progress

    if sys.stderr.isatty():
        with _live(findings, said if said is not None else []) as told:
            yield told
    elif in_pipe:
        yield _plain(said if said is not None else [])
    else:
        yield Progress()


def _plain(said: list[str]) -> Progress:
    """A line for each note, when a target begins and when something was reproduced, each at once."""
    from auditkit.probing.run.measurement import Progress

    begun: dict[str, None] = {}
    known: list[Target] = []
    named: set[tuple[str, object]] = set()

    def begin(call: str, _: str) -> None:
        if call not in begun:
            begun[call] = None
            _say(f"asking {call} ({len(begun)} of {len({target.call for target in known})})")

    def finish(result: ProbeResult) -> None:
        if _is_news(result, named):
            _say(f"{result.severity}  {result.probe}  {result.target}")

    def note(text: str) -> None:
        said.append(text)
        _say(f"note: {text}")

    return Progress(
        targets_known=lambda targets, _: known.extend(targets), noted=note, probe_started=begin, finished=finish
    )


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
def _live(findings: bool, said: list[str]) -> Iterator[Progress]:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from auditkit.model.runs.target import short_target
    from auditkit.model.text import inert
    from auditkit.probing.run.measurement import Progress

    console = Console(stderr=True, highlight=False)
    line = LiveLine(_MOST_FINDINGS if findings else 0)

    def note(text: str) -> None:
        if findings:
            said.append(text)
            console.print(Text(inert(fitted(f"note: {text}", terminal_width(sys.stderr)))))

    with Live(get_renderable=line.shown, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        told = Progress(
            targets_known=line.targets_known,
            noted=note,
            trying=lambda call: line.asks(f"trying {call}"),
            probe_started=lambda call, probe: line.asks(f"{probe} on {short_target(call)}"),
            reading=lambda probe: line.asks(f"reading the source: {probe}"),
            finished=line.finished,
        )
        try:
            yield told
        except BaseException:
            # No report will have them.
            for found in line.findings if findings else ():
                console.print(_cropped(found), no_wrap=True, overflow="ellipsis")
            raise


class LiveLine:
    """What is being asked, how much of it is done, and what came of it; the latest `most` findings go above it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._asked, self._done, self._found = "reading the checkout", 0, 0
        self._total: int | None = None
        self._began = time.monotonic()
        self._named: set[tuple[str, object]] = set()
        self.findings: list[str] = []

    def targets_known(self, targets: Sequence[Target], probes: int) -> None:
        self._total, self._done = len(targets) * probes, 0

    def asks(self, what: str) -> None:
        self._asked = what

    def finished(self, result: ProbeResult) -> None:
        from auditkit.model.runs.target import short_target

        self._done += not result.is_of_source
        self._found += result.severity is not None
        if _is_news(result, self._named):
            self.findings.append(f"{result.severity}  {result.probe}  {short_target(result.target)}")

    def shown(self) -> Group:
        """The findings and the line as they are now: first what counts, then what is asked, as far as they fit."""
        from rich.console import Group

        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        counts = f"{min(self._done, self._total)}/{self._total}  {self._found} reproduced  " if self._total else ""
        latest = self.findings[-self._most :] if self._most else []
        return Group(*map(_cropped, [*latest, f"{minutes}:{seconds:02}  {counts}{self._asked}"]))


def _cropped(line: str) -> Text:
    """One inert line of at most 80 columns, and never more than the terminal has."""
    from rich.text import Text

    from auditkit.model.text import inert

    text = Text(inert(line).replace("\n", " "), no_wrap=True, overflow="ellipsis")
    text.truncate(_WIDTH, overflow="ellipsis")
    return text
