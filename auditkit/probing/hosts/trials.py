"""Try candidates for real: which of them can be fed, how, and what they return."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from auditkit.model.codec import Record
from auditkit.model.enums import SPECTRAL, Contract, Reason, Takes
from auditkit.model.runs.target import Target, split_call
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.hosts import protocol
from auditkit.probing.hosts.sandbox import Setting
from auditkit.probing.hosts.session import Failure, Job, Session

TRIAL_TIME_LIMIT_S = 30.0
_WANTED = re.compile(r"--argument (\S+)=VALUE")
_PLAIN_VALUES: tuple[Any, ...] = (None, 1.0, {})
"""What a command line can give and what most often does: no group or logger, a limit, no settings."""
_MOST_REMEDIED, _MOST_ARGUMENTS = 8, 3


@dataclass(frozen=True)
class Trial(
    Record,
    keys="call=target.call works contract=target.contract takes=target.takes finish=target.finish setup=target.setup "
    "message",
):
    """What trying a candidate showed: a target that works with its plan, or the reason why none does.

    `missing` are the modules that it imports and nobody has; `remedy` are arguments that make it answer, which were
    tried.
    """

    candidate: Candidate
    target: Target
    plan: protocol.Plan | None = None
    reason: Reason | None = None
    message: str = ""
    missing: tuple[str, ...] = ()
    remedy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        return self.plan is not None

    @property
    def is_not_loaded(self) -> bool:
        return self.reason is not None and self.reason.is_not_loaded


def try_candidates(
    candidates: Sequence[Candidate], setting: Setting, progress: Callable[[str], None] | None = None
) -> list[Trial]:
    """One trial for each candidate, in order; its other guesses are tried where the first one fails.

    Nothing here judges: a trial only finds a way to feed the function that gives an answer.
    """
    trials: dict[int, Trial] = {}
    guesses = [_variants(candidate) for candidate in candidates]
    waiting = list(range(len(candidates)))
    for attempt in range(max(map(len, guesses), default=0)):
        batch = [index for index in waiting if attempt < len(guesses[index])]
        tried = _try([(candidates[index], guesses[index][attempt]) for index in batch], setting, progress)
        for index, trial in zip(batch, tried, strict=True):
            if trial.works or index not in trials:
                trials[index] = trial
        # What cannot be loaded is loaded by no other guess.
        waiting = [index for index in batch if not (trials[index].works or trials[index].is_not_loaded)]
    return [trials[index] for index in sorted(trials)]


def with_remedies(trials: Sequence[Trial], setting: Setting) -> list[Trial]:
    """The trials; those that want an argument with plain values that make them answer, where some do.

    Of the likeliest alone: each value is a call in a process of its own.
    """
    remedied = list(trials)
    wanting = [index for index, trial in enumerate(trials) if _wanted(trial)][:_MOST_REMEDIED]
    last = {index: (trials[index], dict(trials[index].target.arguments)) for index in wanting}
    for _ in range(_MOST_ARGUMENTS):
        asked = [
            (index, {**given, _wanted(trial): value})
            for index, (trial, given) in last.items()
            for value in _PLAIN_VALUES
        ]
        batch = [(trials[index].candidate, replace(trials[index].target, arguments=given)) for index, given in asked]
        last = {}
        for (index, given), trial in zip(asked, _try(batch, setting, None), strict=True):
            if trial.works and not remedied[index].remedy:
                remedied[index] = replace(trials[index], remedy=given)
            elif index not in last and _wanted(trial) not in ("", *given):
                last[index] = (trial, given)
        last = {index: tried for index, tried in last.items() if not remedied[index].remedy}
    return remedied


def _wanted(trial: Trial) -> str:
    """The argument that a target lacks by its own words; "" where that is not what stops it."""
    named = _WANTED.search(trial.message) if trial.reason is Reason.CANNOT_FEED else None
    return named[1] if named else ""


def _variants(candidate: Candidate) -> list[Target]:
    """The target as guessed, then with each other finishing step, then without one; fed in any way."""
    base = replace(candidate.as_target(), takes=None)
    finishes: list[str | None] = [*candidate.finish_candidates, None]
    return [replace(base, finish=finish) for finish in finishes]


def _try(
    batch: Sequence[tuple[Candidate, Target]], setting: Setting, progress: Callable[[str], None] | None
) -> Iterator[Trial]:
    """A trial of each target of the batch, in order; those of one module share an import of it."""
    jobs: dict[str, list[protocol.Job]] = {}
    for position, (candidate, target) in enumerate(batch):
        order = [takes.value for takes in candidate.takes_guesses]
        # What a collector of gradients promises shows in its answer; what the others promise has to be asked for.
        contract = target.contract.value if target.contract in SPECTRAL else None
        request = {**vars(target), "contract": contract, "takes_order": order}
        place, _, statement = split_call(target.call)
        module = "" if statement else place  # around a block is what an import would run
        jobs.setdefault(module, []).append({"id": str(position), "kind": "plan", "target": request})

    def started(position: str) -> None:
        if progress is not None:
            progress(batch[int(position)][1].call)

    limited = replace(setting, time_limit_s=min(setting.time_limit_s, TRIAL_TIME_LIMIT_S))
    settled: dict[int, Job] = {}
    for module, of_module in jobs.items():
        settled |= _settle(limited, module, of_module, started)
    for position, (candidate, target) in enumerate(batch):
        yield _trial(candidate, target, settled[position])


def _settle(
    setting: Setting, module: str, jobs: Sequence[protocol.Job], started: Callable[[str], None]
) -> dict[int, Job]:
    """The trials of one module's targets, by the number that is their id."""
    session = Session(setting, jobs, module=module)
    settled = {int(job.id): job for job in session.jobs(started)}
    if session.fork_refusal:
        session = Session(setting, jobs, module=module, fresh_imports=True)
        settled = {int(job.id): job for job in session.jobs(started)}
    return {int(job["id"]): settled.get(int(job["id"])) or Job(failure=session.failure) for job in jobs}


def _trial(candidate: Candidate, target: Target, job: Job) -> Trial:
    plan = job.plan
    if plan is None:
        failure = job.failure or Failure(Reason.PROTOCOL, "the worker ended before it was tried")
        # What to install is said once for the whole checkout.
        message = failure.message if failure.missing else failure.describe()
        return Trial(candidate, target, None, failure.reason, message, failure.missing)
    found = replace(target, takes=Takes(plan["feed"]["takes"]), contract=Contract(plan["contract"]))
    return Trial(candidate, replace(found, setup=plan["feed"]["setup"] or found.setup), plan)
