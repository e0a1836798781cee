"""How a finished run is shown: what breaks, the worst first, then what to do; one JSON document for programs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import typer

from auditkit.audit.audit import AuditRequest, audit, exit_code, load_failures, specimen_dir
from auditkit.cli.options import FIRST, ResultOptions, parse_severity
from auditkit.cli.output import (
    complain,
    complain_of,
    fitted,
    say,
    say_json,
    terminal_width,
)
from auditkit.cli.runs.causes import cause_lines, words_of
from auditkit.cli.runs.ending import beside_tickets, first_steps, next_step, nothing_audited, ticket_counts
from auditkit.cli.runs.progress import progress
from auditkit.model.runs.candidates import not_checked, unchecked_steps
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.text import counted, inert
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.run.found_candidates import configured_lines, summary_lines, table
from auditkit.reports.causes import Cause, Sources, causes_of, counts, without_result
from auditkit.reports.export import check_outputs, save_run, write_outputs
from auditkit.tickets.baseline import only_new

_COLOURS = {"P0": "bright_red", "P1": "red", "P2": "yellow", "P3": "cyan", "P4": "bright_black"}
_MOST_CAUSES, _MOST_REASONS = 10, 5
_DETAILS = re.compile(r"; other values: --argument NAME=VALUE$")
"""Notes that only -v prints."""


def run_and_finish(
    request: AuditRequest,
    shown: ResultOptions,
    named: bool = False,
    wants_tickets: bool = True,
    files: Mapping[str, Path] | None = None,
    save: Path | None = None,
    requires_steps: bool = False,
) -> None:
    """Run the audit with progress, print it, and end with its exit code.

    `named` is a run of a few named probes, which ends soon: in a pipe it says nothing on its way, and then everything.
    The user has not refused tickets if `wants_tickets`. `files` are written when it is printed, by their formats, and
    the whole run to `save`. With `requires_steps`, a training step that was found and not checked ends it with 3.
    """
    lowest = parse_severity(shown.fail_on)
    if save is not None:
        check_outputs({"save": save, **(files or {})})
    with progress(in_pipe=not (named or shown.as_json)) as told:
        run = audit(request, told)
    failures = load_failures(run)
    # Notes come first: the report ends with what to do next.
    for note in run.notes:
        is_detail = _DETAILS.search(note) is not None and not shown.verbose
        if not is_detail and note not in {failure.message for failure in failures}:
            complain(f"note: {note}")
    for failure in failures:
        complain_of(failure)
    again = sum(result.remembered for result in run.results)
    if again and not shown.as_json:
        asked = sum(bool(result.measurements) and not result.is_of_source for result in run.results)
        complain(f"note: {again} of {max(again, asked)} results come from the cache; --fresh runs everything")
    for checkout in FIRST if not shown.as_json else ():
        if checkout == specimen_dir():  # auditkit's own code
            continue
        complain(f"note: auditkit ran the code of {checkout}; auditkit --cage COMMAND runs it in a sandbox")
    if save is not None:
        brief = save_run(run, save)
    if shown.as_json:
        say_json(run.to_json() if save is None else brief)
    else:
        for line in page_lines(only_new(run), request, shown.verbose or named, terminal_width(), wants_tickets):
            _say_line(line)
    if files:
        write_outputs(run, files, catalog_of(request.config))
        complain(f"wrote {', '.join(map(str, files.values()))}")
    missed = unchecked_steps(run.candidates) if requires_steps else ""
    if missed:
        complain(f"error: --require-steps: {missed}")
    raise typer.Exit(int(exit_code(run, lowest, requires_steps)))


def page_lines(
    run: Run, request: AuditRequest, verbose: bool, width: int | None, wants_tickets: bool = True
) -> Iterator[str]:
    """What the run found, the worst first, and at the end what to do: lines no wider than `width` (None: a pipe).

    `verbose` writes out minor findings, and how each target was called.
    """
    causes, missing = causes_of(Sources(run, catalog_of(request.config))), nothing_audited(run)
    first = [] if missing else list(first_steps(run, causes))
    ending = (first, missing, ticket_counts(run, request.tickets), beside_tickets(run))
    yield from (fitted(inert(line), width) for line in _head(run, causes, verbose, bool(missing)))
    for section in (*_sections(run, causes, verbose), *ending):
        lines = [fitted(inert(line), width) for line in section]
        yield from ["", *lines] if lines else []
    for line in next_step(run, request, causes, wants_tickets):
        yield line if line.startswith("  ") else fitted(inert(line), width)


def _head(run: Run, causes: Sequence[Cause], verbose: bool, is_empty: bool) -> Iterator[str]:
    missed = not_checked(run.candidates)
    yield from [missed] if missed else []
    # Counts of a run in which nothing was checked would read like a result.
    yield from [] if is_empty else [counts(run, causes, verbose)]
    yield _heading(run)
    yield from [f"Only changed code: {run.changed}"] if run.changed else []
    yield from configured_lines(run)
    yield from summary_lines(run.candidates)
    if verbose and run.candidates:
        for row, why in table(run.candidates):
            yield "  " + "  ".join(filter(None, row))
            yield from [f"      {why}"] if why else []
    if any(result.evidence and result.evidence.value == "simulated" for result in run.results):
        yield "simulated: counted on the CPU behind a simulated CUDA device; no number comes from a GPU"


def _sections(run: Run, causes: Sequence[Cause], verbose: bool) -> Iterator[Iterable[str]]:
    if run.matrix:
        yield _difference_lines(run)
    own = [cause for cause in causes if cause.is_own]
    if verbose:
        yield from (cause_lines(cause, True) for cause in own)
    else:
        shown = [cause for cause in own if not cause.is_minor][:_MOST_CAUSES]
        yield [line for cause in shown for line in cause_lines(cause, False)]
    yield [*(() if verbose else _by_probe(own)), *_foreign_lines(causes)]
    yield _style_lines(causes)
    yield _silent_lines(run)
    if verbose:
        for target in dict.fromkeys(result.target for result in run.results if not result.is_of_source):
            yield _target_lines(run, target)
        yield _quiet_lines([result for result in run.results if result.is_of_source])


def _difference_lines(run: Run) -> Iterator[str]:
    """Where the arms of a run do not agree, which the several arms were run for."""
    differing = [result for result in run.results if result.arms_differ]
    if not differing:
        yield "all arms agree"
        return
    yield f"{len(differing)} of {len(run.results)} results differ between the arms:"
    yield from (f"  {one.probe} on {one.target}: {one.arms_in_words()}" for one in differing)


def _heading(run: Run) -> str:
    environment = run.environment
    revision = f" at {environment.revision[:12]}" if environment.revision else ""
    dirty = " with uncommitted changes" if environment.dirty else ""
    torch = f"torch {environment.torch}, " if environment.torch else ""
    if run.matrix:
        torch = " and ".join(arm.label for arm in run.matrix) + ", "
    return f"{environment.checkout}{revision}{dirty}: {torch}{_devices(run)}, {environment.sandbox_in_words}"


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


def _foreign_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Defects of what the checkout calls, each once with the probes that show it and where it was met."""
    owners = dict.fromkeys(cause.worst.result.owner for cause in causes if cause.worst.result.owner)
    if owners:
        yield "In other packages, not in this checkout:"
    for owner in owners:
        found = [one for cause in causes if cause.worst.result.owner == owner for one in cause.results]
        places = list(dict.fromkeys(one.place for one in found))
        others = f" and {counted(len(places) - 1, 'more place')}" if len(places) > 1 else ""
        yield f"    {owner}: {', '.join(dict.fromkeys(one.probe for one in found))}, met at {places[0]}{others}"


