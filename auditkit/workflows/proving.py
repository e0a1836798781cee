"""The two runs behind a proof: where a ticket's probes reproduced, and where its fix is."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from auditkit.errors import BadInputError
from auditkit.model.enums import Outcome
from auditkit.model.measurement import Measured
from auditkit.model.ticket import EvidenceSummary, Ticket
from auditkit.probing import git
from auditkit.probing.checkout import CheckoutSpec, OpenCheckout, open_checkout
from auditkit.probing.history import is_ancestor
from auditkit.rules.claims import Reading
from auditkit.rules.proof import Proof, Sighting, prove
from auditkit.workflows.asking import Manner
from auditkit.workflows.bound import Question
from auditkit.workflows.measuring import Progress
from auditkit.workflows.seeing import Seen, anchored, see

_HEX = re.compile(r"[0-9a-f]{7,64}")
_KIND = re.compile(r"\((\w+)\)$")


@dataclass(frozen=True)
class Base:
    """The broken code of one question: a commit, and whether the evidence itself is the run there.

    `commit` is "" where there is none, and `why_not` says why.
    """

    commit: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Check:
    """One question with its run at the fix, and its run at the base: made now, or the one that the evidence shows.

    `found` says that the evidence shows a run that reproduced, `found_at` its commit, "" for changed files.
    """

    question: Question
    fix: Seen
    base: Base
    base_seen: Seen | None = None
    as_found: EvidenceSummary | None = None
    found: bool = False
    found_at: str = ""

    @property
    def base_sighting(self) -> Sighting | None:
        if self.base_seen is not None:
            return sighting_of(self.base_seen)
        found = self.as_found
        if found is None:
            return None
        return Sighting(Outcome.REPRODUCED, found.message, Reading(found.measurements, found.law))

    @property
    def proof(self) -> Proof:
        """What the outcomes alone prove."""
        return prove(self.base_sighting, sighting_of(self.fix), None, self.base.why_not)


@dataclass(frozen=True)
class Place:
    """Where the code is: the directory as the user named it, its repository, and the revision of the fix.

    `at` is "" for the files as they lie.
    """

    spec: CheckoutSpec
    repository: git.Repository | None
    at: str
    manner: Manner = field(default_factory=Manner)

    @property
    def label(self) -> str:
        """The directory as the user named it."""
        return self.spec.text.removesuffix(f"@{self.spec.revision}") if self.spec.revision else self.spec.text

    @contextlib.contextmanager
    def open(self, revision: str) -> Iterator[OpenCheckout]:
        """The checkout at `revision`, or as it lies for ""."""
        text = f"{self.label}@{revision}" if revision else self.label
        with open_checkout(CheckoutSpec(text, self.spec.directory, revision), self._python()) as opened:
            yield opened

    def _python(self) -> str | None:
        return self.manner.python or self.manner.config.python


def sighting_of(seen: Seen) -> Sighting:
    """What a run said and measured, its numbers as exact as they are."""
    rows = [Measured.exact(measurement) for measurement in seen.result.measurements]
    return Sighting(seen.result.outcome, seen.result.message, Reading(rows, seen.result.law))


def base_of(question: Question, ticket: Ticket, place: Place, named: str) -> Base:
    """The commit at which the question was found, or ought to have been: `named`, the evidence's, the fix's parent.

    A question without evidence of its own has the base of the ticket's other evidence. Raises BadInputError for a
    `named` revision that is not there.
    """
    repository = place.repository
    if repository is None:
        return Base("", f"{place.label} is in no git repository, so there is no code from before the fix")
    if named:
        return Base(git.resolve_revision(repository, named))
    written = _found_at(question, ticket)
    for revision in (*written, *_parents_of_fix(ticket)):
        if commit := _commit(repository, revision):
            return Base(commit)
    if written:
        return Base("", f"it reproduced at {written[0][:12]}, which is not in {place.label}: --base REV names another")
    return Base("", "nothing says at which revision it reproduced: --base REV names one")


def evidence_of(question: Question, ticket: Ticket) -> EvidenceSummary | None:
    """The ticket's block of that question."""
    return next((block for block in ticket.evidence if block.fingerprint == question.fingerprint), None)


