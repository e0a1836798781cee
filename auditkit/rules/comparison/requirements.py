"""What a change is required to do, judged by what was measured at both revisions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from auditkit.model.enums import Outcome
from auditkit.model.revisions.comparison import Change, Comparison, Contrast, Trend
from auditkit.model.revisions.implementation_review import ClaimState, Requirement

SAME_ANSWERS = "answers"
"""What stands for a probe where the answers themselves are required to be the same."""
_WORDS = frozenset(word.value for word in (*Outcome, *Change)) | {Trend.BETTER.value, Trend.SAME.value}
_FORM = re.compile(r"(?P<probe>[a-z_]\w*)\s*:\s*(?P<word>[a-z_ -]+)")
_LAW = re.compile(r"(?P<probe>[a-z_]\w*)\s+law(?:\s+at\s+fix)?\s*=\s*(?P<law>\S.*)")
FORMS = "PROBE: not_reproduced, PROBE: fixed, PROBE law = O(1), answers: same"
_STATES = (ClaimState.REFUTED, ClaimState.UNTESTED, ClaimState.CONFIRMED)
_MOST_TARGETS = 3
BEFORE = "met already before"
"""How a requirement is told that the change had nothing to do for."""


@dataclass(frozen=True)
class Wanted:
    """A requirement before it is judged: of `probe`, a `word` or the growth `law` at the head."""

    text: str
    origin: str
    probe: str
    word: str = ""
    law: str = ""


def parse_requirement(text: str, origin: str = "required") -> Wanted:
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


def judge_requirement(wanted: Wanted, comparison: Comparison) -> Requirement:
    """Met where it is met for every target that was asked, and where at least one was."""
    if wanted.probe == SAME_ANSWERS:
        return _judge_answers(wanted, comparison)
    contrasts = [one for one in comparison.contrasts if one.probe == wanted.probe]
    if not contrasts:
        return Requirement(wanted.text, wanted.origin, ClaimState.UNTESTED, f"{wanted.probe} was not asked")
    judged = [(one, *_judge(wanted, one)) for one in contrasts]
    state = min((state for _, state, _ in judged), key=_STATES.index)
    telling = [(one, message) for one, found, message in judged if found is state]
    messages = dict.fromkeys(message for _, message in telling[:_MOST_TARGETS])
    return Requirement(wanted.text, wanted.origin, state, "; ".join(messages), telling[0][0].evidence)


def _judge(wanted: Wanted, contrast: Contrast) -> tuple[ClaimState, str]:
    if contrast.change is Change.NOT_COMPARABLE and wanted.word not in ("", contrast.change.value):
        return ClaimState.UNTESTED, contrast.reason
    if wanted.law:
        laws = [side.law if side is not None else "" for side in (contrast.base, contrast.head)]
        is_like = [_is_law(law, wanted.law) for law in laws]
        if not laws[1]:
            return ClaimState.UNTESTED, f"{contrast.probe} fitted no law at the head"
        before = f"{BEFORE}: " if is_like == [True, True] else ""
        return (ClaimState.CONFIRMED if is_like[1] else ClaimState.REFUTED), before + in_words(contrast)
    if wanted.word in [trend.value for trend in Trend]:
        is_met = contrast.trend.value == wanted.word or (wanted.word == "better" and contrast.change is Change.FIXED)
    elif wanted.word in [outcome.value for outcome in Outcome]:
        # A finding of source that is gone has nothing to say at the head.
        outcome = contrast.head.outcome if contrast.head else Outcome.NOT_REPRODUCED
        is_met = outcome.value == wanted.word
        if is_met and contrast.base is not None and contrast.base.outcome.value == wanted.word:
            return ClaimState.CONFIRMED, f"{BEFORE}: {in_words(contrast)}"
    else:
        is_met = contrast.change.value == wanted.word
    return (ClaimState.CONFIRMED if is_met else ClaimState.REFUTED), in_words(contrast)


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
    """Return whether a fitted law such as `3n+1` is the wanted one, or has its order: `O(1)` or `O(n)`."""
    order = re.fullmatch(r"O\((1|n)\)", wanted, re.IGNORECASE)
    if order is None or not found:
        return found.replace(" ", "") == wanted.replace(" ", "")
    return ("n" in found.partition(" ")[0]) == (order[1].lower() == "n")


def _judge_answers(wanted: Wanted, comparison: Comparison) -> Requirement:
    answers = [answer for target in comparison.targets for answer in target.answers]
    if not answers:
        return Requirement(wanted.text, wanted.origin, ClaimState.UNTESTED, "no answers were compared")
    agreeing = sum(one.agrees for one in answers)
    message = f"{agreeing} of {len(answers)} numbers agree within rounding"
    state = ClaimState.CONFIRMED if agreeing == len(answers) else ClaimState.REFUTED
    return Requirement(wanted.text, wanted.origin, state, message, "measured")


def judge_all(wanted: Sequence[Wanted], comparison: Comparison) -> tuple[Requirement, ...]:
    """Every requirement, each wording once."""
    once = {(one.text, one.origin): one for one in wanted}
    return tuple(judge_requirement(one, comparison) for one in once.values())


def outcomes_as_requirements(comparison: Comparison) -> tuple[Requirement, ...]:
    """Where nobody required anything: what reproduced at either revision must not at the head."""
    found = []
    for one in comparison.contrasts:
        if one.change in (Change.FIXED, Change.INTRODUCED, Change.STILL_REPRODUCED):
            state = ClaimState.CONFIRMED if one.change is Change.FIXED else ClaimState.REFUTED
            found.append(Requirement(f"{one.probe}: not reproduced", "probe", state, in_words(one), one.evidence))
    return tuple(found)
