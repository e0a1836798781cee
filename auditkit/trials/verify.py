"""Verify a ticket: its probes on the broken code and on the fix, red first, and what that proves."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

import msgspec

from auditkit.errors import BadInputError, ExitCode, NothingMeasuredError, TargetNotLoadedError
from auditkit.files import write_file
from auditkit.model.codec import Record
from auditkit.model.enums import Outcome, Severity
from auditkit.model.revisions.trial import FixVerdict, Judgement
from auditkit.model.runs.run import ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.ticket import Evidence, Ticket
from auditkit.probing.checkout import git
from auditkit.probing.checkout.checkout import CheckoutSpec, OpenCheckout, apart_from, parse_checkout
from auditkit.probing.checkout.copies import open_copy
from auditkit.probing.engine.catalog import select
from auditkit.probing.fix.file_change import FileChange, changes_of, prefix_of
from auditkit.probing.fix.patches import CannotComplete, FunctionFile, function_in, patch
from auditkit.probing.run.configuration import catalog_of
from auditkit.probing.run.measurement import Progress, ask
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.source.python_files import PythonFiles
from auditkit.tickets.document import FIX, Document
from auditkit.tickets.lifecycle import today
from auditkit.tickets.store import TicketFolder
from auditkit.trials.answers import Answers, answers_probe, does_not_run, judge
from auditkit.trials.questions import (
    Question,
    Version,
    located_target,
    questions_of,
    questions_of_boxes,
    results_at,
)

RECOMMENDED = (FIX, "Recommended Fix", "Suggested Fix", "Proposed Fix", "Recommendation")
"""The sections whose code is the recommended fix, in new and in imported tickets."""
_PYTHON, _DIFF = frozenset({"python", "py", "python3"}), frozenset({"diff", "patch"})
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*([\w+-]+)\n(.*?)^ {0,3}\1", re.MULTILINE | re.DOTALL)


class State(StrEnum):
    """What the two runs of one finding prove, the worst first."""

    REPRODUCED = "reproduced"
    NOT_MEASURED = "not_measured"
    VACUOUS = "vacuous"
    PROVEN = "proven"


@dataclass(frozen=True)
class Checked(Record, keys="state before after reason"):
    """One finding before and after the fix; `reason` is what the probe reported."""

    fingerprint: str
    state: State
    before: str
    after: str
    reason: str = ""


@dataclass(frozen=True)
class FixCode:
    """Code that may fix a ticket: where it is, its text, and whether it is a diff or a Python function."""

    name: str
    text: str
    is_diff: bool


@dataclass(frozen=True)
class Attempt(Record, keys="arm=code.name target judgement difference"):
    """What one code did for one target: its judgement, and the diff that was run."""

    code: FixCode
    target: str
    judgement: Judgement
    difference: str = ""


@dataclass(frozen=True)
class Verification(
    Record, keys="ticket verdict reason base fix dirty=is_dirty findings=by_fingerprint arms ticked notes difference"
):
    """The result for one ticket: `verdict` is `proven`, `reproduced`, `vacuous` or `not_measured`; for a patch or the
    recommended code `sufficient`, `insufficient`, `trades ...` or `does not run`.

    `base` and `fix` are revisions; `arms` what a patch or a block did; `ticked` the boxes that are proven.
    """

    schema_version: ClassVar[int] = 1

    ticket: str
    verdict: str
    base: str
    fix: str
    is_dirty: bool
    findings: tuple[Checked, ...]
    reason: str = ""
    arms: tuple[Attempt, ...] = ()
    ticked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def difference(self) -> str:
        """The diffs that were run."""
        return "\n".join(dict.fromkeys(arm.difference for arm in self.arms if arm.difference))

    @property
    def by_fingerprint(self) -> dict[str, Checked]:
        return {one.fingerprint: one for one in self.findings}

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

    def spec(self) -> CheckoutSpec:
        """Return the checkout with the fix. Raises BadInputError if two revisions are named."""
        spec = parse_checkout(self.checkout)
        if spec.revision and self.at:
            raise BadInputError(f"--at {self.at} and --checkout {self.checkout} both name a revision", "use one")
        return spec.at(self.at)

    def located(self, ticket: Ticket, opened: OpenCheckout) -> Target:
        """Return the function that the ticket names."""
        return located_target(ticket, opened.path, self.options.import_roots(opened), self.options.config)

    def questions(self, ticket: Ticket, evidence: Evidence | None) -> tuple[Question, ...]:
        """Return the probe and target of each finding of the ticket."""
        return questions_of(ticket, evidence, self.options.config, catalog_of(self.options.config))


# A commit.


def verify_commit(folder: TicketFolder, request: VerifyRequest) -> Verification:
    """Run the ticket's findings at the broken revision and at the fix; write the proof and tick the proven boxes.

    Raises BadInputError for a ticket without findings or boxes of probes, and for revisions that do not exist.
    """
    document, spec, options = folder.read(request.ticket), request.spec(), request.options
    ticket, evidence = document.ticket, folder.evidence(document.ticket.id)
    with contextlib.ExitStack() as stack:

        def code_at(revision: str) -> Version:
            opened = stack.enter_context(options.open(spec.at(revision)))
            opened = replace(apart_from(opened, folder.folder), label=spec.folder)
            return Version(opened, options)

        fixed = code_at("")
        questions = _questions(ticket, evidence, request, fixed.opened)
        base = _base(ticket, evidence, request, spec, fixed.opened)
        broken = code_at(base) if base else None
        after, notes = results_at(fixed, questions, broken, request.progress)
        before, earlier = results_at(broken, questions, fixed, request.progress) if broken is not None else ({}, [])
        head, is_dirty = fixed.opened.revision, fixed.opened.dirty
    findings = tuple(_checked(one, before.get(one.fingerprint), after[one.fingerprint]) for one in questions)
    names = [one.fingerprint for one in findings]
    decisive = evidence.judging(names) if evidence is not None else names
    worst = min((one.state for one in findings if one.fingerprint in decisive), key=list(State).index)
    reason = next((one.reason for one in findings if one.state is worst), "")
    told = tuple(dict.fromkeys((*earlier, *notes)))
    found = Verification(ticket.id, worst.value, base, head, is_dirty, findings, reason, notes=told)
    return _written(folder, found, questions)


def _questions(
    ticket: Ticket, evidence: Evidence | None, request: VerifyRequest, opened: OpenCheckout
) -> tuple[Question, ...]:
    questions = request.questions(ticket, evidence)
    if not questions:
        target = request.target or request.located(ticket, opened)
        questions = questions_of_boxes(ticket, target, catalog_of(request.options.config))
    if not questions:
        hint = "add a box `- [ ] probe: CLAIM` below Verification; `auditkit probe list` shows the probes"
        raise BadInputError(f"{ticket.id} has no finding and no box of a probe", hint)
    return tuple(replace(one, target=request.target or one.target) for one in questions)


def _base(
    ticket: Ticket, evidence: Evidence | None, request: VerifyRequest, spec: CheckoutSpec, fix: OpenCheckout
) -> str:
    """Return the revision of the broken code; "" if there is none besides the fix itself."""
    repository = git.find_repository(spec.directory)
    if repository is None:
        return ""
    if request.base:
        return git.resolve_revision(repository, request.base)
    revisions = [str(one["run"].get("revision", "")) for one in evidence.results] if evidence is not None else []
    commits = [f"{one.commit}^" for one in ticket.resolutions if one.commit]
    own = [f"{fix.revision}^"] if fix.revision and not fix.dirty else [fix.revision]
    known = (git.first_known(repository, [name]) for name in (*revisions, *commits, *own) if name)
    return next((name for name in known if name and (name != fix.revision or fix.dirty)), "")


def _checked(question: Question, before: ProbeResult | None, after: ProbeResult) -> Checked:
    """Return what the outcomes prove: `proven` only if the probe reproduced before the fix and does not after it."""
    then, now = before.outcome if before is not None else None, after.outcome
    words = then.value if then is not None else "not_run"
    if now is Outcome.REPRODUCED:
        state, reason = State.REPRODUCED, after.message
    elif now is not Outcome.NOT_REPRODUCED:
        state, reason = State.NOT_MEASURED, f"{now.value} at the fix: {after.message}"
    elif before is None:
        state, reason = State.NOT_MEASURED, "no revision of the broken code is known: --base REV names it"
    elif then is Outcome.REPRODUCED:
        state, reason = State.PROVEN, f"before: {before.message}; after: {after.message}"
    elif then is Outcome.NOT_REPRODUCED:
        state, reason = State.VACUOUS, f"it does not reproduce before the fix either: {before.message}"
    else:
        state, reason = State.NOT_MEASURED, f"{words} before the fix: {before.message}"
    return Checked(question.fingerprint, state, words, now.value, reason)


def _written(folder: TicketFolder, found: Verification, questions: Sequence[Question]) -> Verification:
    """Write the proof into the evidence file, and tick the boxes of proven probes (untick reproduced ones)."""
    probes = [question.probe.id for question in questions]
    pairs = list(zip(probes, (checked.state for checked in found.findings), strict=True))
    proof = {
        "base": found.base,
        "fix": found.fix,
        "dirty": found.is_dirty,
        "date": today(),
        "findings": {one.fingerprint: one.to_json() for one in found.findings},
    }
    with folder.writing():
        before = folder.read(found.ticket)
        known = {box: {state for probe, state in pairs if probe == box.probe} for box in before.ticket.boxes}
        proven = [box for box, its in known.items() if its == {State.PROVEN}]
        failed = [box for box, its in known.items() if State.REPRODUCED in its]
        folder.save(before.with_ticks({box.line: box in proven for box in (*proven, *failed)}), before)
        evidence = folder.evidence(found.ticket) or Evidence(ticket=found.ticket)
        folder.save_evidence(msgspec.structs.replace(evidence, proof=proof))
    return replace(found, ticked=tuple(box.text for box in proven))


# A patch, or the code that the ticket recommends.


def verify_patch(folder: TicketFolder, request: VerifyRequest, file: Path | None = None) -> Verification:
    """Run the checkout with a patch (None: with the ticket's recommended code) in a copy; write nothing.

    Raises BadInputError if there is no code to try, TargetNotLoadedError if the base cannot be loaded, and
    NothingMeasuredError if no finding of the ticket reproduces there.
    """
    document = folder.read(request.ticket)
    evidence = folder.evidence(document.ticket.id)
    codes = recommended(document, evidence) if file is None else []
    if file is not None:
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInputError(f"{file} cannot be read: {error}", "--patch names a diff or a Python file") from None
        codes = [FixCode(file.name, text, any(line.startswith(("+++ ", "@@ ")) for line in text.split("\n")))]
    spec = request.spec()
    asked = [one for one in request.questions(document.ticket, evidence) if one.probe.scope == "target"]
    targets = [request.target] if request.target else list({one.target.call: one.target for one in asked}.values())
    with request.options.open(spec) as opened:
        targets = targets or [request.located(document.ticket, opened)]
        bases = [_measured_base(document.ticket, asked, request, opened, target, codes) for target in targets]
    arms = tuple(_attempt(code, base, request, spec) for base in bases for code in codes)
    worst = min((one.judgement for one in arms), key=lambda one: _WORST.index(one.verdict))
    place = bases[0].run.environment
    return Verification(document.ticket.id, worst.text, place.revision, "", place.dirty, (), worst.reason, arms)


_WORST = (FixVerdict.INSUFFICIENT, FixVerdict.TRADES, FixVerdict.DOES_NOT_RUN, FixVerdict.SUFFICIENT)


def codes_of(document: Document, sections: Sequence[str]) -> list[FixCode]:
    """Return the fenced Python and diffs of the named sections, in the order of the file."""
    names, found = {name.casefold() for name in sections}, []
    for section in document.sections:
        if section.title.casefold() in names:
            text = "\n".join(document.lines[section.first : section.end]) + "\n"
            blocks = [match for match in _FENCED.finditer(text) if match[2].casefold() in _PYTHON | _DIFF]
            found += [
                FixCode(f"{section.title}, block {number}", textwrap.dedent(match[3]), match[2].casefold() in _DIFF)
                for number, match in enumerate(blocks, 1)
            ]
    return found


def recommended(document: Document, evidence: Evidence | None) -> list[FixCode]:
    """Return the code that the ticket recommends: the blocks of its section Fix, else the diffs of its evidence."""
    codes = codes_of(document, RECOMMENDED)
    if not codes and evidence is not None:
        diffs = filter(None, (str(fix.get("difference", "")) for fix in evidence.fixes))
        codes = [FixCode(f"{FIX}, block {number}", text, True) for number, text in enumerate(diffs, 1)]
    if not codes:
        hint = "show the fix in a block that begins with ```diff or ```python, or use --patch FILE"
        raise BadInputError(f"{document.ticket.id} recommends no code", hint)
    return codes


@dataclass(frozen=True)
class _Base:
    """The broken code of one target: the function that Python code replaces, and what every probe measured there."""

    place: FunctionFile
    target: Target
    findings: tuple[str, ...]
    run: Run
    answers: Answers


def _measured_base(
    ticket: Ticket, asked: Sequence[Question], request: VerifyRequest, opened: OpenCheckout, target: Target,
    codes: Sequence[FixCode],
) -> _Base:  # fmt: skip
    """Measure the base for one target: every stable probe, and the target's results, which must stay the same."""
    bound = [one.probe for one in asked if one.target.call == target.call]
    chosen = [*select(dict(catalog_of(request.options.config)), request.probes), *bound]
    probes = list({probe.id: probe for probe in chosen if probe.scope == "target"}.values())
    request.progress.targets_known([target], len(probes) * (1 + len(codes)))
    run = ask(request.options, opened, [target], [*probes, answers_probe()], request.progress)
    failed = next((result for result in run.results if not result.loaded), None)
    if failed is not None:
        raise TargetNotLoadedError(f"the broken code cannot be loaded: {failed.message}", "--checkout DIR@REV")
    answers = Answers.of(run.results, target, run.targets[0])
    run = replace(run, results=answers.results)
    findings = _judging(ticket.id, [one.id for one in bound] or request.probes, run)
    place = _place(ticket, request, opened, run.targets[0].target, codes)
    return _Base(place, run.targets[0].target, findings, run, answers)


def _judging(ticket: str, bound: Sequence[str], base: Run) -> tuple[str, ...]:
    """Return the probes that judge the fix: those of `bound` (none: all) that reproduce on the broken code.

    P4 findings beside worse ones may stay.
    """
    red = [one for one in base.results if one.outcome is Outcome.REPRODUCED and (not bound or one.probe in bound)]
    grave = [one for one in red if one.severity is not Severity.P4] or red
    if not grave:
        names, checkout = ", ".join(bound) or "no probe", base.environment.checkout
        raise NothingMeasuredError(
            f"{ticket}: {names} does not reproduce at {checkout}",
            "--checkout DIR@REV names the revision that has the defect",
        )
    return tuple(dict.fromkeys(one.probe for one in grave))


def _place(
    ticket: Ticket, request: VerifyRequest, opened: OpenCheckout, target: Target, codes: Sequence[FixCode]
) -> FunctionFile:
    """Return the function that a block replaces: the target, or the one that the ticket names and a block defines."""
    calls = [target.call]
    with contextlib.suppress(BadInputError):
        calls.append(request.located(ticket, opened).call)
    files = PythonFiles(opened.path, request.options.import_roots(opened))
    found = [one for call in dict.fromkeys(calls) if (one := function_in(files, call)) is not None]
    if not found:
        raise BadInputError(
            f"{ticket.id}: {opened.label} defines no function {target.call}", "--target MODULE:FUNCTION"
        )
    defined = {name for code in codes for name in re.findall(r"\bdef\s+(\w+)", code.text)}
    return next((one for one in found if one.function.name in defined), found[0])


def _attempt(code: FixCode, base: _Base, request: VerifyRequest, spec: CheckoutSpec) -> Attempt:
    """Run one code in a copy and judge it."""
    options, checkout = request.options, base.run.environment.checkout
    difference = code.text
    try:
        with open_copy(spec, options.interpreter) as opened, contextlib.ExitStack() as stack:
            if code.is_diff:
                changes = changes_of(code.text, opened.path, prefix_of(spec))
            else:
                changes = [FileChange(base.place.file, base.place.data, patch(code.text, base.place))]
                difference = changes[0].difference()
            for change in changes:
                opened = stack.enter_context(change.put_into(opened))
            probes = [catalog_of(options.config)[name] for name in dict.fromkeys(one.probe for one in base.run.results)]
            label = f"{checkout} with {code.name}"
            run = ask(options, opened, [base.target], [*probes, answers_probe()], request.progress, label)
    except CannotComplete as error:
        return Attempt(code, base.target.call, does_not_run(f"the block {error}"))
    judgement = judge(base.findings, base.answers, Answers.of(run.results, base.target, run.targets[0]))
    return Attempt(code, base.target.call, judgement, difference)


# `ticket fix`.


def apply_fix(folder: TicketFolder, request: VerifyRequest) -> tuple[Verification, tuple[str, ...]]:
    """Run the recommended diff again, and write it into the checkout's files if it is sufficient.

    Return the verification and the changed files. Raises BadInputError for a checkout at a revision, and for files
    that git does not track or that have uncommitted changes.
    """
    document = folder.read(request.ticket)
    diffs = [one for one in recommended(document, folder.evidence(document.ticket.id)) if one.is_diff]
    if not diffs:
        raise BadInputError(f"{document.ticket.id} recommends no diff", "only a diff can be applied")
    spec = parse_checkout(request.checkout)
    try:
        changes = changes_of(diffs[0].text, spec.directory, prefix_of(spec))
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
