"""How a run over several interpreters and devices is shown: a table for each target, a column for each arm."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditkit.cli.output import say
from auditkit.cli.runs.lines import WIDTH, columns_of, how_it_is_read, measured_tables, place_and_ticket, without_answer

if TYPE_CHECKING:
    from auditkit.model.runs.run import ProbeResult, Run

_DIFFERS = "differs"
_WIDEST_CELL = 26
"""Wider cells (a long law) would push the other columns apart: their row is written line by line."""
_LOUD = ("reproduced", "error", "unavailable")


def print_matrix(run: Run, verbose: bool) -> None:
    """A block for each target: what each probe said in each arm, its findings, and what could not be answered.

    A probe that says the same harmless thing in every arm is only counted, unless `verbose`.
    """
    for target in dict.fromkeys(result.target for result in run.results):
        say("")
        say(target)
        for reading in run.targets:
            if reading.target.call == target and (reading.found or verbose):
                say(f"  {how_it_is_read(reading)}")
        chosen = [index for index, result in enumerate(run.results) if result.target == target]
        _print_target(run, chosen, verbose)


def print_differences(run: Run) -> None:
    """Where the arms do not agree, a line for each: what the matrix was run for."""
    differing = [result for result in run.results if result.arms_differ]
    if not differing:
        say("all arms agree")
        return
    say(f"{len(differing)} of {len(run.results)} results differ between the arms:")
    for result in differing:
        say(f"  {result.probe} on {result.target}:")
        for line in textwrap.wrap(result.arms_in_words(), WIDTH - 6):
            say(f"      {line}")


def _print_target(run: Run, chosen: Sequence[int], verbose: bool) -> None:
    rows = [index for index in chosen if verbose or _is_worth_a_row(run, index)]
    if rows:
        _print_rows(run, rows)
    _print_unanswered(run, chosen)
    _print_counts(run, [index for index in chosen if index not in rows])
    if verbose:
        _print_measured(run, chosen)


def _in_arms(run: Run, index: int) -> list[ProbeResult]:
    """The arms' own results, without arms in which nothing could be loaded: those are said once."""
    results = [arm.run.results[index] for arm in run.matrix]
    return [result for result in results if result.loaded]


def _is_worth_a_row(run: Run, index: int) -> bool:
    answers = {(result.outcome.value, result.law) for result in _in_arms(run, index)}
    return len(answers) > 1 or any(outcome in _LOUD for outcome, _ in answers)


def _print_rows(run: Run, rows: Sequence[int]) -> None:
    labels = [arm.label for arm in run.matrix]
    beside: dict[int, tuple[str, ...]] = {}
    below: dict[int, tuple[str, ...]] = {}
    for index in rows:
        result = run.results[index]
        loaded = [arm.run.results[index].loaded for arm in run.matrix]
        cells = [arm.answer if known else "not loaded" for arm, known in zip(result.arms, loaded, strict=True)]
        row = (result.probe, *cells, _DIFFERS if result.arms_differ else "")
        (below if max(map(len, cells)) > _WIDEST_CELL else beside)[index] = row
    lines = columns_of([("", *labels, ""), *beside.values()], "  ") or []
    if beside and lines:
        say(lines[0])
    shown = dict(zip(beside, lines[1:], strict=False))
    for index in rows:
        if index in shown:
            say(shown[index])
        else:
            _print_stacked(labels, (beside | below)[index])
        _print_finding(run, index)


def _print_stacked(labels: Sequence[str], row: Sequence[str]) -> None:
    """The columns of one row below each other, where they are too wide side by side."""
    probe, *cells, differs = row
    say(f"  {probe}  {differs}".rstrip())
    for line in columns_of([*zip(labels, cells, strict=True)], "    ") or ():
        say(line)


def _print_finding(run: Run, index: int) -> None:
    """Where, by what evidence, which ticket, and what was found: once, or for each arm that says something else."""
    result = run.results[index]
    if result.severity is None:
        return
    say(f"      {place_and_ticket(result)}")
    answers = [arm for arm in result.arms if arm.outcome.value in ("reproduced", "not_reproduced")]
    if len({arm.message for arm in answers}) == 1:
        say(f"      {answers[0].message}")
        return
    for arm in answers:
        say(f"      {arm.arm}: {arm.message}")


def _print_unanswered(run: Run, chosen: Sequence[int]) -> None:
    """Errors and missing devices, each once with the arms that it stopped."""
    stopped: dict[str, list[str]] = {}
    for arm in run.matrix:
        for line in without_answer([arm.run.results[index] for index in chosen]):
            stopped.setdefault(line, []).append(arm.label)
    for line, labels in stopped.items():
        say(f"  {'every arm' if len(labels) == len(run.matrix) else ' and '.join(labels)}: {line}")


def _print_counts(run: Run, quiet: Sequence[int]) -> None:
    """The probes that have no row: their outcome is the same in every arm that could be loaded."""
    outcomes = Counter(results[0].outcome.value for index in quiet if (results := _in_arms(run, index)))
    counts = ", ".join(
        f"{outcomes[name]} {name.replace('_', ' ')}" for name in ("not_reproduced", "not_applicable") if outcomes[name]
    )
    if counts:
        say(f"  {counts} in every arm")


def _print_measured(run: Run, chosen: Sequence[int]) -> None:
    for index in chosen:
        tables = {arm.label: measured_tables(arm.run.results[index]) for arm in run.matrix}
        if len({tuple(lines) for lines in tables.values()}) == 1:
            tables = {"every arm": next(iter(tables.values()))}
        for label, lines in tables.items():
            if lines:
                say(f"  {label}:")
            for line in lines:
                say(f"  {line}")
