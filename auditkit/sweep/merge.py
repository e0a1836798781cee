"""What the jobs of a sweep said, as one matrix: a row for each question of each checkout, a column for each place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditkit import __version__
from auditkit.audit.matrix import label_arms, over_arms
from auditkit.errors import ExitCode
from auditkit.model.enums import DeviceChoice, Outcome, Severity
from auditkit.model.runs.run import Arm, Environment, NoTarget, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.text import counted
from auditkit.sweep.execution import without_folder
from auditkit.sweep.folder import Answer, Failure, ResultsFolder
from auditkit.sweep.jobs import Job

NO_ANSWER = "sweep_job"
"""What stands for a probe where a checkout has no answer at all."""
_Place = tuple[str, str, str, DeviceChoice]
_Question = tuple[str, str]


@dataclass(frozen=True)
class Told:
    """What one job came to: the run that it gave, or why there is none (`failure`)."""

    job: Job
    run: Run | None
    failure: str = ""

    @property
    def why_silent(self) -> str:
        """Why a question that others answered has no answer here."""
        if self.run is None:
            return self.failure
        return self.run.no_target.message if self.run.no_target is not None else "no such target was found here"


@dataclass(frozen=True)
class Subject:
    """One checkout at one revision: its row of the table, its repository, and what each column said of it.

    `run` is the matrix of it alone, with the names that an audit of it has.
    """

    name: str
    job: Job
    told: Mapping[str, Told]
    run: Run


@dataclass(frozen=True)
class Merged:
    """One matrix run over all subjects, whose names begin with their subject's where there are several."""

    columns: tuple[str, ...]
    subjects: tuple[Subject, ...]
    run: Run


def merge(folder: ResultsFolder, jobs: Sequence[Job]) -> Merged:
    """The matrix of all jobs, in the order of their plan; the same bytes from the same answers, without any times.

    Raises BadInputError where a result cannot be read.
    """
    told = [_told(folder, job) for job in jobs]
    places = list(dict.fromkeys(_place(job) for job in jobs))
    columns = dict(zip(places, _labels(places, told), strict=True))
    by_name: dict[str, list[Told]] = {}
    for one in told:
        by_name.setdefault(one.job.name, []).append(one)
    subjects = tuple(_subject(name, of_name, columns) for name, of_name in by_name.items())
    identity = hashlib.sha256("\n".join(job.key for job in jobs).encode()).hexdigest()[:12]
    return Merged(tuple(columns.values()), subjects, _whole(f"sweep-{identity}", subjects, tuple(columns.values())))


def _place(job: Job) -> _Place:
    return job.environment.interpreter, job.environment.python, job.environment.torch, job.device


def _told(folder: ResultsFolder, job: Job) -> Told:
    answer = folder.read_answer(job.key)
    if answer is not None:
        return Told(job, _without_times(_run_of(answer), job))
    failure = folder.read_failure(job.key)
    return Told(job, None, _sentence(failure) if failure is not None else "not asked: it is planned, and no job ran it")


def _sentence(failure: Failure) -> str:
    what = {"checkout": "no checkout", "environment": "no environment", "lost": "no result"}.get(failure.kind)
    reason = without_folder(failure.reason)
    return f"{what}: {reason}" if what else reason


def _run_of(answer: Answer) -> Run:
    run = Run.from_json(answer.run)
    missing = NoTarget(answer.no_target, answer.no_target_hint) if answer.no_target else None
    return replace(run, no_target=missing)


def _without_times(run: Run, job: Job) -> Run:
    """A run without what no second one would have: its id, its times, where things lay, and what was remembered."""
    results = tuple(
        replace(one, duration_s=0.0, remembered=False, message=without_folder(one.message)) for one in run.results
    )
    environment, notes = replace(run.environment, checkout=job.repository), tuple(map(without_folder, run.notes))
    return replace(run, id="", environment=environment, results=results, notes=notes)


def _labels(places: Sequence[_Place], told: Sequence[Told]) -> tuple[str, ...]:
    """The name of each column: by the environment of the first job that ran there, else by what was planned."""
    found: dict[_Place, Environment] = {}
    for one in told:
        if one.run is not None and one.run.environment.torch:
            found.setdefault(_place(one.job), one.run.environment)
    environments = []
    for place in places:
        interpreter, python, torch, device = place
        planned = Environment("", "", False, python, torch, device.value, "", interpreter or "the checkout's Python")
        is_own = not (interpreter or python or torch)
        environments.append(planned if is_own else found.get(place, planned))
    return label_arms(environments, [device for *_, device in places])


def _subject(name: str, told: Sequence[Told], columns: Mapping[_Place, str]) -> Subject:
    of_column: dict[str, Told] = {}
    for one in told:
        of_column.setdefault(columns[_place(one.job)], one)
    return Subject(name, told[0].job, of_column, _matrix(name, of_column))


