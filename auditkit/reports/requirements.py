"""What a change is required to do, judged by what was measured at both revisions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.enums import Outcome
from auditkit.model.revisions.comparison import Change, Comparison, Contrast, Trend

SAME_ANSWERS = "answers"
"""What stands for a probe where the returned numbers themselves are required to be the same."""
_WORDS = frozenset(word.value for word in (*Outcome, *Change)) | {Trend.BETTER.value, Trend.SAME.value}
_FORM = re.compile(r"(?P<probe>[a-z_]\w*)\s*:\s*(?P<word>[a-z_ -]+)")
_LAW = re.compile(r"(?P<probe>[a-z_]\w*)\s+law(?:\s+at\s+fix)?\s*=\s*(?P<law>\S.*)")
_BOX = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\[[ xX]\]\s+(?P<text>.+?)\s*$", re.MULTILINE)
FORMS = "PROBE: not_reproduced, PROBE: fixed, PROBE law = O(1), answers: same"
_MOST_TARGETS = 3
BEFORE = "met already before"
"""Begins the message of a requirement for which the change had nothing to do."""


class State(StrEnum):
    """What the measurements show of a requirement, the gravest first."""

    NOT_MET = "not met"
    NOT_MEASURABLE = "not measurable"
    MET = "met"


@dataclass(frozen=True)
class Requirement:
    """Something that the change has to do, and what was measured of it.

    `origin` is who says so: `plan` or `probe`.
    """

    text: str
    origin: str
    state: State
    message: str
    evidence: str = ""


@dataclass(frozen=True)
class Wanted:
    """A requirement before it is judged: of `probe`, a `word` or the growth `law` at the head."""

    text: str
    origin: str
    probe: str
    word: str = ""
    law: str = ""


def parse_requirement(text: str, origin: str = "plan") -> Wanted:
    """Read `PROBE: WORD` (an outcome at the head, a change, `better`, `same`) or `PROBE law = LAW` (at the head).

    Raises ValueError that states what is wrong.
    """
    found = _FORM.fullmatch(text.strip())
    if found is not None:
        word = found["word"].strip().replace(" ", "_").replace("-", "_")
        if word not in _WORDS:
            raise ValueError(
                f"'{found['word'].strip()}' is neither an outcome nor a change: {', '.join(sorted(_WORDS))}"
            )
        return Wanted(text.strip(), origin, found["probe"], word)
    grown = _LAW.fullmatch(text.strip())
    if grown is None:
        raise ValueError(f"a requirement is one of {FORMS}")
    return Wanted(text.strip(), origin, grown["probe"], law=grown["law"].strip())


def judge_plan(plan: str, comparison: Comparison) -> tuple[Requirement, ...]:
    """Judge each checkbox of a plan in Markdown; one that `parse_requirement` cannot read is not measurable."""
    found = []
    for match in _BOX.finditer(plan):
        text = match["text"].replace("`", "")
        try:
            found.append(judge_requirement(parse_requirement(text), comparison))
        except ValueError as error:
            found.append(Requirement(text, "plan", State.NOT_MEASURABLE, str(error)))
    return tuple(found)


def judge_requirement(wanted: Wanted, comparison: Comparison) -> Requirement:
    """A requirement is met if every checked target meets it, and at least one was checked."""
    if wanted.probe == SAME_ANSWERS:
        return _judge_answers(wanted, comparison)
    contrasts = [one for one in comparison.contrasts if one.probe == wanted.probe]
    if not contrasts:
        return Requirement(wanted.text, wanted.origin, State.NOT_MEASURABLE, f"{wanted.probe} was not run")
    judged = [(one, *_judge(wanted, one)) for one in contrasts]
    state = min((state for _, state, _ in judged), key=list(State).index)
    telling = [(one, message) for one, found, message in judged if found is state]
    messages = dict.fromkeys(message for _, message in telling[:_MOST_TARGETS])
    return Requirement(wanted.text, wanted.origin, state, "; ".join(messages), telling[0][0].evidence)


def _judge(wanted: Wanted, contrast: Contrast) -> tuple[State, str]:
    if contrast.change is Change.NOT_COMPARABLE and wanted.word not in ("", contrast.change.value):
        return State.NOT_MEASURABLE, contrast.reason
    if wanted.law:
        laws = [side.law if side is not None else "" for side in (contrast.base, contrast.head)]
        is_like = [_is_law(law, wanted.law) for law in laws]
        if not laws[1]:
            return State.NOT_MEASURABLE, f"{contrast.probe} fitted no law at the head"
        before = f"{BEFORE}: " if is_like == [True, True] else ""
        return (State.MET if is_like[1] else State.NOT_MET), before + in_words(contrast)
    if wanted.word in [trend.value for trend in Trend]:
        is_met = contrast.trend.value == wanted.word or (wanted.word == "better" and contrast.change is Change.FIXED)
    elif wanted.word in [outcome.value for outcome in Outcome]:
        # A finding of source that is gone has nothing to say at the head.
        outcome = contrast.head.outcome if contrast.head else Outcome.NOT_REPRODUCED
        is_met = outcome.value == wanted.word
        if is_met and contrast.base is not None and contrast.base.outcome.value == wanted.word:
            return State.MET, f"{BEFORE}: {in_words(contrast)}"
    else:
        is_met = contrast.change.value == wanted.word
    return (State.MET if is_met else State.NOT_MET), in_words(contrast)


def in_words(contrast: Contrast) -> str:
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


def _judge_answers(wanted: Wanted, comparison: Comparison) -> Requirement:
    answers = [answer for target in comparison.targets for answer in target.answers]
    if not answers:
        return Requirement(wanted.text, wanted.origin, State.NOT_MEASURABLE, "no returned numbers were compared")
    agreeing = sum(one.agrees for one in answers)
    message = f"{agreeing} of {len(answers)} numbers agree within rounding"
    state = State.MET if agreeing == len(answers) else State.NOT_MET
    return Requirement(wanted.text, wanted.origin, state, message, "measured")


def outcomes_as_requirements(comparison: Comparison) -> tuple[Requirement, ...]:
    """Return one for each finding of either revision: where nothing is required, it must not reproduce at the head."""
    found = []
    for one in comparison.contrasts:
        if one.change in (Change.FIXED, Change.INTRODUCED, Change.STILL_REPRODUCED):
            state = State.MET if one.change is Change.FIXED else State.NOT_MET
            found.append(Requirement(f"{one.probe}: not reproduced", "probe", state, in_words(one), one.evidence))
    return tuple(found)
