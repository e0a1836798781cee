"""A comparison as text for a terminal: a block for each target, a line for each probe that has something to say."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from auditkit.model.answer_changes import largest_difference
from auditkit.model.codec import ABSENT
from auditkit.model.enums import Outcome
from auditkit.model.revisions.comparison import (
    Agreement,
    AnswerContrast,
    Change,
    Comparison,
    Contrast,
    FigureChange,
    MatchState,
    TargetComparison,
    Trend,
    count_changes,
)  # fmt: skip
from auditkit.model.text import counted
from auditkit.model.units import format_value

WIDTH = 100
_LOUD = (Change.INTRODUCED, Change.FIXED, Change.STILL_REPRODUCED, Change.NOT_COMPARABLE, Change.STILL_SOUND)
"""The order of the lines: what a reader must act on comes first."""
_MOST_ANSWERS = 6
_MOST_FIGURES = 3
_LONGEST_CASE = 40


def comparison_lines(comparison: Comparison, verbose: bool = False) -> Iterator[str]:
    """The comparison as text: heading, targets, source, summary."""
    yield from _heading_lines(comparison)
    for target in comparison.targets:
        yield ""
        yield from _target_lines(target, verbose)
    if comparison.source:
        yield ""
        yield "source of the targets' modules"
        yield from _rows_lines(comparison.source, verbose, with_target=True)
    yield ""
    yield from _summary_lines(comparison)


def _heading_lines(comparison: Comparison) -> Iterator[str]:
    sides = [
        f"{one.checkout.rpartition('@')[2] or 'run'} ({one.revision[:12] or 'no revision'}"
        f"{', uncommitted changes' if one.dirty else ''})"
        for one in (comparison.base, comparison.head)
    ]
    yield f"{comparison.checkout}: {sides[0]} -> {sides[1]}"
    head = comparison.head
    yield f"torch {head.torch}, Python {head.python}, {head.device_name}" if head.torch else "source read"
    for difference in comparison.differing:
        yield f"compared by force: {difference}"


def _target_lines(target: TargetComparison, verbose: bool) -> Iterator[str]:
    yield from _wrapped(f"{target.match.name}: {target.match.describe()}", 0)
    if target.match.state is MatchState.REMOVED:
        return
    rows = target.contrasts
    if target.match.state is MatchState.ADDED:
        rows = tuple(one for one in rows if one.head is None or one.head.outcome is not Outcome.NOT_REPRODUCED)
    yield from _rows_lines(rows, verbose)
    sound = len(target.contrasts) - len(rows)
    if sound:
        yield f"  {sound} not reproduced"
    yield from _answers_lines(target.answers, verbose)


def _rows_lines(contrasts: Sequence[Contrast], verbose: bool, with_target: bool = False) -> Iterator[str]:
    shown = [one for one in contrasts if one.change in _LOUD and (verbose or _is_worth_a_row(one))]
    shown.sort(key=lambda one: (_LOUD.index(one.change), str(one.severity or "P9"), one.probe))
    for contrast in shown:
        yield from _row_lines(contrast, verbose, with_target)
    quiet = Counter(one.change.value.replace("_", " ") for one in contrasts if one not in shown)
    if quiet:
        said = ", ".join(f"{count} {change}" for change, count in quiet.items())
        same = " with the same figures" if quiet["still sound"] else ""
        yield f"  {said}{same}"


def _is_worth_a_row(contrast: Contrast) -> bool:
    if contrast.change is not Change.STILL_SOUND:
        return True
    return contrast.trend in (Trend.BETTER, Trend.WORSE, Trend.MIXED) or bool(laws(contrast))


def laws(contrast: Contrast) -> str:
    """`3n+1 -> 5` of a probe that fits a law, "" of any other; words that both end in are said once."""
    if contrast.base is None or contrast.head is None or not (contrast.base.law and contrast.head.law):
        return ""
    one, other = contrast.base.law, contrast.head.law
    words = one.removeprefix("about ").partition(" ")[2]
    if words and other.endswith(words):
        one = one.removesuffix(f" {words}")
    return f"{one} -> {other}"


def _row_lines(contrast: Contrast, verbose: bool, with_target: bool) -> Iterator[str]:
    change = contrast.change.value.replace("_", " ")
    severity = contrast.severity.value if contrast.severity else ""
    figures = laws(contrast)
    trend = trend_words(contrast) if contrast.change in (Change.STILL_REPRODUCED, Change.STILL_SOUND) else ""
    said = [": ".join(part for part in (trend, figures) if part), contrast.evidence]
    yield from _wrapped(f"{change:<16}  {severity:<2}  {contrast.probe:<34}  {'  '.join(filter(None, said))}", 2, 60)
    if with_target and contrast.severity:
        yield from _wrapped(contrast.target, 6)
    for line in _messages(contrast, figures):
        yield from _wrapped(line, 6)
    for figure in _figures(contrast, verbose):
        yield from _wrapped(figure, 6, 10)


def trend_words(contrast: Contrast) -> str:
    """`worse`, with the severity that it had where that changed."""
    before = contrast.base.severity if contrast.base else None
    after = contrast.head.severity if contrast.head else None
    was = f", was {before.value}" if before and after and before is not after else ""
    return f"{contrast.trend.value}{was}"


def _messages(contrast: Contrast, figures: str) -> Iterable[str]:
    """What was said at each side, where the law has not said it already."""
    if contrast.reason:
        yield contrast.reason
    if contrast.change is Change.NOT_COMPARABLE or (figures and contrast.change is not Change.INTRODUCED):
        return
    said = [(name, side.message) for name, side in (("base", contrast.base), ("head", contrast.head)) if side]
    if len(said) == 2 and said[0][1] == said[1][1]:
        yield said[0][1]
    else:
        yield from (f"{name}: {message}" for name, message in said)


def _figures(contrast: Contrast, verbose: bool) -> Iterable[str]:
    """The figures that got better or worse, worse ones first; all of them where `verbose`."""
    if verbose:
        yield from map(figure_line, contrast.figures)
        return
    if laws(contrast) or contrast.change not in (Change.STILL_REPRODUCED, Change.STILL_SOUND):
        return
    yield from moved_figures(contrast)


def moved_figures(contrast: Contrast) -> Iterator[str]:
    """Return a line for each of the first figures that got worse or better, and the number of the others."""
    moved = [one for trend in (Trend.WORSE, Trend.BETTER) for one in contrast.figures if one.trend is trend]
    yield from map(figure_line, moved[:_MOST_FIGURES])
    if len(moved) > _MOST_FIGURES:
        yield f"and {len(moved) - _MOST_FIGURES} more figures"


def figure_line(figure: FigureChange) -> str:
    """`sync_count: 4 -> 1 (tensors=4): better`; a case's long texts are left out."""
    sides = [_value(value, figure.unit) for value in (figure.base, figure.head)]
    texts = {name: _value(value, "") for name, value in figure.case.items() if name != "device"}
    case = ", ".join(f"{name}={text}" for name, text in texts.items() if text and len(text) <= _LONGEST_CASE)
    trend = "" if figure.trend is Trend.SAME else f": {figure.trend.value}"
    return f"{figure.name}: {sides[0]} -> {sides[1]}{f' ({case})' if case else ''}{trend}"


