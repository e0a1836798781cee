"""TK070 to TK078: what a ticket says of other tickets is so."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditkit.model.tickets.ids import AGENT_NAMES, TicketId, find_ticket_ids, id_parts
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.relation import Relation, RelationKind
from auditkit.rules.lint.checks.wording import Words, coverage, telling_words, words_in
from auditkit.rules.lint.positions import folder_of, is_finished
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_SAME = re.compile(r"\bsame (?:issue|finding|bug)\b|\bduplicate (?:finding|ticket|of)\b", re.IGNORECASE)

# TK078: a note must hold this part of the other title's words, at least so many, and so much more than of
# the title that it was written for. Set by reading the 77 notes of a public project: both that pass are slips.
_FITS = 0.6
_FEWEST_WORDS = 3
_BETTER_BY = 0.5


@rule("TK070", Level.ERROR, "A related ticket does not exist")
def missing_related(page: Page, context: LintContext) -> Iterator[Problem]:
    """An entry of Related Findings names an id that no file of the folder has.

    When only a part of a folder is linted, tickets of the other part count as missing.

    Why: The reader cannot follow it, and a ticket blocked by it waits for ever.
    Bad: - B7-PT-99: overflow in the gradient sum
    Good: - B7-PT-09: overflow in the gradient sum
    Mend: Correct the id, or remove the entry if the ticket was never filed.
    """
    for relation in page.ticket.related:
        if relation.id and relation.id not in context.titles:
            yield _at(relation, f"related {relation.id} does not exist")


@rule("TK071", Level.ERROR, "A ticket is related to itself")
def related_to_itself(page: Page, context: LintContext) -> Iterator[Problem]:
    """An entry of Related Findings names the ticket that it stands in.

    Why: Another ticket was meant, and the link to it is lost.
    Bad: - B7-PT-01: overflow in the gradient sum, in B7-PT-01
    Good: - B7-PT-02: overflow in the gradient sum, in B7-PT-01
    Mend: Write the id that was meant, or remove the entry.
    """
    for relation in page.ticket.related:
        if relation.id == page.ticket.id:
            yield _at(relation, "related to itself")


@rule("TK072", Level.ERROR, "A relationship is none of the four")
def unknown_relation(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Relationship column says something else than `duplicate`, `related`, `blocks` or `blocked-by`.

    A list without such a column has no relationship to get wrong.

    Why: `ticket next` cannot tell what waits for what.
    Bad: | `B7-PT-02` | `depends` | Sums are changed there |
    Good: | `B7-PT-02` | `blocked-by` | Sums are changed there |
    Mend: Write one of the four words; the rest belongs into the note.
    """
    for relation in page.ticket.related:
        if relation.kind is None and (relation.form == "table" or relation.kind_written):
            written = relation.kind_written or "(empty)"
            yield _at(relation, f"relationship not one of {', '.join(RelationKind)}: {written}")


@rule("TK073", Level.INFO, "A related ticket does not link back")
def no_link_back(page: Page, context: LintContext) -> Iterator[Problem]:
    """An entry of Related Findings names a ticket whose own Related Findings does not name this one.

    Why: Who reads the other ticket first does not learn of this one.
    Bad: - B7-CR-02: printing, in B7-PT-01; nothing in B7-CR-02
    Good: - B7-CR-02: printing, in B7-PT-01; - B7-PT-01: sums, in B7-CR-02
    Mend: Add the entry there, or `auditkit ticket link`.
    """
    for relation, others in _existing(page, context):
        if not any(back.id == page.ticket.id for other in others for back in other.ticket.related):
            yield _at(relation, f"{relation.id} does not link back")


@rule("TK074", Level.WARN, "Duplicates have different severities")
def duplicate_severity(page: Page, context: LintContext) -> Iterator[Problem]:
    """Two tickets are said to be the same finding, and their severities differ.

    A list entry whose note says "same issue" or "duplicate finding" counts as a duplicate.

    Why: The same defect is taken up early or late, by which of the two a person opens.
    Bad: | `B7-CR-02` | `duplicate` | The same sum | in a P2, where B7-CR-02 is a P4
    Good: | `B7-CR-02` | `duplicate` | The same sum | in a P2, where B7-CR-02 is a P2
    Mend: Agree on one severity, and close one of the two as `duplicate`.
    """
    own = page.ticket.severity
    for relation, others in _duplicates(page, context):
        named = next((one.ticket.severity for one in others if one.ticket.severity is not None), None)
        if own is not None and named is not None and own is not named:
            yield _at(relation, f"duplicate of {relation.id} has severity {named}, this {own}")


@rule("TK075", Level.ERROR, "An open duplicate of a finished ticket")
def open_duplicate(page: Page, context: LintContext) -> Iterator[Problem]:
    """The ticket says that it is a duplicate of a finished one, and is still open.

    Why: Somebody will look for a defect that is already mended or refused.
    Bad: | **Status** | `open` | with | `B7-CR-02` | `duplicate` | | where B7-CR-02 is fixed
    Good: | **Status** | `duplicate` | with | `B7-CR-02` | `duplicate` | |
    Mend: Close it as `duplicate`; if the defect is still there, reopen the other ticket.
    """
    status = page.ticket.status
    if status is None or is_finished(page, context.settings):
        return
    for relation, others in _duplicates(page, context):
        ended = next((one for one in others if is_finished(one, context.settings)), None)
        if ended is not None:
            end = ended.ticket.status if ended.ticket.is_finished else f"in {folder_of(ended, context.settings)}/"
            yield _at(relation, f"{status}, but a duplicate of {relation.id}, which is {end}")


