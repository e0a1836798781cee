"""The two runs behind a proof: where a ticket's probes reproduced, and where its fix is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditkit.model.codec import Record
from auditkit.model.enums import Outcome
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import split_call
from auditkit.model.tickets.ticket import EvidenceSummary, Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.git import first_known, is_ancestor
from auditkit.probing.source_code.history.anchors import AnchoredSource
from auditkit.rules.tickets.claims import Reading
from auditkit.rules.tickets.proof import Proof, Sighting, prove
from auditkit.workflows.audit.measurement import Progress
from auditkit.workflows.proof.question_answers import Answer, answers_in
from auditkit.workflows.proof.revisions import Revisions
from auditkit.workflows.proof.ticket_questions import Question

_HEX = re.compile(r"[0-9a-f]{7,64}")
_KIND = re.compile(r"\((\w+)\)$")


@dataclass(frozen=True)
class Base:
    """The commit with the broken code of one question; `commit` is "" where there is none, and `why_not` says why."""

    commit: str = ""
    why_not: str = ""


@dataclass(frozen=True)
class Check(
    Record,
    keys="probe=question.probe.id probe_version=question.probe.version target=question.target.call "
    "fingerprint=question.fingerprint state=proof.state reason=proof.reason fix=fix.result base=base_result "
    "base_revision=base.commit base_is_as_found=is_as_found",
):
    """One question with its run at the fix, and its run at the base: made now, or `as_found` in the evidence.

    `block` is what the ticket says of the question already.
    """

    question: Question
    fix: Answer
    base: Base
    block: EvidenceSummary | None = None
    base_seen: Answer | None = None
    as_found: EvidenceSummary | None = None

    @property
    def base_result(self) -> ProbeResult | None:
        """The run at the base, where one was made now."""
        return self.base_seen.result if self.base_seen is not None else None

    @property
    def is_as_found(self) -> bool:
        """Whether the evidence stands for the base."""
        return self.as_found is not None

    @property
    def base_sighting(self) -> Sighting | None:
        """What is known of the base."""
        if self.base_seen is not None:
            return self.base_seen.sighting
        found = self.as_found
        if found is None:
            return None
        return Sighting(Outcome.REPRODUCED, found.message, Reading(found.measurements, found.law))

    @property
    def proof(self) -> Proof:
        """What the outcomes alone prove."""
        return prove(self.base_sighting, self.fix.sighting, None, self.base.why_not)


def before_and_after(
    questions: Sequence[Question], ticket: Ticket, code: Revisions, base: str = "", progress: Progress | None = None
) -> list[Check]:
    """Ask every question at the fix, which is `code` itself, and at its base where the evidence cannot stand for that.

    `base` is a revision that the user named: then the evidence never stands for it. Raises BadInputError for a
    revision that is not there, an interpreter that is not, and functions of a ticket that lie nowhere.
    """
    bases = [_base_of(question, ticket, code, base) for question in questions]
    older = next((one.commit for one in bases if one.commit), "")
    fixed = code.source()
    calls = [question.target.call for question in questions if question.probe.scope == "target"]
    # Older source is read only where the fix does not define a function that is asked about.
    broken = code.source(older) if older and any(_has_to_be_found(call, fixed) for call in calls) else None
    at_fix = answers_in(code.open(), fixed, questions, code.options, broken, progress)
    checks = [
        _check(question, at_fix[question.fingerprint], _usable(one, code), ticket, is_named=bool(base))
        for question, one in zip(questions, bases, strict=True)
    ]
    to_run = [check for check in checks if check.base.commit and check.as_found is None]
    at_base: dict[str, Answer] = {}
    for commit in dict.fromkeys(check.base.commit for check in to_run):
        asked = [check.question for check in to_run if check.base.commit == commit]
        at_base |= answers_in(code.open(commit), code.source(commit), asked, code.options, fixed, progress)
    return [replace(check, base_seen=at_base.get(check.question.fingerprint)) for check in checks]


def _has_to_be_found(call: str, fixed: AnchoredSource) -> bool:
    """Whether only older source tells what a call means: a block's name may have passed to its neighbour."""
    return bool(split_call(call)[2]) or fixed.anchor(call) is None


def _base_of(question: Question, ticket: Ticket, code: Revisions, named: str) -> Base:
    """The commit at which the question was found, or ought to have been: `named`, the evidence's, the fix's parent.

    A question without evidence of its own has the base of the ticket's other evidence. Raises BadInputError for a
    `named` revision that is not there.
    """
    folder, repository = code.spec.folder, code.repository
    if repository is None:
        return Base("", f"{folder} is in no git repository, so there is no code from before the fix")
    if named:
        return Base(git.resolve_revision(repository, named))
    written = _found_at(question, ticket)
    if commit := first_known(repository, [*written, *_parents_of_fix(ticket)]):
        return Base(commit)
    if written:
        return Base("", f"it reproduced at {written[0][:12]}, which is not in {folder}: --base REV names another")
    return Base("", "nothing says at which revision it reproduced: --base REV names one")


def _usable(base: Base, code: Revisions) -> Base:
    """No base is what the fix is itself, nor what comes after it: between them nothing was mended."""
    fix = code.open()
    if not base.commit or code.repository is None or not fix.revision:
        return base
    if base.commit == fix.revision:
        return base if fix.dirty else Base("", f"the base {base.commit[:12]} is the revision that was looked at")
    if is_ancestor(code.repository, fix.revision, base.commit):
        return Base("", f"{fix.revision[:12]} is older than the base {base.commit[:12]}: it cannot hold the fix")
    return base


def _check(question: Question, fix: Answer, base: Base, ticket: Ticket, is_named: bool) -> Check:
    """The question with its base: as the evidence has it, still to be run, or refused with a reason."""
    block = next((one for one in ticket.evidence if one.fingerprint == question.fingerprint), None)
    check = Check(question, fix, base, block)
    if not base.commit or is_named or block is None or not _stands_for_base(block, base, fix):
        return check
    has_condition = any(item.condition for item in ticket.verification if item.probe == question.probe.id)
    if has_condition and not block.measurements:
        return check
    return replace(check, as_found=block)


def _stands_for_base(block: EvidenceSummary, base: Base, fix: Answer) -> bool:
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
