"""Several interpreters and devices in one job: what distinguishes the arms, and one result over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.model.runs.run import Arm, ArmOutcome, Environment, ProbeResult, Run

_WEIGHT = (
    Outcome.REPRODUCED, Outcome.ERROR, Outcome.UNAVAILABLE, Outcome.NOT_REPRODUCED, Outcome.NOT_APPLICABLE,
)  # fmt: skip
"""Which arm's outcome counts: a finding anywhere is one, and an error or an absence is never a pass."""


def combine(runs: Sequence[Run], devices: Sequence[DeviceChoice]) -> Run:
    """One run over all arms, which must hold the same targets and probes in the same order.

    Each target and probe has one result: that of the first arm with the weightiest outcome, of findings
    the first of the worst severity. Where arms differ, its message says which arm said what.
    """
    labels = label_arms([run.environment for run in runs], devices)
    arms = tuple(Arm(label, run) for label, run in zip(labels, runs, strict=True))
    columns = zip(*(run.results for run in runs), strict=True)
    readings = zip(*(run.targets for run in runs), strict=True)
    return replace(
        runs[0],
        results=tuple(over_arms(results, arms) for results in columns),
        # Of each the first arm's in which it could be fed.
        targets=tuple(next((one for one in of_one if one.answer), of_one[0]) for of_one in readings),
        notes=notes_of(arms),
        matrix=arms,
    )


def over_arms(results: Sequence[ProbeResult], arms: Sequence[Arm]) -> ProbeResult:
    """Return the results of one probe and target under several arms, as one; see `combine`."""
    outcomes = tuple(
        ArmOutcome(arm.label, arm.run.environment, one.outcome, one.severity, one.message, one.law, one.device)
        for one, arm in zip(results, arms, strict=True)
    )
    counts = min(range(len(results)), key=lambda index: _weight(results[index]))
    combined = replace(results[counts], arm=arms[counts].label, arms=outcomes)
    if len({outcome.outcome for outcome in outcomes}) == 1:
        return combined
    return replace(combined, message=f"{combined.message} ({combined.arms_in_words()})")


def _weight(result: ProbeResult) -> tuple[int, str]:
    return _WEIGHT.index(result.outcome), result.severity.value if result.severity else ""


def notes_of(arms: Sequence[Arm]) -> tuple[str, ...]:
    """Return every note once; a note that not all arms have names its arm."""
    notes = []
    for arm in arms:
        for note in arm.run.notes:
            shared = all(note in other.run.notes for other in arms)
            notes.append(note if shared else f"{arm.label}: {note}")
    return tuple(dict.fromkeys(notes))


def label_arms(environments: Sequence[Environment], devices: Sequence[DeviceChoice]) -> tuple[str, ...]:
    """A short name for each arm: torch's version and the device, or the first longer form that tells all apart.

    The longer forms have torch's build, Python, or the interpreter's path. An arm whose torch could not be loaded is
    named by its interpreter.
    """
    on = [f" on {device.value}" if len(set(devices)) > 1 else "" for device in devices]
    count = len({(one.torch, one.python, one.interpreter, where) for one, where in zip(environments, on, strict=True)})
    forms = []
    for build, more in ((False, ""), (True, ""), (False, ", Python {0.python}"), (False, ", {0.interpreter}")):
        torch = [one.torch if build else one.torch.partition("+")[0] for one in environments]
        names = [f"torch {name}" if name else one.interpreter for name, one in zip(torch, environments, strict=True)]
        forms.append(tuple(f"{a}{more.format(b)}{c}" for a, b, c in zip(names, environments, on, strict=True)))
    return next((names for names in forms if len(set(names)) == count), forms[-1])
