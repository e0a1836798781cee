"""Merge the results of a sweep: a row for each check of each checkout, a column for each environment and device.

The files of the merged sweep are a page, a table, and tickets in a folder for each checkout.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from auditkit import __version__
from auditkit.audit.filing import Paperwork, Root, file_run
from auditkit.audit.matrix import label_arms, notes_of, over_arms
from auditkit.errors import ExitCode
from auditkit.files import write_file
from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.model.runs.run import Arm, Environment, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.text import counted
from auditkit.probing.engine.catalog import load_catalog
from auditkit.reports.causes import Sources
from auditkit.reports.export import json_text
from auditkit.reports.formats import csv_bytes
from auditkit.reports.html.page import html_page
from auditkit.reports.page import Section
from auditkit.reports.run_page import run_page
from auditkit.sweep.execution import without_folder
from auditkit.sweep.jobs import Job, Result, ResultsFolder
from auditkit.sweep.preparation import is_url
from auditkit.tickets.markdown import cell
from auditkit.tickets.store import TicketFolder

TICKETS = "tickets"
NO_ANSWER = "sweep_job"
"""The probe of a result for a checkout without any result."""
_Place = tuple[str, str, str, DeviceChoice]


@dataclass(frozen=True)
class Reply:
    """What one job wrote, with its run, which is empty if it has none."""

    result: Result
    run: Run


@dataclass(frozen=True)
class Subject:
    """One checkout at one revision: its first job, which names its row of the table, and the reply of each column.

    `run` is the matrix of it alone, with the names that an audit of it has.
    """

    job: Job
    replies: Mapping[str, Reply]
    run: Run


@dataclass(frozen=True)
class Merged:
    """One matrix run over all subjects; with several, every name begins with its subject's."""

    columns: tuple[str, ...]
    subjects: tuple[Subject, ...]
    run: Run


def merge(folder: ResultsFolder, jobs: Sequence[Job]) -> Merged:
    """Return the matrix of all jobs, in the order of their plan; the same results give the same bytes.

    Raises BadInputError if a result cannot be read.
    """
    replies = [_reply(folder, job) for job in jobs]
    columns = _columns(replies)
    by_name: dict[str, dict[str, Reply]] = {}
    for one in replies:
        by_name.setdefault(one.result.job.name, {}).setdefault(columns[_place(one.result.job)], one)
    subjects = tuple(
        Subject(next(iter(of_name.values())).result.job, of_name, _matrix(name, of_name))
        for name, of_name in by_name.items()
    )
    identity = hashlib.sha256("\n".join(job.key for job in jobs).encode()).hexdigest()[:12]
    return Merged(tuple(columns.values()), subjects, _whole(f"sweep-{identity}", subjects, tuple(columns.values())))


def _place(job: Job) -> _Place:
    return job.environment.interpreter, job.environment.python, job.environment.torch, job.device


def _reply(folder: ResultsFolder, job: Job) -> Reply:
    """Return a job's reply without what differs in a second run: ids, times, and folders of this machine."""
    result = folder.read(job.key) or Result(job, reason="not run: it is planned, and no job ran it")
    result = msgspec.structs.replace(result, job=job)  # the plan of that time may have named it otherwise
    if result.run is None:
        spec = job.environment
        planned = Environment(job.repository, job.revision, False, spec.python, spec.torch, job.device.value, "",
                              spec.interpreter, auditkit=__version__)  # fmt: skip
        return Reply(result, Run("", planned, ()))
    run = Run.from_json(result.run)
    run = replace(
        run,
        id="",
        environment=replace(run.environment, checkout=job.repository),
        results=tuple(
            replace(one, duration_s=0.0, remembered=False, message=without_folder(one.message)) for one in run.results
        ),
        notes=tuple(map(without_folder, run.notes)),
    )
    return Reply(result, run)


def _columns(replies: Sequence[Reply]) -> dict[_Place, str]:
    """Return the name of each column: of the environment of the first job that ran there, else as planned."""
    found: dict[_Place, Environment] = {}
    for one in sorted(replies, key=lambda one: not (one.run.environment.platform and one.run.environment.torch)):
        found.setdefault(_place(one.result.job), one.run.environment)
    environments, places = [], list(dict.fromkeys(_place(one.result.job) for one in replies))
    for interpreter, python, torch, device in places:
        own = Environment("", "", False, "", "", device.value, "", "the checkout's Python")
        environments.append(found[interpreter, python, torch, device] if interpreter or python or torch else own)
    return dict(zip(places, label_arms(environments, [device for *_, device in places]), strict=True))


