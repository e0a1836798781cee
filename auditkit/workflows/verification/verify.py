"""Verify a ticket: its probes on the broken code and on the fix, red first, and what that proves."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from auditkit.errors import BadInputError, ExitCode, NothingMeasuredError, TargetNotLoadedError
from auditkit.files import write_file
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.trial import FixBlock, FixVerdict, TriedArm
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.model.ticket import Evidence, Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, parse_checkout
from auditkit.probing.hosts.catalog import select
from auditkit.probing.patching.patches import CannotComplete, FunctionFile, find_function
from auditkit.tickets.document import FIX, Document
from auditkit.tickets.filing import record_fix
from auditkit.tickets.lifecycle import today
from auditkit.tickets.store import TicketFolder
from auditkit.workflows.audit.audit import AuditRequest, audit
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.fixes.answers import Answers, answers_probe, without_answers
from auditkit.workflows.fixes.diff_block import DIFF, changes_of
from auditkit.workflows.fixes.file_change import FileChange, prefix_of
from auditkit.workflows.fixes.no_fix import was_not_searched
from auditkit.workflows.verification.fix_blocks import Ground, blocks_of, defined_in, try_block
from auditkit.workflows.verification.question_answers import Answer, answers_in
from auditkit.workflows.verification.questions import (
    Question,
    located_target,
    probes_in_words,
    questions_of,
    questions_of_boxes,
)
from auditkit.workflows.verification.revisions import Revisions

RECOMMENDED = (FIX, "Recommended Fix", "Suggested Fix", "Proposed Fix", "Recommendation")
"""The sections whose code is the recommended fix, in new and in imported tickets."""


class State(StrEnum):
    """What the two runs of one finding prove."""

    PROVEN = "proven"
    REPRODUCED = "reproduced"
    VACUOUS = "vacuous"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Checked:
    """One finding before and after the fix; `reason` is what the probe reported."""

    fingerprint: str
    state: State
    before: str
    after: str
    reason: str

    def to_json(self) -> dict[str, str]:
        return {"state": self.state.value, "before": self.before, "after": self.after, "reason": self.reason}


@dataclass(frozen=True)
class Verification:
    """The result for one ticket: `verdict` is `proven`, `reproduced`, `vacuous` or `not_measured`; for a patch or the
    recommended code `sufficient`, `insufficient`, `trades ...` or `does not run`.

    `base` and `fix` are revisions; `arms` what a patch or a block measured; `ticked` the boxes that are proven.
    """

    ticket: str
    verdict: str
    base: str
    fix: str
    is_dirty: bool
    findings: tuple[Checked, ...]
    reason: str = ""
    arms: tuple[TriedArm, ...] = ()
    ticked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    difference: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the document that `ticket verify --json` prints."""
        return {
            "schema_version": 1,
            "ticket": self.ticket,
            "verdict": self.verdict,
            "reason": self.reason,
            "base": self.base,
            "fix": self.fix,
            "dirty": self.is_dirty,
            "findings": {one.fingerprint: one.to_json() for one in self.findings},
            "arms": [arm.to_json() for arm in self.arms],
            "ticked": list(self.ticked),
            "notes": list(self.notes),
            "difference": self.difference,
        }

    @property
    def exit_code(self) -> ExitCode:
        """0 if the fix is proven, 3 if nothing could be measured, else 1."""
        if self.verdict in (State.PROVEN, FixVerdict.SUFFICIENT):
            return ExitCode.OK
        is_silent = self.verdict in (State.NOT_MEASURED, FixVerdict.DOES_NOT_RUN)
        return ExitCode.NOTHING_MEASURED if is_silent else ExitCode.FINDINGS


@dataclass(frozen=True)
class VerifyRequest:
    """Which ticket on which checkout (`DIR` or `DIR@REV`).

    `at` is the revision of the fix, "" for the files as they are; `base` that of the broken code, "" for the revision
    at which the ticket's findings reproduced. `target` replaces the ticket's own; `probes` are run beside its findings.
    """

    ticket: str
    checkout: str
    options: RunOptions
    at: str = ""
    base: str = ""
    target: Target | None = None
    probes: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)


# A commit.