def _by_probe(causes: Sequence[Cause]) -> Iterator[str]:
    """Count the findings below the worst ten, then those that break nothing, by probe."""
    rest = [cause for cause in causes if not cause.is_minor][_MOST_CAUSES:]
    if rest:
        found = Counter(f"{cause.worst.severity} {cause.worst.probe.id}" for cause in rest)
        yield f"And {len(rest)} more, -v shows each: {', '.join(f'{name} ({count})' for name, count in found.items())}"
    minor = Counter(probe for cause in causes for probe in {one.probe for one in cause.results if one.severity == "P4"})
    if minor:
        listed = ", ".join(f"{name} at {counted(count, 'place')}" for name, count in sorted(minor.items()))
        yield f"Minor (P4), -v shows each: {listed}"


def _style_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield a line for each finding of --style or of a named style probe."""
    found = [one for cause in causes if cause.worst.result.style for one in cause.results]
    if found:
        yield "Style:"
    for one in found:
        yield f"    {one.place}  {one.probe}: {words_of(one)}"


_RECOGNIZED = 60
"""How many characters of a reason are compared, since a list of reasons cuts them."""


def _silent_lines(run: Run) -> Iterator[str]:
    """Errors and missing devices, each reason once with the probes that it stopped, and the targets if several.

    What stopped the whole run is said by `nothing_audited`.
    """
    stopped = "\n".join(each.message for each in ([] if run.matrix else load_failures(run)))
    for (why, message), those in without_result(run.results).items():
        if message and message[:_RECOGNIZED] in stopped:
            continue
        probes, targets = {one.probe for one in those}, {one.target for one in those}
        named = those[0].probe if len(probes) == 1 else f"{len(probes)} probes"
        yield f"{why}  {named}{f' on {len(targets)} targets' if len(targets) > 1 else ''}: {message}"


def _target_lines(run: Run, target: str) -> Iterator[str]:
    """How one target was called and read, by the options that change it, and what did not reproduce."""
    lines = []
    for reading in run.targets:
        if reading.target.call == target:
            roles = ", ".join(f"{path or 'the result'} is {role}" for role, path in reading.roles.items())
            words = shlex.join(reading.target.command_words())
            lines.append(f"{words}: returns {reading.answer or 'nothing'}{f' ({roles})' if roles else ''}")
    lines += _quiet_lines([result for result in run.results if result.target == target])
    if lines:
        yield target
        yield from (f"  {line}" for line in lines)


def _quiet_lines(results: Sequence[ProbeResult]) -> Iterator[str]:
    """What did not reproduce or does not apply: a few with their reasons, of more only the names."""
    for label in ("not reproduced", "not applicable"):
        quiet = [result for result in results if result.outcome.value == label.replace(" ", "_")]
        if len(quiet) <= _MOST_REASONS:
            yield from (f"{label}: {result.probe}: {result.message}" for result in quiet)
        else:
            yield f"{label}: {', '.join(sorted(result.probe for result in quiet))}"


def _say_line(line: str) -> None:
    """A line that is inert already; a severity at its beginning is coloured on a terminal."""
    severity, is_plain = line[:2], os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if severity in _COLOURS and sys.stdout.isatty() and not is_plain:
        typer.echo(typer.style(severity, fg=_COLOURS[severity], bold=True) + line[2:])
    else:
        say(line)
