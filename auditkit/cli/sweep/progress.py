"""How a sweep goes: a table on a terminal, a line for each event in a pipe, or each event as JSON."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from auditkit.cli.output import complain, say, terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Group

    from auditkit.workflows.sweep.driver import Event

_MOST_RUNNING, _MOST_FAILED = 12, 6
_TOLD = ("answered", "again", "failed")


@contextlib.contextmanager
def shown(as_json: bool) -> Iterator[Callable[[Event], None]]:
    """Told of every event while the block runs: JSON goes to stdout, all else to stderr."""
    if as_json:
        yield _print_json
    elif sys.stderr.isatty():
        with _live() as told:
            yield told
    else:
        yield _log


def _print_json(event: Event) -> None:
    import json

    say(json.dumps(event.to_json()))
    sys.stdout.flush()


def _log(event: Event) -> None:
    if event.event in _TOLD:
        complain(line_of(event))
        sys.stderr.flush()


def line_of(event: Event) -> str:
    """`[12/150] failed  nanoGPT-...: no Python 3.9 (expected end 14:32)`."""
    why = f": {event.reason}" if event.reason else ""
    word = {"again": "is asked again", "answered": "answered", "failed": "failed"}[event.event]
    node = f" on {event.node}" if event.node and event.event == "again" else ""
    end = expected_end(event)
    return f"[{event.done + event.failed}/{event.planned}] {word}  {event.key}{node}{why}" + f" ({end})" * bool(end)


def expected_end(event: Event) -> str:
    """When it will be over, by what was done since this start; "" before anything was."""
    left = event.planned - event.done - event.failed
    if not left or not event.here:
        return ""
    left_s = left * event.seconds / event.here
    pattern = "%H:%M" if left_s < 64_800 else "%a %d %b %H:%M"
    return f"expected end {time.strftime(pattern, time.localtime(time.time() + left_s))}"


@contextlib.contextmanager
def _live() -> Iterator[Callable[[Event], None]]:
    from rich.console import Console
    from rich.live import Live

    board = Board()
    console = Console(stderr=True, highlight=False)
    with Live(get_renderable=board.shown, console=console, redirect_stdout=False, redirect_stderr=False):
        yield board.take


class Board:
    """What runs and since when, what failed last, and the counts."""

    def __init__(self) -> None:
        self._running: dict[str, float] = {}
        self._failed: list[str] = []
        self._last: Event | None = None

    def take(self, event: Event) -> None:
        """Note an event."""
        self._last = event
        if event.event == "running":
            self._running[event.key] = time.monotonic()
        elif event.event in _TOLD:
            self._running.pop(event.key, None)
        if event.event in ("again", "failed"):
            word = "again" if event.event == "again" else "failed"
            self._failed = [*self._failed, f"{word} {event.key}: {event.reason}"][-_MOST_FAILED:]

    def shown(self) -> Group:
        """The table as it is now."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        from auditkit.model.text import inert_line

        width = terminal_width(sys.stderr) or 80
        counts = Table(box=None, pad_edge=False, show_edge=False)
        last = self._last
        for name in ("done", "running", "failed", "waiting", "planned", "expected end"):
            counts.add_column(name, justify="right")
        if last is not None:
            waiting = last.planned - last.done - last.failed - last.running
            end = expected_end(last).removeprefix("expected end ")
            cells = (last.done, last.running, last.failed, waiting, last.planned, end or "-")
            counts.add_row(*map(str, cells))
        now = time.monotonic()
        running = [f"{_clock(now - since)} {key}" for key, since in list(self._running.items())[:_MOST_RUNNING]]
        more = len(self._running) - _MOST_RUNNING
        lines = [*running, *([f"and {more} more"] if more > 0 else []), *self._failed]
        return Group(counts, *(Text(inert_line(line)[:width], no_wrap=True) for line in lines))


def _clock(seconds: float) -> str:
    minutes, left = divmod(int(seconds), 60)
    return f"{minutes:3}:{left:02}"
