"""Describe the candidates that discovery found: for the run's JSON, for its first lines, and for a failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditkit.model.codec import encode
from auditkit.model.enums import Contract, Reason
from auditkit.model.runs.candidates import FoundCandidate, by_reason
from auditkit.model.runs.run import Run
from auditkit.model.text import counted
from auditkit.probing.engine.trials import Trial
from auditkit.probing.find.candidates import Candidate
from auditkit.probing.source.files import LeftOut

_UNTRIED = re.compile(r"[:;] give [^:;]*--argument \S+=VALUE")
_MOST_NAMED, _MOST_PLACES = 3, 2


def told(trials: Sequence[Trial], excluded: Sequence[Candidate], left_out: LeftOut) -> tuple[FoundCandidate, ...]:
    """Return each candidate once, preferring a trial that works; then the candidates of excluded files."""
    best: dict[str, Trial] = {}
    for trial in trials:
        is_step = trial.target.contract is Contract.TRAIN_STEP
        key = repr((trial.target.call, trial.target.arguments if trial.target.places else (), is_step))
        if key not in best or (trial.works and not best[key].works):
            best[key] = trial
    out = (FoundCandidate(each.call, each.file, each.line, each.contract_guess) for each in excluded)
    return (*map(candidate_of, best.values()), *(replace(each, excluded=left_out.place_of(each.file)) for each in out))


def candidate_of(trial: Trial) -> FoundCandidate:
    """Describe a candidate by its trial."""
    found, target = trial.candidate, trial.target
    plan: Mapping[str, Any] = {} if trial.plan is None else dict(trial.plan)
    why_not = "" if trial.works else _UNTRIED.sub("", trial.message.removeprefix(f"{target.call}: "))
    return FoundCandidate(
        call=target.call,
        file=found.file,
        line=found.line,
        contract=target.contract,
        fed=trial.works,
        rung=trial.loaded_by.rung,
        placeholders=trial.loaded_by.placeholders,
        filled={name: str(encode(value)) for name, value in plan.get("filled", {}).items()},
        why_not=why_not,
        reason=trial.reason,
        places=target.places,
    )


def configured_lines(run: Run) -> Iterator[str]:
    """Say how many targets auditkit.yaml names, and whether it switches discovery off."""
    count = counted(sum(not each.found for each in run.targets), "target")
    if run.discovery_off:
        yield f"Discovery is off (discover: false): auditkit checked only the {count} of auditkit.yaml, no new code"
    elif any(not each.excluded for each in run.candidates) and any(not each.found for each in run.targets):
        yield f"{count} in auditkit.yaml; auditkit found more:"


def summary_lines(candidates: Sequence[FoundCandidate]) -> Iterator[str]:
    """Say how many candidates were found and checked, how they were loaded, and why the others were not checked."""
    known = [each for each in candidates if not each.excluded]
    if not known:
        yield from left_out_lines(candidates)
        return
    asked = [each for each in known if each.fed]
    ways = ", ".join(_loaded(asked))
    steps = sum(each.contract is Contract.TRAIN_STEP for each in known)
    unread = sum(each.reason is Reason.NOT_PARSED for each in known)
    kinds = ((len(known) - steps - unread, "collector"), (steps, "training step"))
    counts = " and ".join(counted(count, kind) for count, kind in kinds if count) or "no collector"
    yield f"{counts} found, {len(asked)} checked" + (f" ({ways})" if ways else "")
    for each in known:
        if each.places:
            yield f"    {called(each)}"
    yield from not_asked_lines(known)
    yield from left_out_lines(candidates)


def left_out_lines(candidates: Iterable[FoundCandidate]) -> Iterator[str]:
    """Say in one line how many functions discovery left out for each reason or folder."""
    counts = Counter(each.excluded for each in candidates if each.excluded)
    if counts:
        reasons = "; ".join(f"{count}: {reason}" for reason, count in counts.most_common())
        yield f"    {counts.total()} left out (-v names each): {reasons}"


def called(candidate: FoundCandidate) -> str:
    """`torch.nn.utils.clip_grad_norm_: called at 7 places (train.py:312, ...)`."""
    places = [place.partition(" in ")[0] for place in candidate.places]
    listed = ", ".join([*places[:_MOST_PLACES], *(["..."] if places[_MOST_PLACES:] else [])])
    return f"{candidate.call.replace(':', '.')}: called at {counted(len(places), 'place')} ({listed})"


def not_asked_lines(candidates: Iterable[FoundCandidate]) -> Iterator[str]:
    """Say each reason once, with the first names of the candidates that it stopped."""
    for reason, stopped in by_reason(candidates).items():
        if len(stopped) == 1:
            yield f"    1 not checked: {stopped[0].call}: {stopped[0].why_not}"
            continue
        names = ", ".join(each.call for each in stopped[:_MOST_NAMED])
        more = f" and {len(stopped) - _MOST_NAMED} more" if stopped[_MOST_NAMED:] else ""
        yield f"    {len(stopped)} not checked, {reason}: {names}{more}"


def _loaded(asked: Sequence[FoundCandidate]) -> Iterator[str]:
    """Count the functions that were not loaded as part of their package, and name the stubs for missing packages."""
    cut_out = [each for each in asked if each.rung == "cut_out"]
    absent = sorted({name for each in cut_out for name in each.placeholders})
    if cut_out:
        yield f"{len(cut_out)} cut out of their file" + (f", with stubs for {', '.join(absent)}" if absent else "")


def table(candidates: Iterable[FoundCandidate]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a row for each candidate (name, fed or not, how it was loaded, filled arguments), and a line on why not."""
    yield ("found", "fed", "rung", "filled"), ""
    for each in candidates:
        filled = ", ".join(f"{name}={value}" for name, value in each.filled.items())
        why = f"left out: {each.excluded}" if each.excluded else each.why_not
        place = "" if each.places else f" at {each.file}:{each.line}"
        yield (f"{each.call}{place}", "yes" if each.fed else "no", each.rung, filled), why