@rule("TK076", Level.INFO, "A related entry names no ticket")
def entry_without_id(page: Page, context: LintContext) -> Iterator[Problem]:
    """An entry of Related Findings has no ticket id.

    Why: A finding of a report is not a ticket; nobody can follow the entry.
    Bad: - Duplicated in the review (P-4)
    Good: - B4-DRL-04: duplicated there
    Mend: Write the id of the ticket that was filed for it.
    """
    for relation in page.ticket.related:
        if not relation.id:
            yield _at(relation, f"related entry without a ticket id: {relation.written}")


@rule("TK077", Level.WARN, "The text mentions a ticket that does not exist")
def missing_mention(page: Page, context: LintContext) -> Iterator[Problem]:
    """The text names an id that no file of the folder has; one finding for each id, where it stands first.

    Ids that Related Findings lists are left to TK070. Only ids with an agent code of the project count.

    Why: The reader cannot follow it.
    Bad: This is the sum of B7-PT-99.
    Good: This is the sum of B7-PT-09.
    Mend: Correct the id, or say what was meant without one.
    """
    known = context.once("agent codes", _agent_codes)
    listed = {relation.id for relation in page.ticket.related}
    for ticket_id, (line, column) in mentions(page, context).items():
        if ticket_id not in context.titles and ticket_id not in listed and id_parts(ticket_id)[1] in known:
            yield Problem(f"{ticket_id} does not exist", line, column)


def _agent_codes(context: LintContext) -> frozenset[str]:
    used = {id_parts(ticket_id)[1] for ticket_id in context.titles}
    return frozenset(used | {code.upper() for code in context.settings.agents} | set(AGENT_NAMES))


def mentions(page: Page, context: LintContext) -> Mapping[TicketId, tuple[int, int]]:
    """The ids that a page names besides its own, with the line and column where each stands first."""

    def read(_: LintContext) -> Mapping[TicketId, tuple[int, int]]:
        named = set(find_ticket_ids("\n".join(page.lines))) - {page.ticket.id}
        found: dict[TicketId, tuple[int, int]] = {}
        for number, line in enumerate(page.lines, start=1) if named else ():
            for ticket_id in find_ticket_ids(line) if "-" in line else ():
                if ticket_id in named:
                    found.setdefault(ticket_id, (number, line.find(ticket_id) + 1))
        return found

    return context.once(("mentions", page.ticket.path), read)


def _at(relation: Relation, message: str) -> Problem:
    return Problem(message, relation.line)


def _existing(page: Page, context: LintContext) -> Iterator[tuple[Relation, Sequence[Page]]]:
    """The relations to other tickets that exist, with the pages of each."""
    for relation in page.ticket.related:
        if relation.id and relation.id != page.ticket.id:
            others = context.pages.get(TicketId(relation.id), ())
            if others:
                yield relation, others


def _duplicates(page: Page, context: LintContext) -> Iterator[tuple[Relation, Sequence[Page]]]:
    for relation, others in _existing(page, context):
        says_same = relation.kind is None and _SAME.search(relation.note) is not None
        if relation.kind is RelationKind.DUPLICATE or says_same:
            yield relation, others


@dataclass(frozen=True)
class _Titles:
    """The titles of one batch by number, and the index that finds those which a note may fit."""

    ids: Sequence[TicketId]
    words: Mapping[int, Words]
    index: Mapping[tuple[str, ...], Sequence[int]]


@rule("TK078", Level.INFO, "A related entry's note fits another ticket better")
def misplaced_note(page: Page, context: LintContext) -> Iterator[Problem]:
    """The note of a related entry holds most words of another ticket's title, and none or few of its own.

    Compared are the tickets of the same batch. This is a guess from words of four letters and more.

    Why: An id is easily one off, and the wrong ticket is then linked.
    Bad: - B7-PT-11: overflow in the gradient sum, where B7-PT-12 is about that sum
    Good: - B7-PT-12: overflow in the gradient sum
    Mend: Open both tickets and write the id that is meant.
    """
    batch = id_parts(page.ticket.id)[0]
    batches = context.once("titles by batch", _titles_by_batch)
    titles = context.once(("titles", batch), lambda _: _titles(batches[batch]))
    for relation, others in _existing(page, context):
        note = words_in(relation.note)
        own = max(coverage(note, words_in(other.ticket.title)) for other in others)
        fit, best = _best_title(note, titles, {page.ticket.id, relation.id})
        if fit >= _FITS and fit - own >= _BETTER_BY:
            message = f"note for {relation.id} ({relation.note}) fits {best} better ({fit:.2f} vs {own:.2f})"
            yield _at(relation, message)


def _titles_by_batch(context: LintContext) -> Mapping[int, Mapping[TicketId, str]]:
    batches: dict[int, dict[TicketId, str]] = {}
    for ticket_id, title in context.titles.items():
        batches.setdefault(id_parts(ticket_id)[0], {})[ticket_id] = title
    return batches


def _titles(titles: Mapping[TicketId, str]) -> _Titles:
    words = {number: words_in(title) for number, title in enumerate(titles.values())}
    return _Titles(list(titles), words, telling_words(words, _FITS, together=2))


def _best_title(note: Words, titles: _Titles, without: set[TicketId | str]) -> tuple[float, str]:
    """The title of which a note holds the largest part, and that part; (0.0, "") for none."""
    pairs = itertools.combinations(sorted(note), 2)
    candidates = {number for pair in pairs for number in titles.index.get(pair, ())}
    fits = [
        (coverage(note, titles.words[number]), titles.ids[number])
        for number in candidates
        if titles.ids[number] not in without and len(note & titles.words[number]) >= _FEWEST_WORDS
    ]
    return max(fits, default=(0.0, ""))
