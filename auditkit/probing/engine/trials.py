"""Try candidates: which of them can be fed, how, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from auditkit.model.codec import Record
from auditkit.model.enums import ASKED_FOR, Contract, Reason, Takes
from auditkit.model.runs.target import Target
from auditkit.probing.engine import protocol
from auditkit.probing.engine.protocol import Failure, LoadedBy
from auditkit.probing.engine.runner import in_parallel
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.session import Job, Session, module_of
from auditkit.probing.find.candidates import Candidate
from auditkit.worker.serve.loading import OF_BLOCKS
from auditkit.worker.steps.roles import IMPORTED_BY_STEPS

TRIAL_TIME_LIMIT_S = 30.0
_PARALLEL_WORKERS = 2


@dataclass(frozen=True)
class Trial(
    Record,
    keys="call=target.call works contract=target.contract takes=target.takes finish=target.finish setup=target.setup "
    "message",
):
    """The result of trying a candidate: a target that works with its plan, or the reason why none does.

    `missing` are modules that are not installed; `loaded_by` is how a working one was loaded.
    """

    candidate: Candidate
    target: Target
    plan: protocol.Plan | None = None
    reason: Reason | None = None
    message: str = ""
    missing: tuple[str, ...] = ()
    loaded_by: LoadedBy = field(default_factory=LoadedBy)

    @property
    def works(self) -> bool:
        return self.plan is not None

    @property
    def may_be_guessed_again(self) -> bool:
        """Whether another guess may succeed: a module that cannot be loaded fails for all."""
        return not (self.works or (self.reason is not None and self.reason.is_not_loaded))


def try_candidates(
    candidates: Sequence[Candidate],
    setting: Setting,
    progress: Callable[[str], None] | None = None,
    imports: Sequence[str] = (),
) -> list[Trial]:
    """Return one trial for each candidate, in order; if its first guess fails, try its others.

    A trial finds a way to feed the function, and judges nothing. Candidates of one package are tried together, so that
    it is imported once, and so are all blocks; two packages run at a time. `imports` are parts of torch that several of
    their files need.
    """
    packages: dict[str, list[int]] = {}
    for index, candidate in enumerate(candidates):
        module = module_of(candidate.call)
        package = module.partition(".")[0] if not module.endswith(".py") else module
        packages.setdefault(OF_BLOCKS if module.endswith(OF_BLOCKS) else package, []).append(index)
    limit_s = min(setting.time_limit_s, TRIAL_TIME_LIMIT_S)
    trials = _Trials(candidates, replace(setting, time_limit_s=limit_s), progress, imports)
    in_parallel(trials.settle, packages.values(), _PARALLEL_WORKERS, setting.cancelled)
    return [trials.done[index] for index in range(len(candidates))]


class _Trials:
    """The candidates of a checkout and their trials; each call of `settle` handles one package."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        setting: Setting,
        progress: Callable[[str], None] | None,
        imports: Sequence[str],
    ) -> None:
        self._candidates, self._setting, self._progress = candidates, setting, progress
        has_steps = any(each.contract_guess is Contract.TRAIN_STEP for each in candidates)
        self._imports = [*imports, *([IMPORTED_BY_STEPS] if has_steps else [])]
        self._loaded_together: dict[str, tuple[str, ...]] = {}
        self.done: dict[int, Trial] = {}

    def settle(self, indices: Sequence[int]) -> None:
        """Try some candidates of one package: with their first guesses, then with others."""
        guesses = {index: _variants(self._candidates[index]) for index in indices}
        for attempt in range(max(map(len, guesses.values()))):
            waiting = [index for index in indices if index not in self.done or self.done[index].may_be_guessed_again]
            asked = [(index, guesses[index][attempt]) for index in waiting if attempt < len(guesses[index])]
            for index, trial in self._try(asked):
                if trial.works or index not in self.done:
                    self.done[index] = trial

    def _try(self, asked: Sequence[tuple[int, Target]]) -> list[tuple[int, Trial]]:
        """Return a trial of each target, all of one package, with the index of its candidate."""
        if not asked:
            return []
        jobs: list[protocol.Job] = []
        for position, (_, target) in enumerate(asked):
            # A collector's contract is found from its result; other contracts must be named.
            contract = target.contract.value if target.contract in ASKED_FOR else None
            request = {**vars(target), "contract": contract}
            jobs.append({"id": str(position), "kind": "plan", "target": request, "imports": self._imports})

        def started(position: str) -> None:
            if self._progress is not None:
                self._progress(asked[int(position)][1].call)

        settled = self._settle(jobs, started)
        return [
            (index, _trial(self._candidates[index], target, settled[position]))
            for position, (index, target) in enumerate(asked)
        ]

    def _settle(self, jobs: Sequence[protocol.Job], started: Callable[[str], None]) -> dict[int, Job]:
        """Return the trials by the index that is their id; modules that fail together are loaded again, each alone."""
        settled: dict[int, Job] = {}
        waiting, together = list(jobs), tuple(dict.fromkeys(map(_module_of_job, jobs)))
        while waiting:
            groups: dict[tuple[str, ...], list[protocol.Job]] = {}
            for job in waiting:
                groups.setdefault(self._loaded_together.get(_module_of_job(job), together), []).append(job)
            waiting = []
            for modules, of_group in groups.items():
                found = _run(self._setting, modules, of_group, started)
                settled |= found
                for job in of_group:
                    is_alone = len(modules) > 1 and not _is_loaded(found[int(job["id"])])
                    self._loaded_together[_module_of_job(job)] = (_module_of_job(job),) if is_alone else modules
                    waiting += [job] if is_alone else []
        return settled


def _module_of_job(job: protocol.Job) -> str:
    target = job["target"]
    assert target is not None
    return module_of(str(target["call"]))


def _is_loaded(job: Job) -> bool:
    return job.failure is None or not job.failure.reason.is_not_loaded


def _run(
    setting: Setting, modules: Sequence[str], jobs: Sequence[protocol.Job], started: Callable[[str], None]
) -> dict[int, Job]:
    """Return the trials of some modules' targets."""
    session = Session(setting, jobs, modules=modules)
    settled = {int(job.id): job for job in session.jobs(started)}
    return {int(job["id"]): settled.get(int(job["id"])) or Job(failure=session.failure) for job in jobs}


def _variants(candidate: Candidate) -> list[Target]:
    """Return the target as guessed, then with each other finishing step, then without one; fed in any way."""
    base = replace(candidate.as_target(), takes=None)
    finishes: list[str | None] = [*candidate.finish_candidates, None]
    return [replace(base, finish=finish) for finish in finishes]


def _trial(candidate: Candidate, target: Target, job: Job) -> Trial:
    plan = job.plan
    if plan is None:
        failure = job.failure or Failure(Reason.PROTOCOL, "the worker ended before it was tried")
        # The report says once, for the whole checkout, what to install.
        message = failure.message if failure.missing else failure.describe()
        return Trial(candidate, target, None, failure.reason, message, failure.missing)
    found = replace(target, takes=Takes(plan["feed"]["takes"]), contract=Contract(plan["contract"]))
    return Trial(candidate, replace(found, setup=plan["feed"]["setup"] or found.setup), plan, loaded_by=job.loaded_by)