def _matrix(name: str, of_column: Mapping[str, Told]) -> Run:
    """The matrix of one subject; every question that one column answered is asked of all."""
    asked: dict[_Question, ProbeResult] = {}
    for one in of_column.values():
        for result in one.run.results if one.run is not None else ():
            asked.setdefault((result.probe, result.fingerprint), result)
    if not asked:
        nothing = ProbeResult(NO_ANSWER, 1, name, Outcome.ERROR, "", fingerprint(NO_ANSWER, name))
        asked = {(NO_ANSWER, nothing.fingerprint): nothing}
    arms = tuple(Arm(label, _completed(one, asked)) for label, one in of_column.items())
    read = [result for result in asked.values() if result.is_of_source]
    columns = zip(*([one for one in arm.run.results if not one.is_of_source] for arm in arms), strict=True)
    results = [*(over_arms(results, arms) for results in columns), *read]
    readings: dict[str, TargetReading] = {}
    for arm in arms:
        for reading in arm.run.targets:
            if not readings.get(reading.target.call, reading).answer:
                readings[reading.target.call] = reading
            readings.setdefault(reading.target.call, reading)
    return Run(
        id="",
        environment=arms[0].run.environment,
        results=tuple(results),
        targets=tuple(readings.values()),
        notes=tuple(_notes(arms)),
        matrix=arms,
    )


def _completed(told: Told, asked: Mapping[_Question, ProbeResult]) -> Run:
    """The run of a job with every question in one order: what it did not answer is an error with its reason."""
    run = told.run if told.run is not None else Run("", _environment(told.job), ())
    own = {(one.probe, one.fingerprint): one for one in run.results}
    results = []
    for question, example in asked.items():
        if question in own:
            results.append(own[question])
        elif not example.is_of_source:
            results.append(_silent(example, told))
    return replace(run, results=tuple(results), no_target=None)


def _silent(example: ProbeResult, told: Told) -> ProbeResult:
    """That nothing is known here of what another column was asked."""
    return ProbeResult(
        probe=example.probe,
        probe_version=example.probe_version,
        target=example.target,
        outcome=Outcome.ERROR,
        message=told.why_silent,
        fingerprint=example.fingerprint,
        location=example.location,
        device=told.job.device.value,
    )


def _environment(job: Job) -> Environment:
    spec = job.environment
    return Environment(
        checkout=job.repository,
        revision=job.revision,
        dirty=False,
        python=spec.python,
        torch=spec.torch,
        device=job.device.value,
        device_name="",
        interpreter=spec.interpreter,
        auditkit=__version__,
    )


def _notes(arms: Sequence[Arm]) -> Iterator[str]:
    """Every note once; one that not all arms have names its arm."""
    said: dict[str, None] = {}
    for arm in arms:
        for note in arm.run.notes:
            shared = all(note in other.run.notes for other in arms)
            said[note if shared else f"{arm.label}: {note}"] = None
    yield from said


def _whole(identity: str, subjects: Sequence[Subject], columns: Sequence[str]) -> Run:
    """All subjects in one run: of several, each name begins with its subject's."""
    if len(subjects) == 1:
        return replace(subjects[0].run, id=identity)
    runs = [_under(subject.name, subject.run) for subject in subjects]
    arms = []
    for label in columns:
        of_label = [arm.run for run in runs for arm in run.matrix if arm.label == label]
        first = of_label[0]
        place = replace(first.environment, checkout=f"{counted(len(subjects), 'checkout')}", revision="", dirty=False)
        arms.append(
            Arm(
                label,
                Run(
                    id=identity,
                    environment=place,
                    results=tuple(result for run in of_label for result in run.results),
                    targets=tuple(reading for run in of_label for reading in run.targets),
                ),
            )
        )
    return Run(
        id=identity,
        environment=arms[0].run.environment,
        results=tuple(result for run in runs for result in run.results),
        targets=tuple(reading for run in runs for reading in run.targets),
        notes=tuple(f"{subject.name}: {note}" for subject in subjects for note in subject.run.notes),
        matrix=tuple(arms),
    )


def _under(name: str, run: Run) -> Run:
    """A run whose targets, files and fingerprints begin with the name of their checkout."""
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
    place, statement, excerpt = one.location, one.statement, one.excerpt
    return replace(
        one,
        target=target,
        fingerprint=f"{head}{target}{tail}" if mark else one.fingerprint,
        location=replace(place, file=f"{name}/{place.file}") if place is not None else None,
        statement=replace(statement, file=f"{name}/{statement.file}") if statement is not None else None,
        excerpt=replace(excerpt, file=f"{name}/{excerpt.file}") if excerpt is not None else None,
    )


def exit_code(merged: Merged, fail_on: Severity) -> ExitCode:
    """Findings at or above `fail_on` come first, then anything without an answer, in any column."""
    results = [one for arm in merged.run.matrix for one in arm.run.results]
    if any(one.severity and one.severity.at_least(fail_on) for one in (*results, *merged.run.results)):
        return ExitCode.FINDINGS
    silent = any(told.run is None or told.run.no_target for one in merged.subjects for told in one.told.values())
    has_error = any(one.outcome is Outcome.ERROR for one in results)
    return ExitCode.NOTHING_MEASURED if silent or has_error else ExitCode.OK


def read_sweep(path: Path) -> tuple[ResultsFolder, list[Job]]:
    """A results folder and what was planned in it last. Raises BadInputError where it is none."""
    folder = ResultsFolder(path.absolute())
    return folder, folder.plan()