def make_checks(
    questions: Sequence[Question],
    ticket: Ticket,
    place: Place,
    base: str = "",
    needs_rows: frozenset[str] = frozenset(),
    progress: Progress | None = None,
) -> tuple[list[Check], OpenedAt]:
    """Ask every question at the fix, and at its base where the evidence cannot stand for that run.

    `base` is a revision that the user named: then the evidence never stands for it. `needs_rows` are
    fingerprints whose conditions need the base's measurements. Raises BadInputError for a revision that is not
    there, an interpreter that is not, and functions of a ticket that lie nowhere.
    """
    bases = {question.fingerprint: base_of(question, ticket, place, base) for question in questions}
    commits = dict.fromkeys(one.commit for one in bases.values() if one.commit)
    with contextlib.ExitStack() as stack:
        opened = stack.enter_context(place.open(place.at))
        here = OpenedAt(opened.revision, opened.dirty, opened.notes)
        lacks = _lacks_one(questions, opened, place.manner)
        older = {commit: stack.enter_context(place.open(commit)) for commit in commits if lacks}
        old_source = anchored(next(iter(older.values())), place.manner) if older else None
        fixes = see(questions, opened, place.manner, place.label, old_source, progress)
        new_source = anchored(opened, place.manner)
        checks = [
            _check(
                question,
                fixes[question.fingerprint],
                bases[question.fingerprint],
                ticket,
                place,
                here,
                base,
                needs_rows,
            )
            for question in questions
        ]
        for commit in commits:
            asked = [one.question for one in checks if one.base.commit == commit and _is_run_at_base(one)]
            if not asked:
                continue
            at_base = older.get(commit) or stack.enter_context(place.open(commit))
            seen = see(asked, at_base, place.manner, place.label, new_source, progress)
            checks = [
                replace(one, base_seen=seen[one.question.fingerprint])
                if one.question in asked and one.base.commit == commit
                else one
                for one in checks
            ]
    return checks, here


@dataclass(frozen=True)
class OpenedAt:
    """The revision at which the fix was looked at: "" outside git; `is_dirty` with uncommitted changes."""

    revision: str
    is_dirty: bool
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        if not self.revision:
            return "files that are not under version control"
        return f"revision {self.revision}{' with uncommitted changes' if self.is_dirty else ''}"


def _is_run_at_base(check: Check) -> bool:
    return check.as_found is None and not check.base.why_not


def _lacks_one(questions: Sequence[Question], opened: OpenCheckout, manner: Manner) -> bool:
    """Whether the source does not define a function that is asked about: only then older source has to be read."""
    calls = [question.target.call for question in questions if question.probe.scope == "target"]
    source = anchored(opened, manner)
    return any(source.anchor(call) is None for call in calls)


def _check(
    question: Question,
    fix: Seen,
    base: Base,
    ticket: Ticket,
    place: Place,
    here: OpenedAt,
    named: str,
    needs_rows: frozenset[str],
) -> Check:
    """The question with its base: as the evidence has it, still to be run, or refused with a reason."""
    base = _usable(base, place, here)
    block = evidence_of(question, ticket)
    found = block is not None and block.was_found
    found_at = block.revision if block is not None and found and not block.is_dirty else ""
    check = Check(question, fix, base, found=found, found_at=found_at)
    if not base.commit or named or block is None or not _stands_for_base(block, base, fix):
        return check
    if question.fingerprint in needs_rows and not block.measurements:
        return check
    return replace(check, as_found=block)


def _usable(base: Base, place: Place, here: OpenedAt) -> Base:
    """No base is what the fix is itself, nor what comes after it: between them nothing was mended."""
    if not base.commit or place.repository is None or not here.revision:
        return base
    if base.commit == here.revision:
        return base if here.is_dirty else Base("", f"the base {base.commit[:12]} is the revision that was looked at")
    if is_ancestor(place.repository, here.revision, base.commit):
        return Base("", f"{here.revision[:12]} is older than the base {base.commit[:12]}: it cannot hold the fix")
    return base


def _stands_for_base(block: EvidenceSummary, base: Base, fix: Seen) -> bool:
    """Whether the run that the block shows was made as the base would be now: clean, same probe, same environment."""
    environment = fix.environment
    kind = _KIND.search(block.device)
    return (
        block.was_found
        and not block.is_dirty
        and block.revision == base.commit
        and block.version == fix.result.probe_version
        and block.torch == environment.torch
        and block.python.split(".")[:2] == environment.python.split(".")[:2]
        and kind is not None
        and kind[1] == (fix.result.device or environment.device)
    )


def _found_at(question: Question, ticket: Ticket) -> list[str]:
    """Where the question's own evidence reproduced, then where the ticket's other evidence did."""
    blocks = sorted(ticket.evidence, key=lambda block: block.fingerprint != question.fingerprint)
    return [block.revision for block in blocks if block.was_found and _HEX.fullmatch(block.revision)]


def _parents_of_fix(ticket: Ticket) -> Iterator[str]:
    if ticket.resolution is not None:
        for commit in ticket.resolution.commits:
            yield f"{commit}^"


def _commit(repository: git.Repository, revision: str) -> str:
    try:
        return git.resolve_revision(repository, revision)
    except BadInputError:
        return ""
