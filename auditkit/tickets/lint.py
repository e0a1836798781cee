"""Fifteen rules for a folder of tickets. The docstring of a rule is its documentation."""

from __future__ import annotations

import contextlib
import graphlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.ticket import REOPENING, UNKNOWN, Evidence
from auditkit.tickets.document import Document
from auditkit.tickets.lifecycle import Place, stale_reviews, still_reproducing
from auditkit.tickets.store import TicketFolder

TEMPLATE_TEXTS = (
    "(What is wrong, and where? Who meets it, and what happens to them?)",
    "(A script of at most 12 lines that shows it, with its output)",
    "(The smallest change that fixes it, or why there is none)",
)
"""What `ticket new` writes for people to replace."""


@dataclass(frozen=True)
class Finding:
    """One violation: the file, the line (from 1), the rule, what is wrong, and what would be correct."""

    path: Path
    line: int
    rule: str
    message: str
    hint: str = ""


@dataclass(eq=False)
class Scope:
    """What the rules look at: the folder, the documents that were read, and the checkout (None: not available)."""

    folder: TicketFolder
    place: Place | None
    documents: Sequence[Document] = ()

    @cache  # noqa: B019 - there is one for each run
    def line_count(self, file: str) -> int | None:
        """Return the number of lines of a file of the checkout, None if there is no such file."""
        source = self.place.source("", file) if self.place is not None else None
        return None if source is None else source.count("\n") + (not source.endswith("\n"))

    @cache  # noqa: B019
    def commit(self, revision: str) -> str | None:
        """Return the full hash of a revision of the checkout's repository."""
        return self.place.commit(revision) if self.place is not None else None

    @cached_property
    def has_git(self) -> bool:
        return self.place is not None and self.place.git("rev-parse", "--git-dir") is not None

    @cached_property
    def ancestors(self) -> frozenset[str]:
        """The hashes of HEAD and of every commit before it."""
        return frozenset((self.place.git("rev-list", "HEAD") or "").split()) if self.place is not None else frozenset()

    @cached_property
    def ids(self) -> frozenset[str]:
        """The ids of all files of the folder, those that were not read too."""
        return frozenset(self.folder.ids())

    def evidence(self, document: Document) -> Evidence | None:
        """Return the evidence of a ticket; an invalid file counts as none and is reported by `schema`."""
        with contextlib.suppress(BadInputError):
            return self.folder.evidence(document.path.stem)
        return None

    @cached_property
    def cited(self) -> dict[str, list[Document]]:
        """The documents by the id in their front matter."""
        found: dict[str, list[Document]] = {}
        for document in self.documents:
            found.setdefault(document.ticket.id, []).append(document)
        return found

    @cached_property
    def cycle(self) -> frozenset[str]:
        """The ids of the first cycle of blocked-by links among these documents."""
        edges = {document.ticket.id: document.ticket.linked("blocked-by") for document in self.documents}
        try:
            graphlib.TopologicalSorter(edges).prepare()
        except graphlib.CycleError as error:
            return frozenset(error.args[1])
        return frozenset()


Violation = tuple[int, str, str]
"""Line, message and hint."""


def line_of(document: Document, key: str) -> int:
    """Return the line of a key of the front matter."""
    return next((n for n, line in enumerate(document.lines, 1) if line.startswith(f"{key}:")), 1)


