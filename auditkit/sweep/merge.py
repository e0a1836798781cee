"""Merge the results of a sweep: a row for each check of each checkout, a column for each environment and device."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit import __version__
from auditkit.audit.matrix import label_arms, notes_of, over_arms
from auditkit.errors import ExitCode
from auditkit.model.enums import DeviceChoice, Outcome, Severity
from auditkit.model.runs.run import Arm, Environment, NoTarget, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.text import counted
from auditkit.sweep.execution import without_folder
from auditkit.sweep.folder import ResultsFolder
from auditkit.sweep.jobs import Job

NO_ANSWER = "sweep_job"
"""The probe of a result for a checkout without any result."""
_Place = tuple[str, str, str, DeviceChoice]
_WHAT = {"checkout": "no checkout: ", "environment": "no environment: ", "lost": "no result: "}


@dataclass(frozen=True)
class Reply:
    """What one job returned: its run, or why there is none (`failure`)."""

    job: Job
    run: Run | None
    failure: str = ""

    @property
    def why_silent(self) -> str:
        """Return why a check that ran elsewhere has no result here."""
        if self.run is None:
            return self.failure
        return self.run.no_target.message if self.run.no_target is not None else "no such target was found here"


@dataclass(frozen=True)
class Subject:
    """One checkout at one revision: its row of the table, and the reply of each column.

    `run` is the matrix of it alone, with the names that an audit of it has.
    """

    name: str
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
    places = list(dict.fromkeys(_place(job) for job in jobs))
    columns = dict(zip(places, _labels(places, replies), strict=True))
    by_name: dict[str, dict[str, Reply]] = {}
    for one in replies:
        by_name.setdefault(one.job.name, {}).setdefault(columns[_place(one.job)], one)
    subjects = tuple(
        Subject(name, next(iter(of_name.values())).job, of_name, _matrix(name, of_name))
        for name, of_name in by_name.items()
    )
    identity = hashlib.sha256("\n".join(job.key for job in jobs).encode()).hexdigest()[:12]
    return Merged(tuple(columns.values()), subjects, _whole(f"sweep-{identity}", subjects, tuple(columns.values())))


def _place(job: Job) -> _Place:
    return job.environment.interpreter, job.environment.python, job.environment.torch, job.device


def _reply(folder: ResultsFolder, job: Job) -> Reply:
    """Return a job's reply, without what no second run has: ids, times, and where things lay."""
    answer = folder.read_answer(job.key)
    if answer is None:
        failure = folder.read_failure(job.key)
        if failure is None:
            return Reply(job, None, "not run: it is planned, and no job ran it")
        return Reply(job, None, f"{_WHAT.get(failure.kind, '')}{without_folder(failure.reason)}")
    run = Run.from_json(answer.run)
    results = tuple(
        replace(one, duration_s=0.0, remembered=False, message=without_folder(one.message)) for one in run.results
    )
    return Reply(job, replace(
        run,
        id="",
        environment=replace(run.environment, checkout=job.repository),
        results=results,
        notes=tuple(map(without_folder, run.notes)),
        no_target=NoTarget(answer.no_target, answer.no_target_hint) if answer.no_target else None,
    ))  # fmt: skip


def _labels(places: Sequence[_Place], replies: Sequence[Reply]) -> tuple[str, ...]:
    """Return the name of each column: of the environment of the first job that ran there, else as planned."""
    found: dict[_Place, Environment] = {}
    for one in replies:
        if one.run is not None and one.run.environment.torch:
            found.setdefault(_place(one.job), one.run.environment)
    environments = []
    for place in places:
        interpreter, python, torch, device = place
        planned = Environment("", "", False, python, torch, device.value, "", interpreter or "the checkout's Python")
        environments.append(planned if not (interpreter or python or torch) else found.get(place, planned))
    return label_arms(environments, [device for *_, device in places])


