"""An implementation review as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from auditkit.model.codec import ABSENT
from auditkit.model.enums import Severity
from auditkit.model.revisions.changes import FileChange
from auditkit.model.revisions.comparison import (
    Agreement,
    AnswerContrast,
    Change,
    Contrast,
    MatchState,
    TargetComparison,
    Trend,
    count_agreements,
    count_changes,
    relative_difference,
)
from auditkit.model.revisions.implementation_review import ClaimState, ImplementationReview
from auditkit.model.text import counted
from auditkit.model.units import format_value
from auditkit.rendering.environment import render
from auditkit.rules.comparison.answer_changes import RAISES, families, largest_difference

_MARKS = {ClaimState.CONFIRMED: "✅", ClaimState.REFUTED: "❌", ClaimState.UNTESTED: "⚠️"}
_WORDS = {ClaimState.CONFIRMED: "met", ClaimState.REFUTED: "not met", ClaimState.UNTESTED: "untested"}
_LEVELS = (
    ("Critical Issues", (Severity.P0, Severity.P1)),
    ("Important Issues", (Severity.P2,)),
    ("Minor Issues", (Severity.P3, Severity.P4)),
)
_EDGES = ("fails_on_", "empty_input_", "ratio_", "nonfinite_", "mutates_")
"""Probes of inputs that are not ordinary, by the beginning of their ids."""
_MOST_ANSWERS = 12
_MISSING = {Agreement.ONLY_BASE: "missing after", Agreement.ONLY_HEAD: "missing before"}


def render_review(review: ImplementationReview) -> bytes:
    """The review in UTF-8; every number in it comes from the comparison, with how it was obtained."""
    comparison = review.comparison
    everything = comparison.contrasts
    return render(
        "review.md.j2",
        review=review,
        summary=_summary(review),
        comparison=comparison,
        marks=_MARKS,
        words=_WORDS,
        levels=[(name, [one for one in review.issues if one.severity in levels]) for name, levels in _LEVELS],
        met=sum(one.state is ClaimState.CONFIRMED for one in review.requirements),
        deviations=[one for one in review.requirements if one.state is ClaimState.REFUTED],
        targets=[(target, _answer_rows(target), _apart(target), _interface(target)) for target in comparison.targets],
        edges=[one for one in everything if one.probe.startswith(_EDGES) and one.change in _ANSWERED],
        probes=[one for one in everything if one.change is not Change.NOT_APPLICABLE],
        unasked=sum(one.change is Change.NOT_APPLICABLE for one in everything),
        private=[one for one in everything if one.probe == "private_torch_api_without_fallback"],
        kept=sum(one.change is Change.STILL_SOUND for one in everything),
        said=_said,
        source=lambda text: textwrap.dedent("\n".join(text.excerpt.lines)),
        new_issues=[
            one
            for one in review.issues
            if not one.change.startswith("there before, ") or one.change.endswith((Trend.WORSE, Trend.MIXED))
        ],
        files=_files(comparison.changes.files),
        lines=sum((file.added or 0) + (file.removed or 0) for file in comparison.changes.files),
    )


def _summary(review: ImplementationReview) -> str:
    """The change and what came of it, in counts."""
    comparison = review.comparison
    files = comparison.changes.files
    added, removed = (sum(getattr(file, name) or 0 for file in files) for name in ("added", "removed"))
    counts = count_changes(comparison.contrasts)
    agreed = count_agreements(answer for target in comparison.targets for answer in target.answers)
    total = sum(agreed.values())
    size = (
        f"{counted(len(comparison.changes.commits), 'commit')}, {counted(len(files), 'file')} (+{added} -{removed}). "
    )
    became = ", ".join(f"{counts[change.value]} {change.value.replace('_', ' ')}" for change in _ANSWERED)
    same = agreed[Agreement.IDENTICAL.value] + agreed[Agreement.WITHIN.value]
    answers = f" Of {total:,} numbers in the answers, {same:,} agree." if total else ""
    targets = counted(len(comparison.targets), "target")
    return f"{size if files else ''}Answers of the probes about {targets} and its source: {became}.{answers}"


_ANSWERED = (Change.FIXED, Change.INTRODUCED, Change.STILL_REPRODUCED, Change.STILL_SOUND)


def _said(contrast: Contrast) -> tuple[str, str]:
    """What each side said, in the fewest words: outcome, severity and law."""
    sides = []
    for side in (contrast.base, contrast.head):
        if side is None:
            sides.append("not found")
            continue
        severity = f"{side.severity.value} " if side.severity else ""
        law = f" ({side.law})" if side.law else ""
        sides.append(f"{severity}{side.outcome.value.replace('_', ' ')}{law}")
    return sides[0], sides[1]


def _answer_rows(target: TargetComparison) -> list[tuple[str, int, int, int, int, int, str]]:
    """For each family of gradients: sets, numbers, identical, within rounding, apart, and the largest difference."""
    rows = []
    for family, answers in families(target.answers).items():
        counts = [sum(one.agreement is kind for one in answers) for kind in (Agreement.IDENTICAL, Agreement.WITHIN)]
        sets = len({repr(one.case) for one in answers})
        largest = f"{largest_difference(answers):.2g}"
        rows.append((family, sets, len(answers), counts[0], counts[1], len(answers) - sum(counts), largest))
    return rows


def _apart(target: TargetComparison) -> tuple[list[dict[str, str]], int]:
    """The answers that do not agree, as texts for a table, and how many more there are."""
    apart = [one for one in target.answers if not one.agrees]
    return [_answer_row(one) for one in apart[:_MOST_ANSWERS]], max(0, len(apart) - _MOST_ANSWERS)


def _answer_row(answer: AnswerContrast) -> dict[str, str]:
    case = ", ".join(
        f"{name}={_value(value)}" for name, value in answer.case.items() if name not in ("device", "family")
    )
    difference = relative_difference(answer.base, answer.head)
    missing = _MISSING.get(answer.agreement, "")
    return {
        "case": f"{answer.family}: {case}",
        "field": answer.field or "the answer",
        "base": _value(answer.base),
        "head": _value(answer.head),
        "exact": f"{answer.exact:.6g}",
        "difference": missing or f"{difference:.2g} ({answer.allowed:.2g} allowed)",
        "nearer": f"the {answer.nearer}" if answer.nearer else "not known",
    }


def _value(value: object) -> str:
    if value is ABSENT:
        return "absent"
    return f"{value:.6g}" if isinstance(value, float) else format_value(value)


def _interface(target: TargetComparison) -> tuple[str, ...]:
    """What callers see of the change: signature, and the fields of the answer."""
    said = []
    before, after = target.match.base_text, target.match.head_text
    if before is not None and after is not None:
        same = before.signature == after.signature
        said.append(f"signature unchanged: {after.signature}" if same else
                    f"signature changed: {before.signature} is now {after.signature}")  # fmt: skip
    if target.match.state in (MatchState.MOVED, MatchState.RENAMED):
        said.append(f"{target.match.state.value}: {target.match.base} is now {target.match.head}")
    fields = [_fields(target.answers, other) for other in (Agreement.ONLY_HEAD, Agreement.ONLY_BASE)]
    if target.answers:
        gone, new = (sorted(one - other) for one, other in (fields, fields[::-1]))
        shared = len(fields[0] & fields[1])
        said.append(f"{shared} {'number' if shared == 1 else 'numbers'} in the answer at both revisions")
        said += [f"no longer in the answer: {', '.join(gone)}"] if gone else []
        said += [f"new in the answer: {', '.join(new)}"] if new else []
    return tuple(said)


def _fields(answers: Iterable[AnswerContrast], without: Agreement) -> set[str]:
    there = (one.field for one in answers if one.agreement is not without)
    return {field or "the answer" for field in there if field != RAISES}


def _files(files: Sequence[FileChange]) -> list[tuple[str, list[FileChange]]]:
    kinds = (
        ("Files Modified", [file for file in files if file.path and file.old_path]),
        ("Files Created", [file for file in files if not file.old_path]),
        ("Files Deleted", [file for file in files if not file.path]),
    )
    return [(name, of_kind) for name, of_kind in kinds if of_kind]