def schema(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each key, type and value of the front matter is valid; each review and resolution has its form.

    auditkit names the nearest valid key or value. A file with such an error cannot be listed or edited.
    The evidence file is valid JSON of its schema.
    """
    try:
        scope.folder.evidence(document.path.stem)
    except BadInputError as error:
        yield 1, error.message, error.hint or ""


def conflict_marks(scope: Scope, document: Document) -> Iterator[Violation]:
    """No conflict marks of git are left, and no key and no section is there twice.

    Both sides of the conflict are in the file: keep what is right, and remove the marks.
    """
    yield from ()


def id_is_not_the_file_name(scope: Scope, document: Document) -> Iterator[Violation]:
    """The id in the front matter is the name of the file: `B1-PT-03` is in `B1-PT-03.md`."""
    if document.ticket.id != document.path.stem:
        hint = f"rename the file to {document.ticket.id}.md, or write id: {document.path.stem}"
        yield line_of(document, "id"), f"the id {document.ticket.id} is not the file's name", hint


def duplicate_id(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each id belongs to one file."""
    others = [other.path.name for other in scope.cited[document.ticket.id] if other is not document]
    if others:
        yield line_of(document, "id"), f"{document.ticket.id} is also the id of {', '.join(others)}", "change one"


def path_missing(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each file of `location` is in the checkout. Finished tickets may name files that are gone."""
    if scope.place is None or document.ticket.status.is_finished:
        return
    for place in document.ticket.places:
        if scope.line_count(place.file) is None:
            hint = f"auditkit ticket edit {document.ticket.id} location=PATH:LINE"
            yield line_of(document, "location"), f"{scope.place.folder} has no file {place.file}", hint


def line_past_end(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each line number of `location` is in its file. The next audit updates the line of a finding."""
    if scope.place is None or document.ticket.status.is_finished:
        return
    for place in document.ticket.places:
        count = scope.line_count(place.file)
        if count is not None and place.last > count:
            hint = f"auditkit ticket edit {document.ticket.id} location={place.file}:LINE"
            yield line_of(document, "location"), f"{place.file} has {count} lines, not {place.last}", hint


def unknown_commit(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each revision of a review or a resolution is a commit of the checkout's repository."""
    named = [(one.line, one.revision) for one in document.ticket.reviews if one.revision != UNKNOWN]
    named += [(one.line, one.commit) for one in document.ticket.resolutions if one.commit]
    for line, revision in named if scope.has_git else ():
        if scope.commit(revision) is None:
            yield line, f"the repository has no commit {revision}", "fetch it, or correct the hash"


def commit_not_in_revision(scope: Scope, document: Document) -> Iterator[Violation]:
    """The commit that fixed a finished ticket is part of the checkout's HEAD."""
    resolution = document.ticket.resolution
    if scope.has_git and resolution is not None and resolution.commit and document.ticket.status.is_finished:
        full = scope.commit(resolution.commit)
        if full is not None and full not in scope.ancestors:
            yield resolution.line, f"HEAD does not contain the commit {resolution.commit}", "merge it, or reopen"


def fixed_but_reproduces(scope: Scope, document: Document) -> Iterator[Violation]:
    """No finding of a ticket that is fixed, closed or already-fixed reproduced in the last run."""
    if document.ticket.status in REOPENING:
        for fingerprint in still_reproducing(document.ticket, scope.evidence(document)):
            hint = f"auditkit ticket verify {document.ticket.id}, or auditkit ticket status {document.ticket.id} open"
            yield line_of(document, "status"), f"{fingerprint} still reproduces", hint


def finished_without_resolution(scope: Scope, document: Document) -> Iterator[Violation]:
    """The last line of the Resolution of a finished ticket has the ticket's status."""
    ticket = document.ticket
    if ticket.status.is_finished and (ticket.resolution is None or ticket.resolution.status is not ticket.status):
        hint = f"auditkit ticket resolve {ticket.id} {ticket.status.value}"
        yield line_of(document, "status"), f"the ticket is {ticket.status.value} without a resolution", hint


def ticked_but_reproduces(scope: Scope, document: Document) -> Iterator[Violation]:
    """No box of a probe is ticked while one of the probe's findings reproduces."""
    ticked = {box.probe: box.line for box in document.ticket.boxes if box.is_done and box.probe}
    if ticked:
        for fingerprint in still_reproducing(document.ticket, scope.evidence(document)):
            probe = fingerprint.partition("/")[0]
            if probe in ticked:
                hint = f"auditkit ticket verify {document.ticket.id}"
                yield ticked[probe], f"{fingerprint} still reproduces, but its box is ticked", hint


def stale_review(scope: Scope, document: Document) -> Iterator[Violation]:
    """The function of an open ticket has not changed since the revision that a review names."""
    if scope.has_git and scope.place is not None and not document.ticket.status.is_finished:
        for review in stale_reviews(document.ticket, scope.place):
            message = f"{document.ticket.function} has changed since {review.reviewer} reviewed {review.revision}"
            yield review.line, message, f"auditkit ticket review {document.ticket.id} VERDICT"


def linked_id_missing(scope: Scope, document: Document) -> Iterator[Violation]:
    """Each id of `links` has a ticket in the folder."""
    for link in document.ticket.links:
        other = link.split()[1]
        if other not in scope.ids:
            hint = f'auditkit ticket edit {document.ticket.id} links-="{link}"'
            yield line_of(document, "links"), f"there is no ticket {other}", hint


def blocked_by_cycle(scope: Scope, document: Document) -> Iterator[Violation]:
    """No ticket is blocked by itself through others."""
    ticket = document.ticket
    if ticket.id in scope.cycle:
        others = sorted(scope.cycle.intersection(ticket.linked("blocked-by")))
        message = f"{ticket.id} is blocked by itself through {', '.join(others) or 'others'}"
        yield line_of(document, "links"), message, f'auditkit ticket edit {ticket.id} links-="blocked-by ID"'


def template_text_left(scope: Scope, document: Document) -> Iterator[Violation]:
    """No text of the template of `ticket new` is left in the ticket."""
    for number, line in enumerate(document.lines, 1):
        if line in TEMPLATE_TEXTS:
            yield number, f"the template's text is left: {line}", "replace it, or remove the section"


Rule = Callable[[Scope, Document], Iterator[Violation]]
RULES: tuple[Rule, ...] = (
    schema, id_is_not_the_file_name, duplicate_id, path_missing, line_past_end, unknown_commit, commit_not_in_revision,
    fixed_but_reproduces, finished_without_resolution, ticked_but_reproduces, stale_review, linked_id_missing,
    blocked_by_cycle, template_text_left, conflict_marks,
)  # fmt: skip


def rule_name(rule: Rule) -> str:
    """Return the name of a rule as users see it."""
    return rule.__name__.replace("_", "-")


def rule_pages() -> dict[str, str]:
    """Return the documentation of each rule by its name."""
    return {rule_name(rule): inspect.getdoc(rule) or "" for rule in RULES}


_CONFLICT = re.compile(r"conflict mark|is there twice|a second section")


def lint(folder: TicketFolder, place: Place | None, ids: Sequence[str] = ()) -> list[Finding]:
    """Check the tickets with these ids (all of them without), in the order of their files and lines."""
    documents, broken = folder.documents(ids)
    scope = Scope(folder, place, documents)
    found = []
    for error in broken:
        for problem in error.problems:
            name = rule_name(conflict_marks if _CONFLICT.search(problem.message) else schema)
            found.append(Finding(error.path, problem.line, name, problem.message, problem.hint))
    for document in documents:
        for rule in RULES:
            found += [Finding(document.path, line, rule_name(rule), *told) for line, *told in rule(scope, document)]
    return sorted(found, key=lambda one: (str(one.path), one.line, one.rule))
