"""TK090 to TK092: tickets about the same place that may be one finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from auditkit.model.tickets.ids import id_parts
from auditkit.model.tickets.page import Page
from auditkit.rules.lint.checks.relations import mentions
from auditkit.rules.lint.checks.source import is_path, locate, without_prefix
from auditkit.rules.lint.checks.wording import Words, jaccard, telling_words, words_in
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_DUPLICATE_TITLE = 0.34
_DUPLICATE_OVERLAP = 0.5
SIMILAR_TITLE = 0.5


@dataclass(frozen=True)
class _Place:
    """A ticket about one file: its lines as ranges that do not touch, in order, and its title's words."""

    page: Page
    spans: tuple[tuple[int, int], ...]
    words: Words

    @property
    def size(self) -> int:
        return sum(last - first + 1 for first, last in self.spans)


@dataclass(frozen=True)
class _Pair:
    """Two tickets about the same file, the lines they share, and how alike their titles are."""

    one: _Place
    other: _Place

    @cached_property
    def shared(self) -> int:
        pairs = itertools.product(self.one.spans, self.other.spans)
        return sum(max(0, min(a[1], b[1]) - max(a[0], b[0]) + 1) for a, b in pairs)

    @cached_property
    def likeness(self) -> float:
        return jaccard(self.one.words, self.other.words)

    @property
    def is_duplicate(self) -> bool:
        enough = self.shared >= _DUPLICATE_OVERLAP * min(self.one.size, self.other.size)
        return self.shared > 0 and enough and self.likeness >= _DUPLICATE_TITLE

    @property
    def is_filed(self) -> bool:
        """Whether auditkit told the two apart by their fingerprints."""
        return bool(self.one.page.ticket.fingerprints and self.other.page.ticket.fingerprints)

    def is_linked(self, context: LintContext) -> bool:
        one, other = self.one.page, self.other.page
        return other.ticket.id in mentions(one, context) or one.ticket.id in mentions(other, context)


@rule("TK090", Level.WARN, "Likely a duplicate")
def likely_duplicate(page: Page, context: LintContext) -> Iterator[Problem]:
    """Two tickets name the same single file, share half the lines of the smaller one, and their titles
    share a third of their words. Found in the ticket that comes first by id.

    Why: One defect is judged, mended and counted twice.
    Bad: B3-CR-08 and B3-PT-11, both `cnn.py`, line 24, both "Unused channels parameter", both open
    Good: B3-PT-11 with | **Status** | `duplicate` | and - B3-CR-08: duplicate finding
    Mend: Link the two, agree on one severity, close one as `duplicate`; or give them titles that differ.
    """
    for pair in _pairs_of(page, context):
        if pair.is_duplicate:
            unlinked = "" if pair.is_linked(context) else " (not linked)"
            other = pair.other.page.ticket.id
            yield Problem(f"same file, overlapping lines, similar title ({pair.likeness:.2f}): {other}{unlinked}")


@rule("TK091", Level.INFO, "Overlapping lines, and neither ticket mentions the other")
def unlinked_overlap(page: Page, context: LintContext) -> Iterator[Problem]:
    """Two tickets name the same single file and lines that overlap, and neither mentions the other's id.

    Pairs that TK090 finds are left out. Found in the ticket that comes first by id.

    Why: A mend of one changes the lines of the other, and two people may work on them at once.
    Bad: | **Line(s)** | `58, 139-145` | and, in another ticket, | **Line(s)** | `139` |
    Good: The same, and each has the other in Related Findings
    Mend: Link them in Related Findings.
    """
    for pair in _pairs_of(page, context):
        if pair.shared and not pair.is_duplicate and not pair.is_linked(context):
            other = pair.other.page.ticket.id
            yield Problem(f"same file, overlapping lines, not linked: {other} (title {pair.likeness:.2f})")


@rule("TK092", Level.INFO, "Same file and a similar title elsewhere in it")
def similar_title(page: Page, context: LintContext) -> Iterator[Problem]:
    """Two tickets name the same single file, other lines of it, and titles that share half their words.

    Found in the ticket that comes first by id; not of two that auditkit filed, which keeps findings of one cause
    together.

    Why: The same mistake in two places is often mended in one place only.
    Bad: "Division by zero in mean" for line 20 and "Division by zero in mean of squares" for line 80
    Good: | **Line(s)** | `20`, `80` | in one ticket, or two that name each other
    Mend: Link them, or merge them into one ticket with several ranges.
    """
    for pair in _pairs_of(page, context):
        if not pair.shared and pair.likeness >= SIMILAR_TITLE and not pair.is_filed:
            other = pair.other.page.ticket.id
            yield Problem(f"same file, other lines, similar title ({pair.likeness:.2f}): {other}")


def _pairs_of(page: Page, context: LintContext) -> Sequence[_Pair]:
    return context.once("pairs", _pairs_by_path).get(page.ticket.path, ())


def _pairs_by_path(context: LintContext) -> Mapping[PurePath, Sequence[_Pair]]:
    """Every pair worth a look, by the path of the ticket that comes first by id."""
    files: dict[str, list[_Place]] = {}
    for ticket_id in sorted(context.pages, key=id_parts):
        for page in context.pages[ticket_id]:
            paths = page.ticket.files
            if len(paths) == 1 and is_path(paths[0]):
                path = locate(paths[0], context) or without_prefix(paths[0], context.settings.prefix)
                files.setdefault(path, []).append(_Place(page, _merged(page), words_in(page.ticket.title)))
    pairs: dict[PurePath, list[_Pair]] = {}
    for places in files.values():
        for one, other in sorted(_overlapping(places) | _alike(places)):
            pair = _Pair(places[one], places[other])
            if pair.one.page.ticket.id != pair.other.page.ticket.id:
                pairs.setdefault(pair.one.page.ticket.path, []).append(pair)
    return pairs


def _merged(page: Page) -> tuple[tuple[int, int], ...]:
    """The cited lines as ranges that neither overlap nor touch, in order."""
    spans: list[tuple[int, int]] = []
    for first, last in sorted((span.first, span.last) for span in page.ticket.lines if span.first <= span.last):
        if spans and first <= spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    return tuple(spans)


def _overlapping(places: Sequence[_Place]) -> set[tuple[int, int]]:
    """The numbers of places that share a line, found in one pass over the ranges in order."""
    spans = sorted((*span, number) for number, place in enumerate(places) for span in place.spans)
    found: set[tuple[int, int]] = set()
    current: list[tuple[int, int]] = []
    for first, last, number in spans:
        current = [(end, other) for end, other in current if end >= first]
        found |= {(min(number, other), max(number, other)) for _, other in current if other != number}
        current.append((last, number))
    return found


def _alike(places: Sequence[_Place]) -> set[tuple[int, int]]:
    """The numbers of places whose titles may share half their words."""
    words = {number: place.words for number, place in enumerate(places)}
    return {
        (one, other)
        # Both titles of a pair that is alike enough have the word among their rarest ones.
        for numbers in telling_words(words, SIMILAR_TITLE).values()
        for one, other in itertools.combinations(numbers, 2)
        if jaccard(words[one], words[other]) >= SIMILAR_TITLE
    }
