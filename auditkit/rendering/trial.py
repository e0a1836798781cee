"""What trying a fix showed, as the machine-written block of its ticket."""

from __future__ import annotations

from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import ChangeKind, FixTrial, TriedArm
from auditkit.model.runs.run import Run
from auditkit.rendering.environment import render

_NO_RUN = "did not run"


def render_trial(trial: FixTrial) -> bytes:
    """The block with both its markers. It has no fingerprint: it is no finding."""
    arms = [arm for arm in trial.arms if arm.run is not None]
    return render(
        "trial.md.j2",
        trial=trial,
        environment=trial.base.environment,
        device=_devices(trial.base),
        arms=arms,
        rows=trial_rows(trial),
    )


def trial_rows(trial: FixTrial) -> list[tuple[str, str, list[str]]]:
    """For each probe that a fix was about or changed: its id, its answer at the base, its answer in each arm."""
    arms = [arm for arm in trial.arms if arm.run is not None]
    told = [probe for probe in _probes(trial.base) if any(_is_telling(arm, probe) for arm in arms)]
    return [
        (probe, answer_of(trial.base, probe), [answer_of(arm.run, probe) for arm in arms if arm.run]) for probe in told
    ]


def answer_of(run: Run, probe: str) -> str:
    """`reproduced (3n+1)`: an outcome and the law or the message behind it."""
    result = next((result for result in run.results if result.probe == probe), None)
    if result is None:
        return _NO_RUN
    outcome = result.outcome.value.replace("_", " ")
    speaks_for_itself = result.outcome in (Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE)
    more = result.law or ("" if speaks_for_itself else result.message)
    return f"{outcome} ({more})" if more else outcome


def _probes(run: Run) -> list[str]:
    ordered = sorted(run.results, key=lambda result: (result.severity.value if result.severity else "P9", result.probe))
    return [result.probe for result in ordered]


def _is_telling(arm: TriedArm, probe: str) -> bool:
    change = next((change for change in arm.judgement.changes if change.probe == probe), None)
    return change is not None and (change.is_finding or change.kind is not ChangeKind.SAME)


def _devices(run: Run) -> str:
    found = dict.fromkeys(result.device for result in run.results if result.measurements)
    return " and ".join(found) or run.environment.device
