"""Whether the figures of a summary page are those of the tickets, and whether they agree among themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditkit.model.codec import Record
from auditkit.model.tickets.ids import AGENT_NAMES
from auditkit.model.tickets.page import Figure
from auditkit.rules.counting.measures import Measure, Vocabulary, count_of
from auditkit.rules.counting.statistics import Counted, Facet, percent_of, values_of

_OTHER_UNITS = frozenset({"mentions", "occurrences", "files", "lines of code"})
_BATCH_HEADING = re.compile(r"batch\s+(\d{1,4})\b", re.IGNORECASE)
_REPORT_NAME = re.compile(r"batch(\d{1,4})(?:-([a-z]+))?\.md$", re.IGNORECASE)
_UNTOLD = Measure()


@dataclass(frozen=True)
class Remark(Record):
    """Something to say of a figure: `line` and `column` are 1-based."""

    line: int
    column: int
    message: str


@dataclass(frozen=True)
class PageCheck(Record, keys="right wrong contradictions not_checked=unchecked"):
    """What became of a page's figures; `right` is how many are, the others are all named."""

    right: int
    wrong: tuple[Remark, ...]
    contradictions: tuple[Remark, ...]
    unchecked: tuple[Remark, ...]


@dataclass(frozen=True)
class _Known:
    """A figure whose meaning is clear, with the count that is true."""

    figure: Figure
    measure: Measure
    scope: Measure
    count: int
    base: int

    @property
    def key(self) -> Measure:
        return self.scope.also(self.measure) if self.measure.distinct is None else self.measure

    def problem(self) -> str:
        """What is wrong with the figure, "" where it is right."""
        figure = self.figure
        if not figure.is_percent:
            return (
                "" if figure.value == self.count else f"says {figure.written}, is {self.count}: {self.key.describe()}"
            )
        if _fits(figure, self.count, self.base):
            return ""
        told = f"{percent_of(self.count, self.base)}% ({self.count} of {self.base})"
        return f"says {figure.written}, is {told}: {self.key.describe()}"


def check_figures(figures: Iterable[Figure], tickets: Sequence[Counted], name: str = "") -> PageCheck:
    """Compare the figures of the page called `name` with `tickets`.

    A page `batch2-drl.md` speaks of that batch and agent only, text below a heading `Batch 2` of that batch.
    """
    vocabulary = Vocabulary.of(tickets)
    known: list[_Known] = []
    unchecked: list[Remark] = []
    for figure in figures:
        found = _understand(figure, vocabulary, tickets, name)
        if isinstance(found, _Known):
            known.append(found)
        else:
            unchecked.append(Remark(figure.line, figure.column, f"{figure.written}: {found}"))
    wrong = [Remark(one.figure.line, one.figure.column, text) for one in known if (text := one.problem())]
    clashes = sorted(set(_contradictions(known)), key=lambda remark: (remark.line, remark.column, remark.message))
    return PageCheck(len(known) - len(wrong), tuple(wrong), tuple(clashes), tuple(unchecked))


def _understand(figure: Figure, vocabulary: Vocabulary, tickets: Sequence[Counted], name: str) -> _Known | str:
    """The figure with its true count, or why it cannot be checked."""
    if figure.unit.casefold() in _OTHER_UNITS:
        return f"counts {figure.unit.casefold()}, not tickets"
    measure = _UNTOLD
    for label in figure.labels:
        found = vocabulary.measure(label, figure.subject if label == figure.labels[0] else "")
        if found is None:
            words = ", ".join(filter(None, figure.labels))
            return f"it is not clear which tickets are '{words}'" if words else "it is not clear what it is a share of"
        measure = found if found.distinct is not None else measure.also(found)
    if figure.is_percent and measure.distinct is not None:
        return "a share of what is not clear"
    scope = _scope(figure, name, measure)
    chosen = [ticket for ticket in tickets if count_of(scope, [ticket])]
    is_of_votes = measure.counts_votes
    base = sum(len(values_of(ticket, Facet.VERDICT)) for ticket in chosen) if is_of_votes else len(chosen)
    return _Known(figure, measure, scope, count_of(measure, chosen), base)