def _matrix(name: str, replies: Mapping[str, Reply]) -> Run:
    """Return the matrix of one subject; every check that ran in one column is a row of all."""
    examples: dict[tuple[str, str], ProbeResult] = {}
    for reply in replies.values():
        for result in reply.run.results if reply.run is not None else ():
            examples.setdefault((result.probe, result.fingerprint), result)
    if not examples:
        nothing = ProbeResult(NO_ANSWER, 1, name, Outcome.ERROR, "", fingerprint(NO_ANSWER, name))
        examples = {(NO_ANSWER, nothing.fingerprint): nothing}
    arms = tuple(Arm(label, _completed(reply, examples)) for label, reply in replies.items())
    columns = zip(*([one for one in arm.run.results if not one.is_of_source] for arm in arms), strict=True)
    results = [over_arms(results, arms) for results in columns]
    readings: dict[str, TargetReading] = {}
    for reading in (reading for arm in arms for reading in arm.run.targets):
        if not readings.get(reading.target.call, reading).answer:
            readings[reading.target.call] = reading
        readings.setdefault(reading.target.call, reading)
    return Run(
        id="",
        environment=arms[0].run.environment,
        results=(*results, *(result for result in examples.values() if result.is_of_source)),
        targets=tuple(readings.values()),
        notes=notes_of(arms),
        matrix=arms,
    )


def _completed(reply: Reply, examples: Mapping[tuple[str, str], ProbeResult]) -> Run:
    """Return the run of a job with every check in one order; one without a result is an error with its reason."""
    job, spec = reply.job, reply.job.environment
    run = reply.run or Run("", Environment(
        job.repository, job.revision, False, spec.python, spec.torch, job.device.value, "", spec.interpreter,
        auditkit=__version__,
    ), ())  # fmt: skip
    own = {(one.probe, one.fingerprint): one for one in run.results}
    results = tuple(
        own[question] if question in own else ProbeResult(
            one.probe, one.probe_version, one.target, Outcome.ERROR, reply.why_silent, one.fingerprint,
            location=one.location, device=job.device.value,
        )
        for question, one in examples.items()
        if question in own or not one.is_of_source
    )  # fmt: skip
    return replace(run, results=results, no_target=None)


def _whole(identity: str, subjects: Sequence[Subject], columns: Sequence[str]) -> Run:
    """Return all subjects in one run: of several, each name begins with its subject's."""
    if len(subjects) == 1:
        return replace(subjects[0].run, id=identity)
    runs = [_under(subject.name, subject.run) for subject in subjects]
    arms = []
    for label in columns:
        parts = [arm.run for run in runs for arm in run.matrix if arm.label == label]
        place = replace(parts[0].environment, checkout=counted(len(subjects), "checkout"), revision="", dirty=False)
        arms.append(Arm(label, _joined(identity, place, parts)))
    notes = tuple(f"{subject.name}: {note}" for subject in subjects for note in subject.run.notes)
    return replace(_joined(identity, arms[0].run.environment, runs), notes=notes, matrix=tuple(arms))


def _joined(identity: str, environment: Environment, runs: Sequence[Run]) -> Run:
    results = tuple(result for run in runs for result in run.results)
    return Run(identity, environment, results, tuple(reading for run in runs for reading in run.targets))


def _under(name: str, run: Run) -> Run:
    """Return a run whose targets, files and fingerprints begin with the name of their checkout."""
    return replace(
        run,
        results=tuple(_result_under(name, one) for one in run.results),
        targets=tuple(
            replace(one, target=replace(one.target, call=f"{name}/{one.target.call}")) for one in run.targets
        ),
        matrix=tuple(Arm(arm.label, _under(name, arm.run)) for arm in run.matrix),
    )


def _result_under(name: str, one: ProbeResult) -> ProbeResult:
    target = one.target if one.probe == NO_ANSWER else f"{name}/{one.target}"
    head, mark, tail = one.fingerprint.partition(one.target)
    places = {
        key: replace(place, file=f"{name}/{place.file}")
        for key in ("location", "statement", "excerpt")
        if (place := getattr(one, key)) is not None
    }
    return replace(one, target=target, fingerprint=f"{head}{target}{tail}" if mark else one.fingerprint, **places)


def exit_code(merged: Merged, fail_on: Severity) -> ExitCode:
    """Return FINDINGS for findings at or above `fail_on`, else NOTHING_MEASURED for anything without a result."""
    results = [one for arm in merged.run.matrix for one in arm.run.results]
    if any(one.severity and one.severity.at_least(fail_on) for one in (*results, *merged.run.results)):
        return ExitCode.FINDINGS
    silent = any(one.run is None or one.run.no_target for each in merged.subjects for one in each.replies.values())
    has_error = any(one.outcome is Outcome.ERROR for one in results)
    return ExitCode.NOTHING_MEASURED if silent or has_error else ExitCode.OK


def read_sweep(path: Path) -> tuple[ResultsFolder, list[Job]]:
    """Return a results folder and its last plan. Raises BadInputError if it is none."""
    folder = ResultsFolder(path.absolute())
    return folder, folder.plan()
