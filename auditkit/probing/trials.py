"""Try candidates for real: which of them can be fed, how, and what they return."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from auditkit.model.enums import SPECTRAL, Contract, Reason, Takes
from auditkit.model.target import Target
from auditkit.probing.discovery.candidates import Candidate
from auditkit.probing.results import Setting
from auditkit.probing.sandbox import Worker, make_request

TRIAL_TIME_LIMIT_S = 30.0


@dataclass(frozen=True)
class Trial:
    """What trying a candidate showed: a target that works with its plan, or the reason why none does."""

    candidate: Candidate
    target: Target
    plan: dict[str, Any] | None = None
    reason: Reason | None = None
    message: str = ""

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
        for (index, target), outcome in zip(batch, _try(batch, candidates, setting, progress), strict=True):
            trial = _trial(candidates[index], target, outcome)
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
) -> list[dict[str, Any]]:
    """The message that settles each trial, in order; an empty one where the worker ended before."""
    jobs = []
    for position, (index, target) in enumerate(batch):
        order = [takes.value for takes in candidates[index].takes_guesses]
        # What a collector of gradients promises shows in its answer; what the others promise has to be asked for.
        contract = target.contract.value if target.contract in SPECTRAL else None
        request = {**target.to_json(), "contract": contract, "takes_order": order}
        jobs.append({"id": str(position), "kind": "plan", "target": request})
    settled: list[dict[str, Any]] = [{} for _ in batch]
    current = -1
    for message in _worker(jobs, setting).messages():
        kind = message.get("type")
        if kind == "load_error" and current < 0:
            return [message for _ in batch]  # the interpreter itself: no torch
        if kind == "start":
            current = int(message["job"])
            if progress is not None:
                progress(batch[current][1].call)
        elif kind in ("plan", "failed", "load_error") or (kind == "end" and not settled[current]):
            settled[current] = message
    return settled


def _worker(jobs: list[dict[str, Any]], setting: Setting) -> Worker:
    limit_s = min(setting.time_limit_s, TRIAL_TIME_LIMIT_S)
    request = make_request(None, setting.checkout, setting.import_roots, jobs, limit_s)
    return Worker(setting.interpreter, request, setting.time_limit_s, setting.cancelled)


def _trial(candidate: Candidate, target: Target, message: dict[str, Any]) -> Trial:
    if message.get("type") == "plan":
        plan = message["plan"]
        found = replace(target, takes=Takes(plan["feed"]["takes"]), contract=Contract(plan["contract"]))
        if plan["feed"]["setup"]:
            found = replace(found, setup=plan["feed"]["setup"])
        return Trial(candidate, found, plan)
    hint = f" ({message['hint']})" if message.get("hint") else ""
    text = str(message.get("message", "the worker ended before it was tried")) + hint
    return Trial(candidate, target, None, Reason(message.get("reason", "protocol")), text)
