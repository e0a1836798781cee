"""What a verification writes into a ticket: the block of a question, with both runs and what they prove."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Protocol

from auditkit.model.enums import Outcome
from auditkit.model.measurement import Measurement
from auditkit.model.run import Finding
from auditkit.model.ticket import EvidenceSummary, VerificationItem
from auditkit.rendering.evidence import VerifiedBox, VerifiedRun, render_banner, render_evidence, render_verified
from auditkit.rules.proof import Proof, ProofState
from auditkit.store.document import Document, EvidenceBlock
from auditkit.store.edits.evidence import find_evidence, put_evidence
from auditkit.store.evidence import (
    ABSENT,
    AS_FOUND,
    VERIFIED,
    say_the_same,
    with_history_line,
    with_outcome,
    with_part,
)
from auditkit.workflows.proving import Check, OpenedAt, Place, sighting_of
from auditkit.workflows.seeing import Seen


class Boxed(Protocol):
    """A box and what was shown of it."""

    @property
    def number(self) -> int: ...
    @property
    def item(self) -> VerificationItem: ...
    @property
    def proof(self) -> Proof: ...


def with_check(
    document: Document, check: Check, boxes: Sequence[Boxed], place: Place, at: OpenedAt, today: datetime.date
) -> Document:
    """The document with the check in the block of its fingerprint, which is added where it is missing.

    The block's own rows stay those of the run that found the defect, unless that run was made again. Nothing is
    written where the run at the fix gave no answer, nor where the block would say the same.
    """
    outcome = check.fix.result.outcome
    if outcome not in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED):
        return document
    old = find_evidence(document, check.question.fingerprint)
    written = document.data[old.span.start : old.span.end].replace(b"\r\n", b"\n") + b"\n" if old else b""
    block = _main(document, old, written, check, place)
    block = with_outcome(block, outcome is Outcome.REPRODUCED)
    is_known = outcome is Outcome.REPRODUCED and _is_as_found(check)
    block = with_part(block, VERIFIED, _part(check, boxes, () if is_known else check.fix.result.measurements))
    if old is not None and say_the_same(written, block):
        return document
    history = old.history if old is not None else ()
    block = with_history_line(block, f"{today.isoformat()}: {_told(check, at, history)}")
    return _with_banner(put_evidence(document, check.question.fingerprint, block))


def _main(document: Document, old: EvidenceBlock | None, written: bytes, check: Check, place: Place) -> bytes:
    """The block without this check: as it is, or from the run at the base that was made now, else at the fix."""
    base = check.base_seen if check.base_seen is not None and sighting_of(check.base_seen).is_answer else None
    is_red = base is not None and base.result.outcome is Outcome.REPRODUCED
    if old is not None and not is_red and (check.found or base is None):
        return written
    seen = base or check.fix
    number = document.evidence.index(old) if old is not None else len(document.evidence)
    above = [one.fingerprint for one in document.evidence[:number] if one.fingerprint]
    return render_evidence(_finding(check, seen, place), old.history if old is not None else (), above)


def _finding(check: Check, seen: Seen, place: Place) -> Finding:
    question = check.question
    return Finding(question.probe, seen.result, seen.environment, seen.run_id, question.target, place.label)


def _is_as_found(check: Check) -> bool:
    """Whether the fix is the very revision at which the defect was found: the block has its rows already."""
    fix = check.fix.environment
    return bool(fix.revision) and not fix.dirty and check.found_at == fix.revision


def _part(check: Check, boxes: Sequence[Boxed], measured: Sequence[Measurement]) -> bytes:
    runs = [_run("fix", check.fix)]
    if check.base_seen is not None:
        runs.insert(0, _run("base", check.base_seen))
    elif check.as_found is not None:
        runs.insert(0, _run_as_found(check.as_found))
    notes = [seen.note for seen in (check.base_seen, check.fix) if seen is not None and seen.note]
    if len(runs) == 1:
        notes.insert(0, f"No run at the base: {check.base.why_not}.")
    told = [
        VerifiedBox(one.number, one.item.text, one.proof.state.value, _reason(one)) for one in boxes if one.item.probe
    ]
    return render_verified(runs, measured, told, notes)


def _reason(box: Boxed) -> str:
    condition = f"{box.item.condition}: " if box.item.condition else ""
    return condition + box.proof.reason


def _run(role: str, seen: Seen) -> VerifiedRun:
    result, environment = seen.result, seen.environment
    kind = result.device or environment.device
    return VerifiedRun(
        role=role,
        outcome=result.outcome.value,
        revision=environment.revision,
        is_dirty=environment.dirty,
        version=result.probe_version,
        law=result.law,
        device=f"{environment.device_name} ({kind})",
        python=environment.python,
        torch=environment.torch,
        message=result.message,
    )


def _run_as_found(found: EvidenceSummary) -> VerifiedRun:
    return VerifiedRun(
        role=f"base {AS_FOUND}",
        outcome=Outcome.REPRODUCED.value,
        revision=found.revision,
        is_dirty=found.is_dirty,
        version=found.version,
        law=found.law,
        device=found.device,
        python=found.python,
        torch=found.torch,
        message=found.message,
    )


def _told(check: Check, at: OpenedAt, history: Sequence[str]) -> str:
    """The line of the history: what this run found, where, and what it proves beside the base."""
    where = at.describe()
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


def _with_banner(document: Document) -> Document:
    """With the banner that its blocks call for, where it has one."""
    if document.banner is None:
        return document
    return document.set_evidence(
        document.banner, render_banner([block.device for block in document.evidence if block.fingerprint])
    )
