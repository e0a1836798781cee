"""How a finished run is shown: lines for people, one JSON document for programs, progress while it runs."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from auditkit.cli.common import complain, say, say_json, wants_colour

if TYPE_CHECKING:
    from auditkit.model.enums import Severity
    from auditkit.model.run import ProbeResult, Run, TargetReading
    from auditkit.workflows.audit import AuditRequest, Progress

_COLOURS = {"P0": "bright_red", "P1": "red", "P2": "yellow", "P3": "cyan", "P4": "bright_black"}


def run_and_finish(request: AuditRequest, fail_on: Severity, as_json: bool, verbose: bool) -> None:
    """Run the audit with progress, print it, and end with its exit code."""
    from auditkit.workflows.audit import audit, exit_code, load_failure

    with progress_on_terminal() as progress:
        run = audit(request, progress)
    if as_json:
        say_json(run.to_json())
    else:
        print_run(run, request.tickets, verbose)
    for note in run.notes:
        complain(f"note: {note}")
    failure = load_failure(run)
    if failure is not None:
        complain(f"error: {failure.message}")
    raise typer.Exit(int(exit_code(run, fail_on)))


def print_run(run: Run, tickets: Path | None, verbose: bool = False) -> None:
    """The run as text: a block for each target, its findings first, and a summary.

    `verbose` names the probes that reproduced nothing, and how each target was fed and read.
    """
    environment = run.environment
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    dirty = " with uncommitted changes" if environment.dirty else ""
    torch = f"torch {environment.torch}, " if environment.torch else ""
    say(f"{environment.checkout}{revision}{dirty}: {torch}{_devices(run)}")
    for target in dict.fromkeys(result.target for result in run.results):
        say("")
        say(target)
        for reading in run.targets:
            if reading.target.call == target and (reading.found or verbose):
                say(f"  {_how_it_is_read(reading)}")
        _print_target([result for result in run.results if result.target == target], verbose)
    say("")
    _print_summary(run, tickets)


def _how_it_is_read(reading: TargetReading) -> str:
    """What trying the target showed: how it is fed, what it returns, which field is which."""
    target = reading.target
    takes = target.takes.value if target.takes else "nothing known"
    parts = [target.contract.value if target.contract else "no contract", f"takes {takes}"]
    parts += [f"set up by {target.setup}"] if target.setup else []
    parts += [f"finished by {target.finish}"] if target.finish else []
    parts += [f"{name}={value}" for name, value in target.arguments.items()]
    roles = ", ".join(f"{role}: {path or 'the answer'}" for role, path in reading.roles.items())
    return ", ".join(parts) + f"; returns {reading.answer or 'nothing'}" + (f" ({roles})" if roles else "")


def _devices(run: Run) -> str:
    """Where the numbers come from, in one phrase."""
    used = {result.device for result in run.results if result.measurements}
    words = {"cuda": run.environment.device_name, "cpu": "measured on the CPU", "simulated": "device traffic simulated"}
    return ", ".join(words[device] for device in ("cuda", "cpu", "simulated") if device in used) or "nothing measured"


def _print_target(results: list[ProbeResult], verbose: bool) -> None:
    findings = sorted((r for r in results if r.severity), key=lambda r: (str(r.severity), r.probe))
    for result in findings:
        where = f"{result.location.file}:{result.location.line}" if result.location else "no line"
        ticket = f"  {result.ticket} {result.ticket_action}" if result.ticket else ""
        evidence = result.evidence.value if result.evidence else ""
        say_severity(str(result.severity), f"{result.probe}  {where}  {evidence}{ticket}")
        say(f"      {result.message}")
    for line in _without_answer(results):
        say(f"  {line}")
    for line in _without_finding(results, verbose):
        say(f"  {line}")


def _without_answer(results: list[ProbeResult]) -> list[str]:
    """Errors and missing devices, each reason once with the probes that it stopped."""
    stopped: dict[str, list[str]] = {}
    causes: dict[str, str] = {}
    for result in results:
        if result.outcome.value in ("error", "unavailable"):
            reason = f" ({result.reason.value})" if result.reason else ""
            stopped.setdefault(result.message, []).append(result.probe)
            causes[result.message] = f"{result.outcome.value}{reason}"
    lines = []
    for message, probes in stopped.items():
        named = probes[0] if len(probes) == 1 else f"{len(probes)} probes"
        lines.append(f"{causes[message]}  {named}: {message}")
    return lines


def _without_finding(results: list[ProbeResult], verbose: bool) -> list[str]:
    """What did not reproduce and what does not apply: counted in one line, or named in two."""
    named = {
        label: sorted(result.probe for result in results if result.outcome.value == label.replace(" ", "_"))
        for label in ("not reproduced", "not applicable")
    }
    if verbose:
        return [f"{label}: {', '.join(probes)}" for label, probes in named.items() if probes]
    counts = ", ".join(f"{len(probes)} {label}" for label, probes in named.items() if probes)
    return [counts] if counts else []


def say_severity(severity: str, text: str) -> None:
    """A line that starts with a severity, coloured on a terminal."""
    if not wants_colour():
        say(f"  {severity}  {text}")
        return
    from auditkit.model.text import inert

    typer.echo("  " + typer.style(severity, fg=_COLOURS[severity], bold=True) + "  " + inert(text))


def _print_summary(run: Run, tickets: Path | None) -> None:
    counts = Counter(result.outcome.value for result in run.results)
    targets = len({result.target for result in run.results})
    listed = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(counts.items()))
    say(f"{_counted(targets, 'target')}, {_counted(len(run.results), 'result')}: {listed}")
    actions = Counter(result.ticket_action for result in run.results if result.ticket)
    if tickets is not None and actions:
        done = ", ".join(f"{count} {action}" for action, count in sorted(actions.items()))
        say(f"tickets in {tickets}: {done}")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


@contextlib.contextmanager
def progress_on_terminal() -> Iterator[Progress]:
    """Progress on stderr while the block runs, where stderr is a terminal; silence elsewhere."""
    from auditkit.workflows.audit import Progress

    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading the checkout", total=None)
        yield Progress(
            targets_known=lambda targets, probes: bar.update(task, total=len(targets) * probes, completed=0),
            trying=lambda call: bar.update(task, description=f"trying {escape(call)}"),
            probe_started=lambda call, probe: bar.update(task, advance=1, description=f"{escape(call)} {probe}"),
        )
