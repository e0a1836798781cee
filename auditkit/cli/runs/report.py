"""How a finished run is shown: lines for people, one JSON document for programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from auditkit.cli.output import complain, complain_of, say, say_json, wants_colour
from auditkit.cli.runs.lines import how_it_is_read, measured_tables, place_and_ticket, without_answer
from auditkit.cli.runs.matrix_report import print_differences, print_matrix
from auditkit.cli.runs.progress import progress

if TYPE_CHECKING:
    from auditkit.cli.options import ResultOptions
    from auditkit.model.runs.run import ProbeResult, Run
    from auditkit.workflows.audit.audit import AuditRequest

_QUIET = ("not_reproduced", "not_applicable")
_COLOURS = {"P0": "bright_red", "P1": "red", "P2": "yellow", "P3": "cyan", "P4": "bright_black"}


def run_and_finish(request: AuditRequest, shown: ResultOptions, named: bool = False, unfiled: str = "") -> None:
    """Run the audit with progress, print it, and end with its exit code.

    `named` is a question of a few named probes, soon answered: in a pipe it says nothing on its way, and where
    only one target was asked it shows what was measured. `unfiled` is said where findings have no ticket.
    """
    from auditkit.workflows.audit.audit import audit, exit_code, load_failures

    lowest = shown.lowest()
    said: list[str] = []
    with progress(findings=True, in_pipe=not (named or shown.as_json), said=said) as told:
        run = audit(request, told)
    if shown.as_json:
        say_json(run.to_json())
    else:
        one_target = len({result.target for result in run.results}) == 1
        print_run(run, request.tickets, shown.verbose, shown.verbose or (named and one_target))
    says_unfiled = unfiled and not shown.as_json and any(result.severity for result in run.results)
    failures = load_failures(run)
    said += [failure.message for failure in failures]
    for note in (*run.notes, *([unfiled] if says_unfiled else [])):
        if note not in said:
            complain(f"note: {note}")
    for failure in failures:
        complain_of(failure)
    raise typer.Exit(int(exit_code(run, lowest)))


def print_run(run: Run, tickets: Path | None, verbose: bool = False, tables: bool = False) -> None:
    """The run as text: a block for each target, its findings first, and a summary.

    `verbose` names the probes that reproduced nothing, and how each target was fed and read; `tables`
    adds what was measured over two values of a case, such as dtype and elements.
    """
    _print_heading(run)
    read = [result for result in run.results if result.is_of_source]
    asked = replace(run, results=tuple(result for result in run.results if not result.is_of_source))
    if run.matrix:
        print_matrix(asked, verbose)
    else:
        _print_targets(asked, verbose, tables)
    if read:
        say("\nsource")
        _print_results(read, verbose)
    say("")
    if run.matrix:
        print_differences(asked)
    _print_summary(run, tickets)


def _print_heading(run: Run) -> None:
    environment = run.environment
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    dirty = " with uncommitted changes" if environment.dirty else ""
    torch = f"torch {environment.torch}, " if environment.torch else ""
    if run.matrix:
        torch = " and ".join(arm.label for arm in run.matrix) + ", "
    say(f"{environment.checkout}{revision}{dirty}: {torch}{_devices(run)}")


def _print_targets(run: Run, verbose: bool, tables: bool) -> None:
    """A block for each target, a line for one of which there is nothing to say; then what has no device here."""
    was_line = False
    for target in dict.fromkeys(result.target for result in run.results):
        results = [result for result in run.results if result.target == target and not _lacks_device(result)]
        readings = [each for each in run.targets if each.target.call == target and (each.found or verbose)]
        is_line = (
            not verbose and not tables and not readings and all(result.outcome.value in _QUIET for result in results)
        )
        if not (is_line and was_line):
            say("")
        was_line = is_line
        if is_line:
            say(f"{target}: {', '.join(_without_finding(results, verbose)) or 'nothing measured'}")
            continue
        say(target)
        for reading in readings:
            say(f"  {how_it_is_read(reading)}")
        _print_results(results, verbose)
        for line in (line for result in results if tables for line in measured_tables(result)):
            say(line)
    absent = without_answer([result for result in run.results if _lacks_device(result)])
    if absent:
        say("")
    for line in absent:
        say(line)


def _lacks_device(result: ProbeResult) -> bool:
    return result.outcome.value == "unavailable"


def _devices(run: Run) -> str:
    """Where the numbers come from, in one phrase."""
    runs = [arm.run for arm in run.matrix] + [run]
    used = {result.device for each in runs for result in each.results if result.measurements}
    words = {
        "cuda": run.environment.device_name,
        "cpu": "measured on the CPU",
        "simulated": "device traffic simulated",
        "source": "source read",
    }
    return ", ".join(said for device, said in words.items() if device in used) or "nothing measured"


def _print_results(results: list[ProbeResult], verbose: bool) -> None:
    """Findings, the worst first; then what has no answer, and what was not found. Of source each says about what."""
    for result in sorted((r for r in results if r.severity), key=lambda r: (str(r.severity), r.probe)):
        _say_severity(str(result.severity), f"{result.probe}  {place_and_ticket(result)}")
        say(f"      {f'{result.target}: ' if result.is_of_source else ''}{result.message}")
    for line in [*without_answer(results), *_without_finding(results, verbose)]:
        say(f"  {line}")


def _without_finding(results: list[ProbeResult], verbose: bool) -> list[str]:
    """What did not reproduce and what does not apply: counted in one line, or named in two; of source one by one."""
    lines, counts = [], []
    for label in ("not reproduced", "not applicable"):
        quiet = [result for result in results if result.outcome.value == label.replace(" ", "_")]
        if not quiet:
            continue
        counts.append(f"{len(quiet)} {label}")
        if quiet[0].is_of_source:
            lines += [f"{label}: {result.probe}: {result.message}" for result in quiet]
        else:
            lines.append(f"{label}: {', '.join(sorted(result.probe for result in quiet))}")
    return lines if verbose or not counts else [", ".join(counts)]


def _say_severity(severity: str, text: str) -> None:
    """A line that starts with a severity, coloured on a terminal."""
    if not wants_colour():
        say(f"  {severity}  {text}")
        return
    from auditkit.model.text import inert

    typer.echo("  " + typer.style(severity, fg=_COLOURS[severity], bold=True) + "  " + inert(text))


def _print_summary(run: Run, tickets: Path | None) -> None:
    from auditkit.model.text import counted

    counts = Counter(result.outcome.value for result in run.results)
    targets = len({result.target for result in run.results if not result.is_of_source})
    about = [counted(targets, "target")] if targets else []
    about += ["the source"] if any(result.is_of_source for result in run.results) else []
    listed = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in sorted(counts.items()))
    arms = f" over {len(run.matrix)} arms" if run.matrix else ""
    say(f"{' and '.join(about) or 'no target'}, {counted(len(run.results), 'result')}{arms}: {listed}")
    filed = [result for result in run.results if result.ticket]
    if tickets is not None and filed:
        kinds = Counter(_done_to_tickets(filed).values())
        done = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        say(f"{counted(len(filed), 'finding')} in {counted(kinds.total(), 'ticket')} in {tickets}: {done}")


def _done_to_tickets(filed: list[ProbeResult]) -> dict[str, str]:
    """For each ticket the most that was done to it; one that took further findings was extended."""
    names = {"created": "created", "reopened": "reopened", "joined": "extended", "refreshed": "refreshed"}
    actions: dict[str, set[str]] = {}
    for result in filed:
        actions.setdefault(result.ticket or "", set()).add(result.ticket_action)
    return {
        ticket: next((name for action, name in names.items() if action in done), "unchanged")
        for ticket, done in actions.items()
    }
