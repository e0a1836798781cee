"""A merged sweep by checkout and environment, on a page and in Markdown; in CSV by question, and by job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Run
from auditkit.reports.page import Cell, Grid, Items, Section
from auditkit.reports.table import csv_bytes
from auditkit.sweep.folder import ResultsFolder
from auditkit.sweep.jobs import Job
from auditkit.sweep.merge import Merged, Told
from auditkit.tickets.markdown import cell

_ANSWERS = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
_JOB_COLUMNS = (
    "key", "name", "repository", "revision", "python", "torch", "device", "status", "reason", "findings", "answers",
    "node", "seconds", "cpu_seconds", "memory_mb", "attempts",
)  # fmt: skip


def markdown_table(merged: Merged) -> bytes:
    """A row for each checkout, a column for each environment: its own findings by severity, of all results.

    What is torch's own is counted apart. Why a cell has no result stands below, each reason once.
    """
    rows, reasons = _cells(merged)
    lines = [_row(["checkout", "revision", *merged.columns]), _row(["---"] * (len(merged.columns) + 2))]
    for subject, cells in zip(merged.subjects, rows, strict=True):
        revision = f"`{subject.job.revision[:10]}`"
        lines.append(_row([cell(subject.name), revision, *(each.word for each in cells)]))
    lines += ["", *(f"{number}. {cell(reason)}" for reason, number in reasons.items())] if reasons else []
    return ("\n".join(lines) + "\n").encode("utf-8")


def checkouts_section(merged: Merged) -> Section:
    """The same table as the first section of a page."""
    rows, reasons = _cells(merged)
    names = [f"{one.name} {one.job.revision[:10]}".strip() for one in merged.subjects]
    grid = Grid("Findings of each checkout in each environment", "checkout", merged.columns,
                tuple(zip(names, map(tuple, rows), strict=True)))  # fmt: skip
    told = tuple((f"{number}. {reason}",) for reason, number in reasons.items())
    return Section("Checkouts by environment", (grid, *([Items(told)] if told else ())), anchor="checkouts")


def _cells(merged: Merged) -> tuple[list[list[Cell]], dict[str, int]]:
    """The cells of each checkout, and the number of each reason for no result."""
    reasons: dict[str, int] = {}
    return [[_cell(one.told.get(at), at, reasons) for at in merged.columns] for one in merged.subjects], reasons


def _cell(told: Told | None, column: str, reasons: dict[str, int]) -> Cell:
    if told is None:
        return Cell(column, "none", "", "not planned")
    if told.run is None or not any(one.outcome in _ANSWERS for one in told.run.results):
        return Cell(column, "error", "!", f"no answer ({reasons.setdefault(_why(told), len(reasons) + 1)})")
    words = findings_in_words(told.run)
    is_found = not words.startswith("0 ")
    return Cell(column, *(("reproduced", "✗") if is_found else ("not_reproduced", "✓")), words)


def _why(told: Told) -> str:
    """Why nothing was answered: of a run whose probes all failed what the first one says."""
    if told.run is None or told.run.no_target is not None or not told.run.results:
        return told.why_silent
    return told.run.results[0].message.partition("\n")[0]


def findings_in_words(run: Run) -> str:
    """`2 P1, 1 P3 of 46`: its own findings of the questions that were answered; `; torch 3` are not its own."""
    found = [one for one in run.results if one.outcome is Outcome.REPRODUCED and one.severity]
    counts = Counter(one.severity.value for one in found if one.severity and not one.owner)
    own = ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items())) or "0"
    others = Counter(one.owner.split()[0] for one in found if one.owner)
    answers = sum(one.outcome in _ANSWERS for one in run.results)
    return f"{own} of {answers}" + "".join(f"; {owner} {count}" for owner, count in sorted(others.items()))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def matrix_csv(merged: Merged) -> bytes:
    """RFC 4180 in UTF-8: a line for each question, with what every column said of it."""
    heading = ("severity", "outcome", "probe", "target", "file", "line", "fingerprint", *merged.columns)
    return csv_bytes([heading, *_questions(merged)])


def _questions(merged: Merged) -> Iterator[Sequence[object]]:
    for one in merged.run.results:
        place, said = one.location, {arm.arm: arm.answer for arm in one.arms}
        answers = [said.get(column, "source" if one.is_of_source else "not asked") for column in merged.columns]
        file, line = (place.file, place.line) if place is not None else ("", "")
        yield (one.severity or "", one.outcome, one.probe, one.target, file, line, one.fingerprint, *answers)


def jobs_csv(folder: ResultsFolder, jobs: Sequence[Job]) -> bytes:
    """RFC 4180 in UTF-8: a line for each job, with where it ran, how long it took, and why it has no answer."""
    return csv_bytes([_JOB_COLUMNS, *(_job(folder, job) for job in jobs)])


def _job(folder: ResultsFolder, job: Job) -> Sequence[object]:
    answer = folder.read_answer(job.key)
    head = (job.key, job.name, job.repository, job.revision)
    if answer is not None:
        run = Run.from_json(answer.run)
        place = run.environment
        found = sum(one.outcome is Outcome.REPRODUCED for one in run.results)
        answers = sum(one.outcome in _ANSWERS for one in run.results)
        return (
            *head, place.python, place.torch, job.device, "answered", answer.no_target, found, answers,
            answer.node, answer.seconds, answer.cpu_seconds, answer.memory_mb, "",
        )  # fmt: skip
    failure = folder.read_failure(job.key)
    spec = (job.environment.python or job.environment.interpreter, job.environment.torch, job.device)
    if failure is None:
        return (*head, *spec, "not asked", "", *[""] * 7)
    ends = ("", "", failure.node, failure.seconds, "", "", failure.attempts)
    return (*head, *spec, failure.kind, failure.reason, *ends)