def _value(value: object, unit: str) -> str:
    return "not measured" if value is ABSENT else format_value(value, unit)


def _answers_lines(answers: Sequence[AnswerContrast], verbose: bool) -> Iterator[str]:
    """How the answers to the same gradients compare, with those that do not agree."""
    if not answers:
        return
    counts = Counter(answer.agreement for answer in answers)
    words = {
        Agreement.IDENTICAL: "identical",
        Agreement.WITHIN: f"within rounding (at most {largest_difference(answers):.2g} apart)",
        Agreement.DIFFERS: "differ",
        Agreement.ONLY_BASE: "only at the base",
        Agreement.ONLY_HEAD: "only at the head",
    }
    said = ", ".join(f"{counts[agreement]} {text}" for agreement, text in words.items() if counts[agreement])
    cases = len({repr(answer.case) for answer in answers})
    yield from _wrapped(f"answers to {counted(cases, 'set')} of gradients: {said}", 2)
    apart = [answer for answer in answers if not answer.agrees]
    for answer in apart if verbose else apart[:_MOST_ANSWERS]:
        yield from _wrapped(answer_line(answer), 6, 10)
    if len(apart) > _MOST_ANSWERS and not verbose:
        yield f"      and {len(apart) - _MOST_ANSWERS} more: --verbose names them"


def answer_line(answer: AnswerContrast) -> str:
    """`grad_norm: inf -> 6.4e+21 (magnitudes, magnitude=1e+20; exact norm 6.4e+21, the head is nearer)`."""
    case = ", ".join(f"{name}={_value(value, '')}" for name, value in answer.case.items()
                     if name not in ("device", "family"))  # fmt: skip
    sides = [_value(value, "") for value in (answer.base, answer.head)]
    nearer = f", the {answer.nearer} is nearer" if answer.nearer else ""
    field = answer.field or "the answer"
    exact = f"; exact norm {answer.exact:.6g}{nearer}" if not math.isnan(answer.exact) else ""
    return f"{field}: {sides[0]} -> {sides[1]} ({answer.family}, {case}{exact})"


def _summary_lines(comparison: Comparison) -> Iterator[str]:
    counts = count_changes(comparison.contrasts)
    said = ", ".join(f"{count} {change.replace('_', ' ')}" for change, count in counts.items() if count)
    states = Counter(target.match.state for target in comparison.targets)
    total = len(comparison.targets)
    parts = [f"{states[state]} {state.value}" for state in (MatchState.ADDED, MatchState.REMOVED) if states[state]]
    listed = f" ({', '.join(parts)})" if parts else ""
    yield from _wrapped(f"{counted(total, 'target')}{listed}: {said or 'nothing was asked'}", 0)
    changes = comparison.changes
    if changes.commits or changes.files:
        added, removed = (sum(getattr(file, name) or 0 for file in changes.files) for name in ("added", "removed"))
        tests = Counter(test.kind for test in changes.tests)
        kinds = [kind for kind in ("added", "changed", "removed") if tests[kind]]
        told = "".join(f", {counted(tests[kind], 'test')} {kind}" for kind in kinds)
        commits, files = counted(len(changes.commits), "commit"), counted(len(changes.files), "file")
        yield f"{commits}, {files} (+{added} -{removed}){told}"


def _wrapped(text: str, indent: int, hanging: int | None = None) -> Iterator[str]:
    """The text in lines of at most 100 columns from column `indent` on, its further lines from `hanging`."""
    text = text.rstrip()
    if indent + len(text) <= WIDTH:
        yield " " * indent + text
        return
    further = " " * (indent + 4 if hanging is None else hanging)
    yield from textwrap.wrap(text, WIDTH, initial_indent=" " * indent, subsequent_indent=further)