def verify_commit(folder: TicketFolder, request: VerifyRequest) -> Verification:
    """Run the ticket's findings at the broken revision and at the fix; write the proof and tick the proven boxes.

    Raises BadInputError for a ticket without findings or boxes of probes, and for revisions that do not exist.
    """
    document = folder.read(request.ticket)
    ticket, evidence = document.ticket, folder.evidence(document.ticket.id)
    spec = _spec(request)
    with Revisions(spec, request.options, folder.folder) as code:
        opened = code.open()
        questions = _questions(ticket, evidence, request, opened)
        base = _base(ticket, evidence, request, code)
        fixed = code.source()
        broken = code.source(base) if base else None
        after = answers_in(opened, fixed, questions, request.options, broken, request.progress)
        before = (
            answers_in(code.open(base), code.source(base), questions, request.options, fixed, request.progress)
            if base
            else {}
        )
        findings = tuple(_checked(one, before.get(one.fingerprint), after[one.fingerprint]) for one in questions)
        head, is_dirty = opened.revision, opened.dirty
    notes = tuple(dict.fromkeys(answer.note for answer in (*before.values(), *after.values()) if answer.note))
    names = [one.fingerprint for one in findings]
    decisive = evidence.judging(names) if evidence is not None else names
    worst = min((one.state for one in findings if one.fingerprint in decisive), key=_WORST.index)
    reason = next((one.reason for one in findings if one.state is worst), "")
    found = Verification(ticket.id, worst.value, base, head, is_dirty, findings, reason, notes=notes)
    return _written(folder, found, questions)


_WORST = (State.REPRODUCED, State.NOT_MEASURED, State.VACUOUS, State.PROVEN)


def _spec(request: VerifyRequest) -> CheckoutSpec:
    spec = parse_checkout(request.checkout)
    if spec.revision and request.at:
        raise BadInputError(f"--at {request.at} and --checkout {request.checkout} both name a revision", "use one")
    return spec.at(request.at)


def _questions(
    ticket: Ticket, evidence: Evidence | None, request: VerifyRequest, opened: OpenCheckout
) -> tuple[Question, ...]:
    catalog = catalog_of(request.options.config)
    questions = questions_of(ticket, evidence, request.options.config, catalog)
    if not questions:
        target = request.target or _located(ticket, request, opened)
        questions = questions_of_boxes(ticket, target, catalog)
    if request.target is not None:
        questions = tuple(replace(one, target=request.target) for one in questions)
    if not questions:
        hint = "add a box `- [ ] probe: CLAIM` below Verification; `auditkit probe list` shows the probes"
        raise BadInputError(f"{ticket.id} has no finding and no box of a probe", hint)
    return questions


def _located(ticket: Ticket, request: VerifyRequest, opened: OpenCheckout) -> Target:
    return located_target(ticket, opened.path, request.options.import_roots(opened), request.options.config)


def _base(ticket: Ticket, evidence: Evidence | None, request: VerifyRequest, code: Revisions) -> str:
    """Return the revision of the broken code; "" if there is none besides the fix itself."""
    repository = code.repository
    if repository is None:
        return ""
    if request.base:
        return git.resolve_revision(repository, request.base)
    fix = code.open()
    revisions = [str(one["run"].get("revision", "")) for one in evidence.results] if evidence is not None else []
    commits = [f"{one.commit}^" for one in ticket.resolutions if one.commit]
    own = [f"{fix.revision}^"] if fix.revision and not fix.dirty else [fix.revision]
    known = (git.first_known(repository, [name]) for name in (*revisions, *commits, *own) if name)
    candidates = (name for name in known if name and (name != fix.revision or fix.dirty))
    return next(candidates, "")


