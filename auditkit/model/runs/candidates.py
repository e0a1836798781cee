"""What reading a checkout found: each place that deals with gradients, and how it was called or why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from auditkit.model.codec import Record
from auditkit.model.enums import Contract, Reason
from auditkit.model.text import counted


@dataclass(frozen=True)
class FoundCandidate(
    Record, keys="call file line contract fed rung placeholders filled why_not reason? places? excluded?"
):
    """One collector, or function of a library that the checkout calls, that reading the source found.

    `rung` is how its module was loaded, `placeholders` the absent modules that have a stub, `filled` the values that
    auditkit chose to call it. `why_not` is why auditkit could not call it, with its `reason`, or its caller that is
    checked; `places` call a library's function; `excluded` is why it is left out.
    """

    call: str
    file: str
    line: int
    contract: Contract | None = None
    fed: bool = False
    rung: str = ""
    placeholders: tuple[str, ...] = ()
    filled: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""
    reason: Reason | None = None
    places: tuple[str, ...] = ()
    excluded: str = ""


def not_checked(candidates: Iterable[FoundCandidate]) -> str:
    """`4 of 4 training steps and 1 of 7 collectors were NOT checked`; "" where every one was."""
    kept = [each for each in candidates if not each.excluded and each.reason is not Reason.NOT_PARSED]
    steps = [each for each in kept if each.contract is Contract.TRAIN_STEP]
    others = [each for each in kept if each.contract is not Contract.TRAIN_STEP]
    counts = []
    for found, kind in ((steps, "training step"), (others, "collector")):
        missed = sum(not each.fed for each in found)
        counts += [f"{missed} of {counted(len(found), kind)}"] if missed else []
    is_one = len(counts) == 1 and counts[0].startswith("1 ")
    return f"{' and '.join(counts)} {'was' if is_one else 'were'} NOT checked" if counts else ""


def unchecked_steps(candidates: Iterable[FoundCandidate]) -> str:
    """The same of training steps alone."""
    return not_checked(each for each in candidates if each.contract is Contract.TRAIN_STEP)


def by_reason(candidates: Iterable[FoundCandidate]) -> dict[str, list[FoundCandidate]]:
    """Return the candidates that were not checked, by reason, without those that are left out on purpose."""
    groups: dict[str, list[FoundCandidate]] = {}
    for each in candidates:
        if not (each.fed or each.excluded):
            why = each.why_not if each.reason is None else ""
            groups.setdefault(_STOPPED.get(each.reason, why or "they could not be tried"), []).append(each)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


_STOPPED: dict[Reason | None, str] = {
    Reason.IMPORT_ERROR: "their modules cannot be imported",
    Reason.NO_TORCH: "the interpreter has no torch",
    Reason.NO_INTERPRETER: "there is no interpreter",
    Reason.CANNOT_FEED: "nothing is known to fit what they take",
    Reason.PLACEHOLDER: "they use modules that are not installed",
    Reason.CANNOT_READ: "they return nothing that a probe can judge",
    Reason.NOT_PARSED: "their files cannot be parsed",
    Reason.TIMEOUT: "trying them did not end in time",
    Reason.CRASH: "trying them ended the process",
    Reason.EXIT: "trying them ended the process",
}
