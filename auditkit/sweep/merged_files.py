"""The files of a merged sweep, and a ticket for each finding in a folder of its own checkout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit.audit.filing import Paperwork, Root, file_run
from auditkit.errors import BadInputError
from auditkit.files import write_file
from auditkit.model.runs.run import Run
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.export import json_text
from auditkit.reports.html.page import html_page
from auditkit.reports.run_page import run_page
from auditkit.sweep.folder import ResultsFolder
from auditkit.sweep.jobs import Job
from auditkit.sweep.merge import Merged, Subject
from auditkit.sweep.repositories import is_url
from auditkit.sweep.tables import checkouts_section, jobs_csv, markdown_table, matrix_csv
from auditkit.tickets.store import TicketFolder

RUN, PAGE, TABLE, CSV, JOBS, TICKETS = (
    "matrix.json", "matrix.html", "matrix.md", "matrix.csv", "jobs.csv", "tickets",
)  # fmt: skip


@dataclass(frozen=True)
class Filed:
    """How many findings of a checkout have a ticket in a folder."""

    folder: Path
    findings: int


def write_merged(merged: Merged, folder: ResultsFolder, jobs: Sequence[Job], out: Path) -> list[Path]:
    """The matrix as a run, a page, a table and CSV, and the jobs as CSV, each whole or not at all.

    Raises StoreConflictError where one cannot be written.
    """
    page = run_page(Sources(merged.run, load_catalog()))
    files = {
        RUN: json_text(merged.run.to_json()),
        PAGE: html_page(replace(page, sections=(checkouts_section(merged), *page.sections))),
        TABLE: markdown_table(merged),
        CSV: matrix_csv(merged),
        JOBS: jobs_csv(folder, jobs),
    }
    for name, data in files.items():
        write_file(out / name, data)
    return [out / name for name in files]


def file_tickets(merged: Merged, tickets: Path, batch: int = 1) -> list[Filed]:
    """A ticket for each finding, below `tickets` in a folder of each checkout that has one.

    What has a ticket there is refreshed. Raises StoreConflictError where one cannot be written.
    """
    filed = []
    for subject in merged.subjects:
        if not any(one.severity for one in subject.run.results):
            continue
        place = tickets / subject.name
        run = file_run(_named(subject, merged.run.id), TicketFolder(place), _paperwork(subject, batch))
        filed.append(Filed(place, sum(one.ticket is not None for one in run.results)))
    return filed


def _named(subject: Subject, identity: str) -> Run:
    return replace(subject.run, id=identity)


def _paperwork(subject: Subject, batch: int) -> Paperwork:
    """Commands in these tickets are run at the top of the checkout, wherever that is."""
    job = subject.job
    root = Root(Path.cwd())
    if not is_url(job.repository):
        try:
            root = Root.of(parse_checkout(job.repository))
        except BadInputError:
            root = Root(Path(job.repository))
    return Paperwork(
        probes=load_catalog(),
        batch=batch,
        agent=None,
        source="." if is_url(job.repository) else root.path(job.repository),
        root=root,
        asked_by_name=False,
    )