def _checked(question: Question, before: Answer | None, after: Answer) -> Checked:
    """Return what the outcomes prove: `proven` only if the probe reproduced before the fix and does not after it."""
    then, now = before.result.outcome if before is not None else None, after.result.outcome
    words = then.value if then is not None else "not_run"
    if now is Outcome.REPRODUCED:
        state, reason = State.REPRODUCED, after.result.message
    elif now is not Outcome.NOT_REPRODUCED:
        state, reason = State.NOT_MEASURED, f"{now.value} at the fix: {after.result.message}"
    elif before is None:
        state, reason = State.NOT_MEASURED, "no revision of the broken code is known: --base REV names it"
    elif then is Outcome.REPRODUCED:
        state, reason = State.PROVEN, f"before: {before.result.message}; after: {after.result.message}"
    elif then is Outcome.NOT_REPRODUCED:
        state, reason = State.VACUOUS, f"it does not reproduce before the fix either: {before.result.message}"
    else:
        state, reason = State.NOT_MEASURED, f"{words} before the fix: {before.result.message}"
    return Checked(question.fingerprint, state, words, now.value, reason)


def _written(folder: TicketFolder, found: Verification, questions: Sequence[Question]) -> Verification:
    """Write the proof into the evidence file, and tick the boxes of proven probes (untick reproduced ones)."""
    states: dict[str, set[State]] = {}
    for question, checked in zip(questions, found.findings, strict=True):
        states.setdefault(question.probe.id, set()).add(checked.state)
    proof = {
        "base": found.base,
        "fix": found.fix,
        "dirty": found.is_dirty,
        "date": today(),
        "findings": {one.fingerprint: one.to_json() for one in found.findings},
    }
    ticked: list[str] = []

    def edit(document: Document) -> Document:
        ticks = {}
        for box in document.ticket.boxes:
            known = states.get(box.probe)
            if known == {State.PROVEN}:
                ticks[box.line] = True
                ticked.append(box.text)
            elif known is not None and State.REPRODUCED in known:
                ticks[box.line] = False
        return document.with_ticks(ticks)

    with folder.writing():
        folder.change(found.ticket, edit)
        evidence = folder.evidence(found.ticket) or Evidence(ticket=found.ticket)
        folder.save_evidence(msgspec.structs.replace(evidence, proof=proof))
    return replace(found, ticked=tuple(ticked))


# A patch, or the code that the ticket recommends.


def verify_patch(folder: TicketFolder, request: VerifyRequest, patch: Path | None = None) -> Verification:
    """Run the checkout with a patch (None: with the ticket's recommended code) in a copy; write nothing.

    Raises BadInputError if there is no code to try, TargetNotLoadedError if the base cannot be loaded, and
    NothingMeasuredError if no finding of the ticket reproduces there.
    """
    document = folder.read(request.ticket)
    evidence = folder.evidence(document.ticket.id)
    blocks = [_patch_block(patch)] if patch is not None else recommended_blocks(document, evidence)
    spec = _spec(request)
    with request.options.open(spec) as opened:
        targets = _targets(document, evidence, request, opened)
        grounds = [_ground(document, evidence, request, spec, opened, target, blocks) for target in targets]
    arms = [try_block(block, ground) for ground in grounds for block in blocks]
    worst = min(arms, key=lambda arm: _WORST_ARMS.index(arm.judgement.verdict))
    findings = tuple(
        Checked(f"{probe}/1/{ground.target.call}", State.PROVEN, "reproduced", "not_reproduced", "")
        if arm.judgement.verdict is FixVerdict.SUFFICIENT
        else Checked(f"{probe}/1/{ground.target.call}", State.REPRODUCED, "reproduced", _after(arm, probe), "")
        for ground, arm in zip(grounds, arms[:: len(blocks)], strict=True)
        for probe in ground.findings
    )
    revision = grounds[0].base.environment.revision
    return Verification(
        ticket=document.ticket.id,
        verdict=worst.judgement.text,
        base=revision,
        fix="",
        is_dirty=grounds[0].base.environment.dirty,
        findings=findings,
        reason=worst.judgement.reason,
        arms=tuple(arms),
        difference="\n".join(dict.fromkeys(arm.difference for arm in arms if arm.difference)),
    )


_FIX_TIME_S = 120.0
_WORST_ARMS = (FixVerdict.DOES_NOT_RUN, FixVerdict.INSUFFICIENT, FixVerdict.TRADES, FixVerdict.SUFFICIENT)


def _after(arm: TriedArm, probe: str) -> str:
    results = arm.run.results if arm.run is not None else ()
    return next((one.outcome.value for one in results if one.probe == probe), "error")


