"""Whether a change may go in: the assessment of a comparison and of what a plan requires, with its reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.answer_changes import RAISES
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.comparison import Agreement, Change, Comparison, Contrast, Trend
from auditkit.model.text import counted, listed

_SAME_ANSWERS = "answers"
"""What stands for a probe where the returned numbers themselves are required to be the same."""
_WORDS = frozenset(word.value for word in (*Outcome, *Change)) | {Trend.BETTER.value, Trend.SAME.value}
_FORM = re.compile(r"(?P<probe>[a-z_]\w*)(?:\s*:\s*(?P<word>[a-z_ -]+)|\s+law\s*=\s*(?P<law>\S.*))")
_BOX = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[[ xX]\]\s+(?P<text>.+?)\s*$", re.MULTILINE)
_FORMS = "PROBE: not_reproduced, PROBE: fixed, PROBE law = O(1), answers: same"
_MOST_TARGETS = 3
_GRAVE = Severity.P1
BEFORE = "met already before"
"""Begins the message of a requirement for which the change had nothing to do."""


class State(StrEnum):
    """What the measurements show of a requirement, the gravest first."""

    NOT_MET = "not met"
    NOT_MEASURABLE = "not measurable"
    MET = "met"


@dataclass(frozen=True)
class Requirement:
    """Something that the change has to do, and what was measured of it."""

    text: str
    state: State
    message: str


class Assessment(StrEnum):
    """What a review comes to."""

    APPROVED = "approved"
    NEEDS_WORK = "needs work"
    REJECTED = "rejected"


@dataclass(frozen=True)
class Review:
    """A measured review of a change. `tests` says how its own tests ended at both revisions, "" if they did not run."""

    comparison: Comparison
    requirements: Sequence[Requirement]
    assessment: Assessment
    reasons: Sequence[str]
    tests: str = ""


def review_of(comparison: Comparison, requirements: Sequence[Requirement], tests: str = "") -> Review:
    """Reject a grave new finding, a worse result or code that no longer runs; anything else unmet needs work."""
    rejected, wanting = _findings(comparison)
    for target in comparison.targets:
        wrong = [one for one in target.answers if one.agreement is Agreement.DIFFERS and one.nearer == "base"]
        if wrong:
            rejected.append(f"{len(wrong)} numbers of {target.match.name} are further from the exact norm than before")
    wanting += _unexplained_answers(comparison)
    wanting += [f"{one.state.value}: {one.text}" for one in requirements if one.state is not State.MET]
    assessment = Assessment.REJECTED if rejected else Assessment.NEEDS_WORK if wanting else Assessment.APPROVED
    reasons = [*rejected, *wanting] or ["nothing was introduced and nothing got worse"]
    return Review(comparison, requirements, assessment, reasons, tests)


def _findings(comparison: Comparison) -> tuple[list[str], list[str]]:
    """Return what is rejected, grave new findings and results that are lost, and the other new or worse findings."""
    rejected, wanting = [], []
    for one in comparison.contrasts:
        is_new = one.change is Change.INTRODUCED
        if is_new and one.severity and one.severity.at_least(_GRAVE):
            rejected.append(f"{one.severity} introduced: {one.probe} on {one.target}")
        elif one.is_worse and one.severity:
            wanting.append(f"{one.severity} {'introduced' if is_new else 'worse'}: {one.probe} on {one.target}")
        had_result = one.base is not None and one.base.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED)
        if had_result and one.head is not None and one.head.outcome is Outcome.ERROR:
            why = "returned a result at the base and ends in an error at the head"
            rejected.append(f"{one.probe} {why}: {one.head.message}")
    return rejected, sorted(wanting)


def _unexplained_answers(comparison: Comparison) -> Iterator[str]:
    for target in comparison.targets:
        apart = [one for one in target.answers if not one.agrees]
        differing = [one for one in apart if one.agreement is Agreement.DIFFERS and not one.nearer]
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


# The requirements of a plan.


def judge_plan(plan: str, comparison: Comparison) -> list[Requirement]:
    """Judge each checkbox of a plan in Markdown; one that cannot be read is not measurable."""
    return [judge_requirement(match["text"].replace("`", ""), comparison) for match in _BOX.finditer(plan)]


def judge_requirement(text: str, comparison: Comparison) -> Requirement:
    """Judge `PROBE: WORD` (an outcome at the head, a change, `better`, `same`) or `PROBE law = LAW` (at the head).

    It is met if every checked target meets it, and at least one was checked.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        return Requirement(text, State.NOT_MEASURABLE, f"a requirement is one of {_FORMS}")
    word, law = re.sub(r"[ -]", "_", (found["word"] or "").strip()), found["law"]
    if not law and word not in _WORDS:
        known = ", ".join(sorted(_WORDS))
        return Requirement(text, State.NOT_MEASURABLE, f"'{word}' is neither an outcome nor a change: {known}")
    if found["probe"] == _SAME_ANSWERS:
        return _judge_answers(text, comparison)
    contrasts = [one for one in comparison.contrasts if one.probe == found["probe"]]
    if not contrasts:
        return Requirement(text, State.NOT_MEASURABLE, f"{found['probe']} was not run")
    judged = [(one, *(_judge_law(one, law) if law else _judge_word(one, word))) for one in contrasts]
    state = min((state for _, state, _ in judged), key=list(State).index)
    telling = [(one, message) for one, found_state, message in judged if found_state is state]
    messages = dict.fromkeys(message for _, message in telling[:_MOST_TARGETS])
    evidence = f" ({telling[0][0].evidence})" if telling[0][0].evidence else ""
    return Requirement(text, state, "; ".join(messages) + evidence)


