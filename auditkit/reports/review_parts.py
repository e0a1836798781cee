"""Whether a change may go in: the assessment of a comparison and of what was required, with its reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.answer_changes import RAISES
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.comparison import Agreement, AnswerContrast, Change, Comparison
from auditkit.model.text import counted, listed
from auditkit.reports.requirements import Requirement, State

_GRAVE = Severity.P1


class Assessment(StrEnum):
    """What a review comes to."""

    APPROVED = "approved"
    NEEDS_WORK = "needs work"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Review:
    """A measured review of a change. `tests` says how its own tests ended at both revisions, "" if they did not run."""

    comparison: Comparison
    requirements: tuple[Requirement, ...]
    assessment: Assessment
    reasons: tuple[str, ...]
    tests: str = ""

    @property
    def is_approved(self) -> bool:
        return self.assessment is Assessment.APPROVED


def review_of(comparison: Comparison, requirements: Sequence[Requirement], tests: str = "") -> Review:
    """Reject a grave new finding, a worse result or code that no longer runs; anything else unmet needs work."""
    rejected = [*_grave(comparison), *_worse_answers(comparison)]
    wanting = [*_new_or_worse(comparison), *_unexplained_answers(comparison), *_unmet(requirements)]
    assessment = Assessment.REJECTED if rejected else Assessment.NEEDS_WORK if wanting else Assessment.APPROVED
    reasons = [*rejected, *wanting] or ["nothing was introduced and nothing got worse"]
    return Review(comparison, tuple(requirements), assessment, tuple(reasons), tests)


def _grave(comparison: Comparison) -> Iterator[str]:
    for one in comparison.contrasts:
        if one.change is Change.INTRODUCED and one.severity and one.severity.at_least(_GRAVE):
            yield f"{one.severity.value} introduced: {one.probe} on {one.target}"
        sound_before = one.base is not None and one.base.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
        if sound_before and one.head is not None and one.head.outcome is Outcome.ERROR:
            yield f"{one.probe} returned a result at the base and ends in an error at the head: {one.head.message}"


def _worse_answers(comparison: Comparison) -> Iterator[str]:
    for target in comparison.targets:
        wrong = [one for one in target.answers if one.agreement is Agreement.DIFFERS and one.nearer == "base"]
        if wrong:
            yield f"{len(wrong)} numbers of {target.match.name} are further from the exact norm than before"


def _new_or_worse(comparison: Comparison) -> Iterator[str]:
    for one in sorted(comparison.contrasts, key=lambda one: str(one.severity)):
        is_grave = one.change is Change.INTRODUCED and one.severity and one.severity.at_least(_GRAVE)
        if one.is_worse and one.severity and not is_grave:
            word = "introduced" if one.change is Change.INTRODUCED else "worse"
            yield f"{one.severity.value} {word}: {one.probe} on {one.target}"


def _unexplained_answers(comparison: Comparison) -> Iterator[str]:
    for target in comparison.targets:
        apart = [one for one in target.answers if _is_unexplained(one)]
        differing = [one for one in apart if one.agreement is Agreement.DIFFERS]
        if differing:
            yield f"{len(differing)} numbers of {target.match.name} differ, and no measurement shows which is right"
        # A call that raises has no field at all: it is named once.
        raising = {repr(one.case): one.agreement for one in apart if one.field == RAISES}
        lost = [one for one in apart if repr(one.case) not in raising]
        for only, side, other in ((Agreement.ONLY_BASE, "base", "head"), (Agreement.ONLY_HEAD, "head", "base")):
            count = sum(agreement is only for agreement in raising.values())
            if count:
                yield f"{target.match.name} raises at the {side} alone, in {counted(count, 'case')}"
            fields = dict.fromkeys(one.field or "number" for one in lost if one.agreement is only)
            if fields:
                yield f"{target.match.name} returns no {listed(fields)} at the {other}"


def _is_unexplained(answer: AnswerContrast) -> bool:
    return not (answer.agrees or (answer.agreement is Agreement.DIFFERS and answer.nearer))


def _unmet(requirements: Iterable[Requirement]) -> Iterator[str]:
    for one in requirements:
        if one.state is State.NOT_MET and one.origin != "probe":
            yield f"not met ({one.origin}): {one.text}"
        elif one.state is State.NOT_MEASURABLE and one.origin == "plan":
            yield f"not measurable ({one.origin}): {one.text}"
