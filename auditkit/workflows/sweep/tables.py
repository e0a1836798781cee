"""A merged sweep as tables: in Markdown by checkout and column, in CSV by question, and by job."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence

from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Run
from auditkit.model.text import inert_line
from auditkit.rendering.markdown import cell
from auditkit.workflows.sweep.folder import ResultsFolder
from auditkit.workflows.sweep.jobs import Job
from auditkit.workflows.sweep.merge import Merged, Told

_ANSWERS = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
_JOB_COLUMNS = (
    "key", "name", "repository", "revision", "python", "torch", "device", "status", "reason", "findings", "answers",
    "node", "seconds", "cpu_seconds", "memory_mb", "attempts",
)  # fmt: skip
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@")


def markdown_table(merged: Merged) -> bytes:
    """A row for each checkout, a column for each place: its own findings by severity, of all questions answered.

    What is torch's own is counted apart. Why a cell has no answer stands below, each reason once.
    """
    reasons: dict[str, int] = {}
    lines = [_row(["checkout", "revision", *merged.columns]), _row(["---"] * (len(merged.columns) + 2))]
    for subject in merged.subjects:
        cells = [_cell(subject.told.get(column), reasons) for column in merged.columns]
        lines.append(_row([cell(subject.name), f"`{subject.job.revision[:10]}`", *cells]))
    lines += [""] * bool(reasons)
    lines += [f"{number}. {cell(reason)}" for reason, number in reasons.items()]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _cell(told: Told | None, reasons: dict[str, int]) -> str:
    if told is None:
        return "not planned"
    if told.run is None or not any(one.outcome in _ANSWERS for one in told.run.results):
        return f"no answer ({reasons.setdefault(_why(told), len(reasons) + 1)})"
    return findings_in_words(told.run)


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
    return _csv([heading, *_questions(merged)])


def _questions(merged: Merged) -> Iterator[Sequence[object]]:
    for one in merged.run.results:
        place, said = one.location, {arm.arm: arm.answer for arm in one.arms}
        answers = [said.get(column, "source" if one.is_of_source else "not asked") for column in merged.columns]
        file, line = (place.file, place.line) if place is not None else ("", "")
        yield (one.severity or "", one.outcome, one.probe, one.target, file, line, one.fingerprint, *answers)


def jobs_csv(folder: ResultsFolder, jobs: Sequence[Job]) -> bytes:
    """RFC 4180 in UTF-8: a line for each job, with where it ran, how long it took, and why it has no answer."""
    return _csv([_JOB_COLUMNS, *(_job(folder, job) for job in jobs)])


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


def _csv(rows: Sequence[Sequence[object]]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        words = [inert_line(str(each)) for each in row]
        writer.writerow([f"'{word}" if word.startswith(_FORMULA) else word for word in words])
    return text.getvalue().encode("utf-8")