def _judge_law(contrast: Contrast, wanted: str) -> tuple[State, str]:
    base, head = (side.law if side is not None else "" for side in (contrast.base, contrast.head))
    if not head:
        return State.NOT_MEASURABLE, f"{contrast.probe} fitted no law at the head"
    is_met = _is_law(head, wanted)
    before = f"{BEFORE}: " if is_met and _is_law(base, wanted) else ""
    return (State.MET if is_met else State.NOT_MET), before + _in_words(contrast)


def _judge_word(contrast: Contrast, wanted: str) -> tuple[State, str]:
    if contrast.change is Change.NOT_COMPARABLE and wanted != contrast.change.value:
        return State.NOT_MEASURABLE, contrast.reason
    # A finding of source that is gone has nothing to say at the head.
    head = contrast.head.outcome if contrast.head else Outcome.NOT_REPRODUCED
    is_better = wanted == Trend.BETTER.value and contrast.change is Change.FIXED
    if wanted not in (contrast.change.value, contrast.trend.value, head.value) and not is_better:
        return State.NOT_MET, _in_words(contrast)
    was_so = wanted == head.value and contrast.base is not None and contrast.base.outcome is head
    return State.MET, (f"{BEFORE}: " if was_so else "") + _in_words(contrast)


def _in_words(contrast: Contrast) -> str:
    """`fixed: 3n+1 at the base, 5 at the head`, in laws where the probe fits one, else in its messages."""
    change = contrast.change.value.replace("_", " ")
    sides = [(name, side) for name, side in (("base", contrast.base), ("head", contrast.head)) if side is not None]
    if contrast.change is Change.STILL_REPRODUCED:
        change = f"{change}, {contrast.trend.value}"
    if all(side.law for _, side in sides):
        return f"{change}: {', '.join(f'{side.law} at the {name}' for name, side in sides)}"
    if len({side.message for _, side in sides}) == 1:
        return f"{change}: {sides[0][1].message}"
    return f"{change}: {'; '.join(f'{name}: {side.message}' for name, side in sides)}"


def _is_law(found: str, wanted: str) -> bool:
    """Whether a fitted law such as `3n+1` is the wanted one, or has its order: `O(1)` or `O(n)`."""
    order = re.fullmatch(r"O\((1|n)\)", wanted, re.IGNORECASE)
    if order is None or not found:
        return found.replace(" ", "") == wanted.replace(" ", "")
    return ("n" in found.partition(" ")[0]) == (order[1].lower() == "n")


def _judge_answers(text: str, comparison: Comparison) -> Requirement:
    answers = [answer for target in comparison.targets for answer in target.answers]
    if not answers:
        return Requirement(text, State.NOT_MEASURABLE, "no returned numbers were compared")
    agreeing = sum(one.agrees for one in answers)
    state = State.MET if agreeing == len(answers) else State.NOT_MET
    return Requirement(text, state, f"{agreeing} of {len(answers)} numbers agree within rounding (measured)")