def _patch_block(path: Path) -> FixBlock:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read: {error}", "--patch names a diff or a Python file") from None
    is_diff = any(line.startswith(("+++ ", "@@ ")) for line in text.split("\n"))
    return FixBlock(path.name, 1, 1, text, "diff" if is_diff else "python")


def recommended_blocks(document: Document, evidence: Evidence | None) -> list[FixBlock]:
    """Return the code that the ticket recommends: the blocks of its section Fix, else the diff of its evidence."""
    blocks = blocks_of(document, RECOMMENDED)
    if not blocks and evidence is not None:
        diffs = [str(fix.get("difference", "")) for fix in evidence.fixes]
        blocks = [FixBlock(FIX, number, 0, text, "diff") for number, text in enumerate(filter(None, diffs), 1)]
    if not blocks:
        hint = "show the fix in a block that begins with ```diff or ```python, or use --patch FILE"
        raise BadInputError(f"{document.ticket.id} recommends no code", hint)
    return blocks


def _targets(
    document: Document, evidence: Evidence | None, request: VerifyRequest, opened: OpenCheckout
) -> list[Target]:
    if request.target is not None:
        return [request.target]
    config = request.options.config
    questions = questions_of(document.ticket, evidence, config, catalog_of(config))
    called = {one.target.call: one.target for one in questions if one.probe.scope == "target"}
    return list(called.values()) or [_located(document.ticket, request, opened)]


def _ground(
    document: Document,
    evidence: Evidence | None,
    request: VerifyRequest,
    spec: CheckoutSpec,
    opened: OpenCheckout,
    target: Target,
    blocks: Sequence[FixBlock],
) -> Ground:
    """Measure the base for one target: every stable probe, and the target's results, which must stay the same."""
    ticket, options, progress = document.ticket, request.options, request.progress
    catalog = catalog_of(options.config)
    bound = [
        one.probe.id
        for one in questions_of(ticket, evidence, options.config, catalog)
        if one.target.call == target.call and one.probe.scope == "target"
    ]
    chosen = {probe.id: probe for probe in select(dict(catalog), request.probes)} | {
        name: catalog[name] for name in bound
    }
    probes = [probe for probe in chosen.values() if probe.scope == "target"]
    progress.targets_known([target], len(probes) * (1 + len(blocks)))
    run = ask(options, opened, [target], [*probes, answers_probe()], progress)
    failed = next((result for result in run.results if not result.loaded), None)
    if failed is not None:
        raise TargetNotLoadedError(f"the broken code cannot be loaded: {failed.message}", "--checkout DIR@REV")
    base = without_answers(run)
    place = _place(ticket, request, opened, base.targets[0].target, blocks)
    return Ground(
        spec=spec,
        options=options,
        place=place,
        target=base.targets[0].target,
        probes=probes,
        findings=_red(document, bound, base, catalog),
        base=base,
        progress=progress,
        answers=Answers.of(run, target),
        prefix=prefix_of(spec),
    )


def _red(document: Document, bound: Sequence[str], base: Run, catalog: Mapping[str, ProbeInfo]) -> tuple[str, ...]:
    """Return the probes that judge the fix: each reproduces on the broken code. P4 findings beside worse may stay."""
    red = [one for one in base.results if one.outcome is Outcome.REPRODUCED]
    if bound:
        own = [one for one in red if one.probe in bound]
        grave = [one for one in own if one.severity is not Severity.P4] or own
        found = tuple(dict.fromkeys(one.probe for one in grave))
    else:
        found = probes_in_words(document.ticket, document.text, [one.probe for one in red], catalog)
    if not found:
        told = (
            f"{document.ticket.id}: {', '.join(bound) or 'no probe'} does not reproduce at {base.environment.checkout}"
        )
        raise NothingMeasuredError(told, "--checkout DIR@REV names the revision that has the defect")
    return found


