"""The files of a merged sweep: a page, a table, CSV, and tickets in a folder for each checkout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from auditkit.audit.filing import Paperwork, Root, file_run
from auditkit.errors import BadInputError
from auditkit.files import write_file
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import Run
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.export import json_text
from auditkit.reports.html.page import html_page
from auditkit.reports.page import Cell, Grid, Items, Section
from auditkit.reports.run_page import run_page
from auditkit.reports.table import csv_bytes
from auditkit.sweep.folder import Result, ResultsFolder
from auditkit.sweep.jobs import Job
from auditkit.sweep.merge import Merged, Reply, Subject
from auditkit.sweep.repositories import is_url
from auditkit.tickets.markdown import cell
from auditkit.tickets.store import TicketFolder

TICKETS = "tickets"
_ANSWERS = (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
_JOB_COLUMNS = (
    "key", "name", "repository", "revision", "python", "torch", "device", "status", "reason", "findings", "answers",
    "node", "seconds", "cpu_seconds", "memory_mb",
)  # fmt: skip


def write_merged(merged: Merged, folder: ResultsFolder, jobs: Sequence[Job], out: Path) -> list[Path]:
    """Write the matrix as a run, a page, a table and CSV, and the jobs as CSV, each whole or not at all.

    Raises StoreConflictError if one cannot be written.
    """
    page = run_page(Sources(merged.run, load_catalog()))
    files = {
        "matrix.json": json_text(merged.run.to_json()),
        "matrix.html": html_page(replace(page, sections=(_checkouts(merged), *page.sections))),
        "matrix.md": markdown_table(merged),
        "matrix.csv": _matrix_csv(merged),
        "jobs.csv": csv_bytes([_JOB_COLUMNS, *(_job_row(folder, job) for job in jobs)]),
    }
    for name, data in files.items():
        write_file(out / name, data)
    return [out / name for name in files]


def file_tickets(merged: Merged, tickets: Path) -> int:
    """File a ticket for each finding, in a folder of each checkout, and return how many findings have one.

    An existing ticket is updated. Raises StoreConflictError if one cannot be written.
    """
    count = 0
    for subject in merged.subjects:
        if any(one.severity for one in subject.run.results):
            run = replace(subject.run, id=merged.run.id)
            filed = file_run(run, TicketFolder(tickets / subject.name), _paperwork(subject))
            count += sum(one.ticket is not None for one in filed.results)
    return count


def _paperwork(subject: Subject) -> Paperwork:
    """Commands in these tickets run at the top of the checkout, wherever that is."""
    repository, root = subject.job.repository, Root(Path.cwd())
    if not is_url(repository):
        try:
            root = Root.of(parse_checkout(repository))
        except BadInputError:
            root = Root(Path(repository))
    source = "." if is_url(repository) else root.path(repository)
    return Paperwork(probes=load_catalog(), batch=1, agent=None, source=source, root=root, asked_by_name=False)


def markdown_table(merged: Merged) -> bytes:
    """Return a row for each checkout, a column for each environment: its own findings by severity, of all results.

    Findings of torch itself are counted apart. The reasons of empty cells stand below, each once.
    """
    rows, reasons = _cells(merged)
    table = [["checkout", "revision", *merged.columns], ["---"] * (len(merged.columns) + 2)]
    for subject, cells in zip(merged.subjects, rows, strict=True):
        table.append([cell(subject.name), f"`{subject.job.revision[:10]}`", *(each.word for each in cells)])
    lines = [f"| {' | '.join(row)} |" for row in table]
    lines += ["", *(f"{number}. {cell(reason)}" for number, reason in enumerate(reasons, 1))] if reasons else []
    return ("\n".join(lines) + "\n").encode("utf-8")


def _checkouts(merged: Merged) -> Section:
    """Return the same table as the first section of a page."""
    rows, reasons = _cells(merged)
    names = [f"{one.name} {one.job.revision[:10]}".strip() for one in merged.subjects]
    grid = Grid("Findings of each checkout in each environment", "checkout", merged.columns,
                tuple(zip(names, map(tuple, rows), strict=True)))  # fmt: skip
    numbered = tuple((f"{number}. {reason}",) for number, reason in enumerate(reasons, 1))
    return Section("Checkouts by environment", (grid, *([Items(numbered)] if numbered else ())), anchor="checkouts")


def _cells(merged: Merged) -> tuple[list[list[Cell]], list[str]]:
    """Return the cells of each checkout, and every reason for no result once."""
    reasons: list[str] = []
    return [[_cell(one.replies.get(at), at, reasons) for at in merged.columns] for one in merged.subjects], reasons


def _cell(reply: Reply | None, column: str, reasons: list[str]) -> Cell:
    if reply is None:
        return Cell(column, "none", "", "not planned")
    if any(one.outcome in _ANSWERS for one in reply.run.results):
        words = findings_in_words(reply.run)
        return Cell(column, *(("not_reproduced", "✓") if words.startswith("0 ") else ("reproduced", "✗")), words)
    messages = [one.message.partition("\n")[0] for one in reply.run.results]
    why = reply.why or next(iter(messages), "no target was found")
    if why not in reasons:
        reasons.append(why)
    return Cell(column, "error", "!", f"no result ({reasons.index(why) + 1})")


def findings_in_words(run: Run) -> str:
    """Return `2 P1, 1 P3 of 46`: its own findings of the checks with a result; `; torch 3` are those of torch."""
    found = [one for one in run.results if one.outcome is Outcome.REPRODUCED and one.severity]
    counts = Counter(one.severity.value for one in found if one.severity and not one.owner)
    own = ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items())) or "0"
    others = Counter(one.owner.split()[0] for one in found if one.owner)
    return f"{own} of {_answers(run)}" + "".join(f"; {owner} {count}" for owner, count in sorted(others.items()))


def _answers(run: Run) -> int:
    return sum(one.outcome in _ANSWERS for one in run.results)


def _matrix_csv(merged: Merged) -> bytes:
    """Return RFC 4180 in UTF-8: a line for each check, with the result of every column."""
    rows: list[Sequence[object]] = [
        ("severity", "outcome", "probe", "target", "file", "line", "fingerprint", *merged.columns)
    ]
    for one in merged.run.results:
        place, given = one.location, {arm.arm: arm.answer for arm in one.arms}
        answers = [given.get(column, "source" if one.is_of_source else "not run") for column in merged.columns]
        file, line = (place.file, place.line) if place is not None else ("", "")
        rows.append((one.severity or "", one.outcome, one.probe, one.target, file, line, one.fingerprint, *answers))
    return csv_bytes(rows)


def _job_row(folder: ResultsFolder, job: Job) -> Sequence[object]:
    result, spec = folder.read(job.key) or Result(job, kind="not run"), job.environment
    python, torch, counts = spec.python or spec.interpreter, spec.torch, ("", "")
    if result.run is not None:
        run = Run.from_json(result.run)
        python, torch = run.environment.python, run.environment.torch
        counts = sum(one.outcome is Outcome.REPRODUCED for one in run.results), _answers(run)
    return (
        job.key, job.name, job.repository, job.revision, python, torch, job.device, result.kind or "answered",
        result.reason, *counts, result.node, result.seconds, result.cpu_seconds, result.memory_mb,
    )  # fmt: skip