def _matrix(name: str, replies: Mapping[str, Reply]) -> Run:
    """Return the matrix of one subject; every check that ran in one column is a row of all."""
    examples: dict[tuple[str, str], ProbeResult] = {}
    for reply in replies.values():
        for result in reply.run.results:
            examples.setdefault((result.probe, result.fingerprint), result)
    if not examples:
        nothing = ProbeResult(NO_ANSWER, 1, name, Outcome.ERROR, "", fingerprint(NO_ANSWER, name))
        examples = {(NO_ANSWER, nothing.fingerprint): nothing}
    arms = tuple(Arm(label, _completed(reply, examples)) for label, reply in replies.items())
    columns = zip(*([one for one in arm.run.results if not one.is_of_source] for arm in arms), strict=True)
    of_source = (result for result in examples.values() if result.is_of_source)
    readings: dict[str, TargetReading] = {}
    for reading in (reading for arm in arms for reading in arm.run.targets):
        if not readings.setdefault(reading.target.call, reading).answer:
            readings[reading.target.call] = reading
    return Run(
        id="",
        environment=arms[0].run.environment,
        results=(*(over_arms(results, arms) for results in columns), *of_source),
        targets=tuple(readings.values()),
        notes=notes_of(arms),
        matrix=arms,
    )


def _completed(reply: Reply, examples: Mapping[tuple[str, str], ProbeResult]) -> Run:
    """Return the run of a job with every check in one order; one without a result is an error with its reason."""
    own = {(one.probe, one.fingerprint): one for one in reply.run.results}
    why = reply.result.reason or "no such target was found here"
    results = tuple(
        own.get(check) or ProbeResult(
            one.probe, one.probe_version, one.target, Outcome.ERROR, why, one.fingerprint, location=one.location,
            device=reply.result.job.device.value,
        )
        for check, one in examples.items()
        if check in own or not one.is_of_source
    )  # fmt: skip
    return replace(reply.run, results=results)


def _whole(identity: str, subjects: Sequence[Subject], columns: Sequence[str]) -> Run:
    """Return all subjects in one run: of several, each name begins with its subject's."""
    if len(subjects) == 1:
        return replace(subjects[0].run, id=identity)
    runs = [_under(subject.job.name, subject.run) for subject in subjects]
    by_label = {label: [arm.run for run in runs for arm in run.matrix if arm.label == label] for label in columns}
    arms = tuple(Arm(label, _joined(identity, of_arm)) for label, of_arm in by_label.items())
    notes = tuple(f"{subject.job.name}: {note}" for subject in subjects for note in subject.run.notes)
    return replace(_joined(identity, runs), notes=notes, matrix=arms)


def _joined(identity: str, runs: Sequence[Run]) -> Run:
    place = replace(runs[0].environment, checkout=counted(len(runs), "checkout"), revision="", dirty=False)
    results = tuple(result for run in runs for result in run.results)
    return Run(identity, place, results, tuple(reading for run in runs for reading in run.targets))


def _under(name: str, run: Run) -> Run:
    """Return a run whose targets, files and fingerprints begin with the name of their checkout."""
    results = tuple(_result_under(name, one) for one in run.results)
    targets = tuple(replace(one, target=replace(one.target, call=f"{name}/{one.target.call}")) for one in run.targets)
    arms = tuple(Arm(arm.label, _under(name, arm.run)) for arm in run.matrix)
    return replace(run, results=results, targets=targets, matrix=arms)


def _result_under(name: str, one: ProbeResult) -> ProbeResult:
    target = one.target if one.probe == NO_ANSWER else f"{name}/{one.target}"
    places = {
        key: replace(place, file=f"{name}/{place.file}")
        for key in ("location", "statement", "excerpt")
        if (place := getattr(one, key)) is not None
    }
    return replace(one, target=target, fingerprint=one.fingerprint.replace(one.target, target, 1), **places)


