"""How a run over several interpreters and devices is shown: a table for each target, a column for each arm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from auditkit.cli.runs.causes import Cause
from auditkit.cli.runs.lines import columns_of, how_it_is_read, measured_tables, without_answer

if TYPE_CHECKING:
    from auditkit.model.runs.run import ProbeResult, Run

_DIFFERS = "differs"
_WIDEST_CELL = 26
"""Wider cells (a long law) would push the other columns apart: their row is written line by line."""
_LOUD = ("reproduced", "error", "unavailable")


def matrix_lines(run: Run, verbose: bool, width: int | None) -> Iterator[str]:
    """A block for each target: what each probe said in each arm, its findings, and what could not be answered.

    A probe that says the same harmless thing in every arm is only counted, unless `verbose`.
    """
    for number, target in enumerate(dict.fromkeys(result.target for result in run.results)):
        yield from ["", target] if number else [target]
        for reading in run.targets:
            if reading.target.call == target and verbose:
                yield f"  {how_it_is_read(reading)}"
        chosen = [index for index, result in enumerate(run.results) if result.target == target]
        yield from _target_lines(run, chosen, verbose, width)


def difference_lines(run: Run) -> Iterator[str]:
    """Where the arms do not agree, a line for each: what the matrix was run for."""
    differing = [result for result in run.results if result.arms_differ]
    if not differing:
        yield "all arms agree"
        return
    yield f"{len(differing)} of {len(run.results)} results differ between the arms:"
    for result in differing:
        yield f"  {result.probe} on {result.target}:"
        yield f"      {result.arms_in_words()}"


def _target_lines(run: Run, chosen: Sequence[int], verbose: bool, width: int | None) -> Iterator[str]:
    rows = [index for index in chosen if verbose or _is_worth_a_row(run, index)]
    if rows:
        yield from _row_lines(run, rows, width)
    yield from _unanswered_lines(run, chosen)
    yield from _count_lines(run, [index for index in chosen if index not in rows], verbose)
    if verbose:
        yield from _measured_lines(run, chosen, width)


def _in_arms(run: Run, index: int) -> list[ProbeResult]:
    """The arms' own results, without arms in which nothing could be loaded: those are said once."""
    results = [arm.run.results[index] for arm in run.matrix]
    return [result for result in results if result.loaded]


def _is_worth_a_row(run: Run, index: int) -> bool:
    answers = {(result.outcome.value, result.law) for result in _in_arms(run, index)}
    return len(answers) > 1 or any(outcome in _LOUD for outcome, _ in answers)


def _row_lines(run: Run, rows: Sequence[int], width: int | None) -> Iterator[str]:
    labels = [arm.label for arm in run.matrix]
    beside: dict[int, tuple[str, ...]] = {}
    below: dict[int, tuple[str, ...]] = {}
    for index in rows:
        result = run.results[index]
        loaded = [arm.run.results[index].loaded for arm in run.matrix]
        cells = [arm.answer if known else "not loaded" for arm, known in zip(result.arms, loaded, strict=True)]
        row = (result.probe, *cells, _DIFFERS if result.arms_differ else "")
        (below if max(map(len, cells)) > _WIDEST_CELL else beside)[index] = row
    lines = columns_of([("", *labels, ""), *beside.values()], "  ", width) or []
    if beside and lines:
        yield lines[0]
    shown = dict(zip(beside, lines[1:], strict=False))
    for index in rows:
        if index in shown:
            yield shown[index]
        else:
            yield from _stacked_lines(labels, (beside | below)[index], width)
        yield from _finding_lines(run, index)


def _stacked_lines(labels: Sequence[str], row: Sequence[str], width: int | None) -> Iterator[str]:
    """The columns of one row below each other, where they are too wide side by side."""
    probe, *cells, differs = row
    yield f"  {probe}  {differs}".rstrip()
    rows = [*zip(labels, cells, strict=True)]
    yield from columns_of(rows, "    ", width) or (f"    {label}: {cell}" for label, cell in rows)


def _finding_lines(run: Run, index: int) -> Iterator[str]:
    """Where, by what evidence, which ticket, and what was found: once, or for each arm that says something else."""
    result = run.results[index]
    if result.severity is None:
        return
    cause = Cause((result,))
    evidence = result.evidence.value if result.evidence else ""
    yield "      " + "  ".join(part for part in (cause.place, evidence, cause.tickets) if part)
    answers = [arm for arm in result.arms if arm.outcome.value in ("reproduced", "not_reproduced")]
    if len({arm.message for arm in answers}) == 1:
        yield f"      {answers[0].message}"
        return
    yield from (f"      {arm.arm}: {arm.message}" for arm in answers)


def _unanswered_lines(run: Run, chosen: Sequence[int]) -> Iterator[str]:
    """Errors and missing devices, each once with the arms that it stopped."""
    stopped: dict[str, list[str]] = {}
    for arm in run.matrix:
        for line in without_answer([arm.run.results[index] for index in chosen]):
            stopped.setdefault(line, []).append(arm.label)
    for line, labels in stopped.items():
        yield f"  {'every arm' if len(labels) == len(run.matrix) else ' and '.join(labels)}: {line}"


def _count_lines(run: Run, quiet: Sequence[int], verbose: bool) -> Iterator[str]:
    """The probes that have no row: their outcome is the same in every arm that could be loaded."""
    outcomes = Counter(results[0].outcome.value for index in quiet if (results := _in_arms(run, index)))
    names = ("not_reproduced", "not_applicable") if verbose else ("not_reproduced",)
    counts = ", ".join(f"{outcomes[name]} {name.replace('_', ' ')}" for name in names if outcomes[name])
    if counts:
        yield f"  {counts} in every arm"


def _measured_lines(run: Run, chosen: Sequence[int], width: int | None) -> Iterator[str]:
    for index in chosen:
        tables = {arm.label: measured_tables(arm.run.results[index], width) for arm in run.matrix}
        if len({tuple(lines) for lines in tables.values()}) == 1:
            tables = {"every arm": next(iter(tables.values()))}
        for label, lines in tables.items():
            if lines:
                yield f"  {label}:"
            yield from (f"    {line}" for line in lines)