def _place(
    ticket: Ticket, request: VerifyRequest, opened: OpenCheckout, target: Target, blocks: Sequence[FixBlock]
) -> FunctionFile:
    """Return the function that a block replaces: the target, or the one that the ticket names and a block defines."""
    roots = request.options.import_roots(opened)
    calls = [target.call]
    with contextlib.suppress(BadInputError):
        calls.append(_located(ticket, request, opened).call)
    found = [one for call in dict.fromkeys(calls) if (one := find_function(opened.path, roots, call)) is not None]
    if not found:
        raise BadInputError(
            f"{ticket.id}: {opened.label} defines no function {target.call}", "--target MODULE:FUNCTION"
        )
    defined = defined_in(blocks)
    return next((one for one in found if one.function.name in defined), found[0])


# `ticket fix`.


def look_for_fix(folder: TicketFolder, request: VerifyRequest) -> None:
    """Search for the fix of a ticket that nobody has searched for, or whose diff does not apply any more; write it.

    Without one the ticket stays as it is.
    """
    document = folder.read(request.ticket)
    evidence = folder.evidence(document.ticket.id)
    if evidence is None or (blocks_of(document, RECOMMENDED) and not evidence.fixes):
        return
    config, findings = request.options.config, {*document.ticket.findings}
    if evidence.fixes:
        is_needed = not _applies(evidence, _spec(request))
    else:
        is_needed = any(was_not_searched(evidence.no_fix.get(name, "")) for name in findings)
    if not is_needed:
        return
    bound = questions_of(document.ticket, evidence, config, catalog_of(config))
    targets = {one.target.call: one.target for one in bound if one.probe.scope == "target"}
    if not targets:
        return
    probes = tuple(dict.fromkeys(one.probe.id for one in bound))
    asked = AuditRequest(request.checkout, (request.options,), tuple(targets.values()), probes, fix_time_s=_FIX_TIME_S)
    found = next((fix for fix in audit(asked).fixes if findings.intersection(fix.mends)), None)
    if found is not None:
        record_fix(folder, document.ticket.id, found)


def _applies(evidence: Evidence, spec: CheckoutSpec) -> bool:
    """Return whether the diffs of a ticket apply to the files as they are; those of a revision are not looked at."""
    if spec.revision:
        return True
    try:
        for fix in evidence.fixes:
            changes_of(str(fix.get("difference", "")), spec.directory, prefix_of(spec))
    except CannotComplete:
        return False
    return True


def apply_fix(folder: TicketFolder, request: VerifyRequest) -> tuple[Verification, tuple[str, ...]]:
    """Run the recommended diff again, and write it into the checkout's files if it is sufficient.

    Return the verification and the changed files. Raises BadInputError for a checkout at a revision, and for files
    that git does not track or that have uncommitted changes.
    """
    document = folder.read(request.ticket)
    blocks = [one for one in recommended_blocks(document, folder.evidence(document.ticket.id)) if one.language in DIFF]
    if not blocks:
        raise BadInputError(f"{document.ticket.id} recommends no diff", "only a diff can be applied")
    spec = parse_checkout(request.checkout)
    try:
        changes = changes_of(blocks[0].code, spec.directory, prefix_of(spec))
    except CannotComplete as error:
        raise BadInputError(f"{document.ticket.id}: the diff {error}", "audit again for a new one") from None
    _check_work_tree(spec, changes)
    found = verify_patch(folder, request)
    if found.verdict != FixVerdict.SUFFICIENT:
        return found, ()
    for change in changes:
        path = spec.directory / change.file
        if path.read_bytes() != change.before:
            raise BadInputError(f"{path} changed while the fix ran; nothing was applied")
        write_file(path, change.after)
    return found, tuple(change.file for change in changes)


def _check_work_tree(spec: CheckoutSpec, changes: Sequence[FileChange]) -> None:
    """Refuse files that git could not restore."""
    if spec.revision:
        raise BadInputError(f"--apply changes files, and {spec.text} is a revision", f"name {spec.folder}")
    for change in changes:
        path = spec.directory / change.file
        if git.run_git(spec.directory, "ls-files", "--error-unmatch", "--", change.file).returncode != 0:
            raise BadInputError(f"git does not track {path}, so it is not changed", "git add and git commit it first")
        if git.run_git(spec.directory, "diff", "--quiet", "HEAD", "--", change.file).returncode != 0:
            raise BadInputError(f"{path} has uncommitted changes, so it is not changed", "commit or stash them first")