def exit_code(merged: Merged) -> ExitCode:
    """Return FINDINGS for any finding, else NOTHING_MEASURED for anything without a result."""
    results = merged.run.results
    if any(one.severity for one in results):
        return ExitCode.FINDINGS
    reasons = [one.result.reason for each in merged.subjects for one in each.replies.values()]
    is_incomplete = any(reasons) or any(one.outcome is Outcome.ERROR for one in results)
    return ExitCode.NOTHING_MEASURED if is_incomplete else ExitCode.OK


def write_merged(merged: Merged, out: Path) -> list[Path]:
    """Write the matrix as a run, a page and a table, and the jobs as CSV. Raises StoreConflictError."""
    page, overview = run_page(Sources(merged.run, load_catalog())), markdown_table(merged)
    page = replace(page, sections=(Section("Checkouts by environment", (overview,)), *page.sections))
    jobs = [_job_row(one) for each in merged.subjects for one in each.replies.values()]
    files = {
        "matrix.json": json_text(merged.run.to_json()),
        "matrix.html": html_page(page),
        "matrix.md": f"{overview}\n".encode(),
        "jobs.csv": csv_bytes([[*jobs[0]], *([*row.values()] for row in jobs)]),
    }
    for name, data in files.items():
        write_file(out / name, data)
    return [out / name for name in files]


def file_tickets(merged: Merged, tickets: Path) -> int:
    """File or update a ticket for each finding, in a folder of each checkout; return how many findings have one."""
    count = 0
    for subject in merged.subjects:
        if any(one.severity for one in subject.run.results):
            # Commands in these tickets run at the top of the checkout, wherever that is.
            repository = subject.job.repository
            root = Root(Path.cwd() if is_url(repository) else Path(repository))
            paperwork = Paperwork(load_catalog(), batch=1, agent=None, source=".", root=root)
            run = replace(subject.run, id=merged.run.id)
            filed = file_run(run, TicketFolder(tickets / subject.job.name), paperwork)
            count += sum(one.ticket is not None for one in filed.results)
    return count


def markdown_table(merged: Merged) -> str:
    """Return a row for each checkout, a column for each environment: its own findings by severity, of all results.

    Findings of torch itself are counted apart. The reasons of empty cells stand below, each once.
    """
    reasons: list[str] = []
    rows = [["checkout", "revision", *merged.columns], ["---"] * (len(merged.columns) + 2)]
    for one in merged.subjects:
        cells = [_cell(one.replies.get(at), reasons) for at in merged.columns]
        rows.append([cell(one.job.name), f"`{one.job.revision[:10]}`" if one.job.revision else "", *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", *(f"{number}. {cell(reason)}" for number, reason in enumerate(reasons, 1))] if reasons else []
    return "\n".join(lines)


def _cell(reply: Reply | None, reasons: list[str]) -> str:
    if reply is None:
        return "not planned"
    if _answers(reply.run):
        return findings_in_words(reply.run)
    messages = [one.message.partition("\n")[0] for one in reply.run.results]
    why = reply.result.reason or next(iter(messages), "no target was found")
    if why not in reasons:
        reasons.append(why)
    return f"no result ({reasons.index(why) + 1})"


def findings_in_words(run: Run) -> str:
    """Return `2 P1, 1 P3 of 46`: its own findings of the checks with a result; `; torch 3` are those of torch."""
    found = [one for one in run.results if one.outcome is Outcome.REPRODUCED and one.severity]
    counts = Counter(one.severity.value for one in found if one.severity and not one.owner)
    own = ", ".join(f"{count} {severity}" for severity, count in sorted(counts.items())) or "0"
    others = Counter(one.owner.split()[0] for one in found if one.owner)
    return f"{own} of {_answers(run)}" + "".join(f"; {owner} {count}" for owner, count in sorted(others.items()))


def _answers(run: Run) -> int:
    return run.summary["reproduced"] + run.summary["not_reproduced"]


def _job_row(reply: Reply) -> dict[str, object]:
    result = reply.result
    return {
        "key": result.job.key, "name": result.job.name, "status": "failed" if result.run is None else "answered",
        "reason": result.reason, "findings": reply.run.summary["reproduced"], "node": result.node,
        "seconds": result.seconds, "memory_mb": result.memory_mb,
    }  # fmt: skip