def _scope(figure: Figure, name: str, measure: Measure) -> Measure:
    """Which tickets the page, or the section, speaks of."""
    conditions: list[tuple[Facet, frozenset[str]]] = []
    report = _REPORT_NAME.search(name)
    heading = next((match for text in figure.headings if (match := _BATCH_HEADING.match(text))), None)
    batch = report[1] if report else heading[1] if heading else ""
    if batch:
        conditions.append((Facet.BATCH, frozenset({str(int(batch))})))
    if report and report[2] and report[2].casefold() in AGENT_NAMES.values():
        conditions.append((Facet.AGENT, frozenset({report[2].casefold()})))
    named = {facet for facet, _ in measure.conditions}
    return Measure(tuple(part for part in conditions if part[0] not in named))


def _fits(figure: Figure, count: float, base: float) -> bool:
    return base > 0 and abs(100 * count / base - figure.value) <= figure.tolerance + 1e-9


def _contradictions(known: Sequence[_Known]) -> Iterator[Remark]:
    """Where the page disagrees with itself: counts told twice, sums, and percentages of its own counts."""
    told: dict[Measure, Figure] = {}
    for one in known:
        if one.figure.is_percent:
            continue
        first = told.setdefault(one.key, one.figure)
        if first.value != one.figure.value:
            yield _clash(
                one, f"says {one.figure.written}, line {first.line} says {first.written}: {one.key.describe()}"
            )
    values = {measure: figure.value for measure, figure in told.items()}
    yield from _sums(known, values)
    for one in known:
        if one.figure.is_percent:
            yield from _own_share(one, values)
        elif (parts := _sum_of_parts(one.key, values)) is not None and parts != one.figure.value:
            yield _clash(one, f"says {one.figure.written}, its parts sum up to {parts:g}: {one.key.describe()}")


def _sums(known: Sequence[_Known], values: dict[Measure, float]) -> Iterator[Remark]:
    """Tables of a facet that every ticket has one value of, whose sum is not the page's total."""
    tables: dict[tuple[int, Facet, Measure], dict[Measure, _Known]] = {}
    for one in known:
        facets = [facet for facet, _ in one.measure.conditions]
        is_part = len(facets) == 1 and facets[0].is_single and not one.figure.is_percent and one.figure.subject
        if is_part and len(one.measure.conditions[0][1]) == 1:
            tables.setdefault((one.figure.block, facets[0], one.scope), {}).setdefault(one.key, one)
    for (_, facet, scope), parts in tables.items():
        total = values.get(scope)
        added = sum(part.figure.value for part in parts.values())
        if total is not None and added != total:
            first = next(iter(parts.values()))
            message = f"the counts by {facet} sum up to {added:g}, the total says {total:g}"
            yield Remark(first.figure.line, first.figure.column, message)


def _own_share(one: _Known, values: dict[Measure, float]) -> Iterator[Remark]:
    """A percentage that follows neither from the page's total nor from the sum of its own facet."""
    count = values.get(one.key, _sum_of_parts(one.key, values))
    bases = [base for base in (values.get(one.scope), _whole(one.measure, one.scope, values)) if base]
    if count is None or not bases or any(_fits(one.figure, count, base) for base in bases):
        return
    shares = " or ".join(
        f"{count:g} of {base:g} is {percent_of(int(count), int(base))}%" for base in dict.fromkeys(bases)
    )
    yield _clash(one, f"says {one.figure.written}, but {shares}: {one.key.describe()}")


def _sum_of_parts(measure: Measure, values: dict[Measure, float]) -> float | None:
    """What the page says of the single values that `measure` unites (`P0-P1`); None where one is missing."""
    several = [part for part in measure.conditions if len(part[1]) > 1 and part[0].is_single]
    if len(several) != 1:
        return None
    facet, wanted = several[0]
    parts = [_with(measure, facet, value) for value in sorted(wanted)]
    return sum(values[part] for part in parts) if all(part in values for part in parts) else None


def _whole(measure: Measure, scope: Measure, values: dict[Measure, float]) -> float | None:
    """The sum over every value that the page gives for the measure's facet; None for several facets."""
    if len(measure.conditions) != 1:
        return None
    facet = measure.conditions[0][0]
    if not facet.is_single and facet is not Facet.VERDICT:
        return None
    depth = len(scope.conditions) + 1
    parts = [
        value
        for other, value in values.items()
        if len(other.conditions) == depth
        and other.conditions[:-1] == scope.conditions
        and other.conditions[-1][0] is facet
        and len(other.conditions[-1][1]) == 1
    ]
    return sum(parts) if parts else None


def _with(measure: Measure, facet: Facet, value: str) -> Measure:
    return Measure(tuple((f, frozenset({value}) if f is facet else v) for f, v in measure.conditions))


def _clash(one: _Known, message: str) -> Remark:
    return Remark(one.figure.line, one.figure.column, message)
