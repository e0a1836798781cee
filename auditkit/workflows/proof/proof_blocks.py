"""What a verification writes into a ticket: the block of a question, with both runs and what they prove."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace

from auditkit.model.enums import Outcome
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import Environment, Finding
from auditkit.model.tickets.ticket import EvidenceSummary
from auditkit.rendering.evidence import VerifiedBox, render_banner, render_evidence, render_verified
from auditkit.rules.tickets.proof import ProofState
from auditkit.store.edits.evidence import find_evidence, put_evidence
from auditkit.store.markdown.document import Document, EvidenceBlock
from auditkit.store.markdown.evidence import (
    ABSENT,
    AS_FOUND,
    VERIFIED,
    say_the_same,
    with_history_line,
    with_outcome,
    with_part,
)
from auditkit.workflows.proof.before_after_runs import Check
from auditkit.workflows.proof.box_proofs import BoxProof
from auditkit.workflows.proof.question_answers import Answer
from auditkit.workflows.proof.ticket_questions import Question


def with_check(document: Document, check: Check, boxes: Sequence[BoxProof], today: datetime.date) -> Document:
    """The document with the check in the block of its fingerprint, which is added where it is missing.

    The block's own rows stay those of the run that found the defect, unless that run was made again. Nothing is
    written where the run at the fix gave no answer, nor where the block would say the same.
    """
    outcome = check.fix.result.outcome
    if outcome not in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED):
        return document
    old = find_evidence(document, check.question.fingerprint)
    written = document.data[old.span.start : old.span.end].replace(b"\r\n", b"\n") + b"\n" if old else b""
    block = _main(document, old, written, check)
    block = with_outcome(block, outcome is Outcome.REPRODUCED)
    is_known = outcome is Outcome.REPRODUCED and _is_as_found(check)
    block = with_part(block, VERIFIED, _part(check, boxes, () if is_known else check.fix.result.measurements))
    if old is not None and say_the_same(written, block):
        return document
    history = old.history if old is not None else ()
    block = with_history_line(block, f"{today.isoformat()}: {_told(check, history)}")
    return _with_banner(put_evidence(document, check.question.fingerprint, block))


def _main(document: Document, old: EvidenceBlock | None, written: bytes, check: Check) -> bytes:
    """The block without this check: as it is, or from the run at the base that was made now, else at the fix."""
    base = check.base_seen if check.base_seen is not None and check.base_seen.sighting.is_answer else None
    is_red = base is not None and base.result.outcome is Outcome.REPRODUCED
    if old is not None and not is_red and ((check.block is not None and check.block.was_found) or base is None):
        return written
    seen = base or check.fix
    number = document.evidence.index(old) if old is not None else len(document.evidence)
    above = [one.fingerprint for one in document.evidence[:number] if one.fingerprint]
    return render_evidence(_finding(check.question, seen), old.history if old is not None else (), above)


def _finding(question: Question, seen: Answer) -> Finding:
    return Finding(question.probe, seen.result, seen.environment, seen.run_id, question.target)


def _is_as_found(check: Check) -> bool:
    """Whether the fix is the very revision at which the defect was found: the block has its rows already."""
    block, fix = check.block, check.fix.environment
    if block is None or not block.was_found or block.is_dirty or fix.dirty:
        return False
    return bool(fix.revision) and block.revision == fix.revision


def _part(check: Check, boxes: Sequence[BoxProof], measured: Sequence[Measurement]) -> bytes:
    runs = {}
    if check.base_seen is not None:
        runs["base"] = _run(check.base_seen)
    elif check.as_found is not None:
        runs[f"base {AS_FOUND}"] = replace(check.as_found, outcome=Outcome.REPRODUCED.value)
    runs["fix"] = _run(check.fix)
    notes = [seen.note for seen in (check.base_seen, check.fix) if seen is not None and seen.note]
    if len(runs) == 1:
        notes.insert(0, f"No run at the base: {check.base.why_not}.")
    told = [
        VerifiedBox(one.number, one.item.text, one.proof.state.value, _reason(one))
        for one in boxes
        if one.fingerprint == check.question.fingerprint
    ]
    return render_verified(runs, measured, told, notes)


def _reason(box: BoxProof) -> str:
    condition = f"{box.item.condition}: " if box.item.condition else ""
    return condition + box.proof.reason


def _run(seen: Answer) -> EvidenceSummary:
    result, environment = seen.result, seen.environment
    return EvidenceSummary(
        fingerprint=result.fingerprint,
        probe=result.probe,
        target=result.target,
        outcome=result.outcome.value,
        revision=environment.revision,
        is_dirty=environment.dirty,
        version=result.probe_version,
        law=result.law,
        device=f"{environment.device_name} ({result.device or environment.device})",
        python=environment.python,
        torch=environment.torch,
        message=result.message,
    )


def _told(check: Check, history: Sequence[str]) -> str:
    """The line of the history: what this run found, where, and what it proves beside the base."""
    where = _where(check.fix.environment)
    if check.fix.result.outcome is Outcome.REPRODUCED:
        is_return = bool(history) and ABSENT in history[-1]
        return f"{'returned' if is_return else 'still reproduced'} at {where}"
    state = check.proof.state
    if state is ProofState.PROVEN:
        version = check.fix.result.probe_version
        return f"{ABSENT} at {where} (version {version}); it reproduces at {check.base.commit[:12]}"
    if state is ProofState.VACUOUS:
        return f"not reproduced at {where}, nor at the base {check.base.commit[:12]}: this proves nothing"
    return f"not reproduced at {where}; {check.proof.reason}"


def _where(environment: Environment) -> str:
    if not environment.revision:
        return "files that are not under version control"
    return f"revision {environment.revision}{' with uncommitted changes' if environment.dirty else ''}"


def _with_banner(document: Document) -> Document:
    """With the banner that its blocks call for, where it has one."""
    if document.banner is None:
        return document
    return document.set_evidence(
        document.banner, render_banner([block.device for block in document.evidence if block.fingerprint])
    )
