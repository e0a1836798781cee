"""Try candidates for real: which of them can be fed, how, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from auditkit.model.codec import Record
from auditkit.model.enums import SPECTRAL, Contract, Reason, Takes
from auditkit.model.runs.target import Target, split_call
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.hosts import protocol
from auditkit.probing.hosts.sandbox import Setting
from auditkit.probing.hosts.session import Failure, Job, Session

TRIAL_TIME_LIMIT_S = 30.0


@dataclass(frozen=True)
class Trial(
    Record,
    keys="call=target.call works contract=target.contract takes=target.takes finish=target.finish setup=target.setup "
    "message",
):
    """What trying a candidate showed: a target that works with its plan, or the reason why none does.

    `missing` are the modules that it imports and nobody has.
    """

    candidate: Candidate
    target: Target
    plan: protocol.Plan | None = None
    reason: Reason | None = None
    message: str = ""
    missing: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        return self.plan is not None


def try_candidates(
    candidates: Sequence[Candidate], setting: Setting, progress: Callable[[str], None] | None = None
) -> list[Trial]:
    """One trial for each candidate, in order; its other guesses are tried where the first one fails.

    Nothing here judges: a trial only finds a way to feed the function that gives an answer.
    """
    trials: dict[int, Trial] = {}
    waiting = list(range(len(candidates)))
    for attempt in range(max((len(_variants(candidate)) for candidate in candidates), default=0)):
        batch = [
            (index, _variants(candidates[index])[attempt]) for index in waiting if _has(candidates[index], attempt)
        ]
        if not batch:
            break
        for (index, _), trial in zip(batch, _try(batch, candidates, setting, progress), strict=True):
            if trial.works or index not in trials:
                trials[index] = trial
        waiting = [index for index in waiting if not trials[index].works]
    return [trials[index] for index in sorted(trials)]


def _variants(candidate: Candidate) -> list[Target]:
    """The target as guessed, then with each other finishing step, then without one; fed in any way."""
    base = replace(candidate.as_target(), takes=None)
    finishes: list[str | None] = [*candidate.finish_candidates, None]
    return [replace(base, finish=finish) for finish in finishes]


def _has(candidate: Candidate, attempt: int) -> bool:
    return attempt < len(_variants(candidate))


def _try(
    batch: Sequence[tuple[int, Target]],
    candidates: Sequence[Candidate],
    setting: Setting,
    progress: Callable[[str], None] | None,
) -> Iterator[Trial]:
    """A trial of each target of the batch, in order; those of one module share an import of it."""
    jobs: dict[str, list[protocol.Job]] = {}
    for position, (index, target) in enumerate(batch):
        order = [takes.value for takes in candidates[index].takes_guesses]
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
    for position, (index, target) in enumerate(batch):
        yield _trial(candidates[index], target, settled[position])


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
