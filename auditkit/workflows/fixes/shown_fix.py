"""The diff that a ticket recommends: run again in a copy, and put into the work tree where it suffices."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from auditkit.errors import BadInputError
from auditkit.files import write_below
from auditkit.model.codec import Record
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import FixBlock, FixTrial
from auditkit.model.runs.fix import FixRow
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, parse_checkout
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.store.folder.files import changed_meanwhile, ensure_writable, is_dry_run, replace_file
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.pages import page_of
from auditkit.workflows.audit.measurement import Progress
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.audit.source_audit import SourceQuestions, SourceScope, read_source
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.fixes.bench import Bench
from auditkit.workflows.fixes.diff_block import DIFF, changes_of
from auditkit.workflows.fixes.file_change import FileChange, prefix_of
from auditkit.workflows.fixes.fix_arms import blocks_of
from auditkit.workflows.fixes.try_fix import RECOMMENDED, TryRequest, trial_rows, try_fix
from auditkit.workflows.proof.ticket_questions import bound_questions

_SUFFICIENT = "sufficient"


@dataclass(frozen=True)
class FixRequest:
    """Which ticket's diff is run on which checkout (`DIR` or `DIR@REV`); `apply` changes the files of a work tree.

    `probes` are asked instead of all stable ones, beside those that the ticket is bound to.
    """

    ticket: str
    checkout: str
    options: RunOptions
    apply: bool = False
    probes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetFix(Record):
    """What one target of the ticket answered without the diff and with it."""

    target: str
    verdict: str
    reason: str
    rows: tuple[FixRow, ...]


@dataclass(frozen=True)
class ShownFix(Record):
    """A ticket's diff and what running it showed: the worst verdict of its targets; whether the files have it now."""

    schema_version: ClassVar[int] = 1

    ticket: str
    difference: str
    files: tuple[str, ...]
    verdict: str
    targets: tuple[TargetFix, ...]
    applied: bool = False

    @property
    def suffices(self) -> bool:
        return self.verdict == _SUFFICIENT


def run_shown_fix(repository: Repository, request: FixRequest, progress: Progress | None = None) -> ShownFix:
    """Run the ticket's diff, and apply it where that is wanted and suffices; nothing is committed.

    Raises BadInputError for a ticket without a diff, for one that does not apply any more and for files that may not
    be changed, StoreConflictError where they cannot be written, before anything is run; else as `try_fix` does.
    """
    entry = repository.find(request.ticket)
    block = _block(entry.ticket, blocks_of(page_of(entry.document, entry.ticket), (RECOMMENDED,)))
    spec = parse_checkout(request.checkout)
    with request.options.open(spec) as opened:
        try:
            changes = changes_of(block.code, opened.path, prefix_of(spec))
        except CannotComplete as refused:
            hint = "auditkit audit files a fix anew where the ticket is gone, or its lines changed"
            raise BadInputError(f"{entry.ticket.id}: its diff {refused}", hint) from None
    if request.apply:
        _check_work_tree(spec, changes)
    tried = [try_fix(repository, one, progress) for one in _requests(entry.ticket, request, block)]
    targets = (*map(_of_target, tried), *_still_read(entry.ticket, request, spec, changes))
    worst = next((one.verdict for one in targets if one.verdict != _SUFFICIENT), _SUFFICIENT)
    is_applied = request.apply and worst == _SUFFICIENT
    for change in changes if is_applied else ():
        path = spec.directory / change.file
        if is_dry_run():
            replace_file(path, change.after, change.before)
        elif path.read_bytes() != change.before:
            raise changed_meanwhile(path)
        else:
            write_below(spec.directory, change.file, change.after)
    files = tuple(change.file for change in changes)
    return ShownFix(str(entry.ticket.id), block.code, files, worst, targets, is_applied)


def _block(ticket: Ticket, blocks: Sequence[FixBlock]) -> FixBlock:
    diffs = [block for block in blocks if block.language in DIFF]
    if not diffs:
        raise BadInputError(
            f"{ticket.id}: its {RECOMMENDED} shows no diff, so there is nothing to apply",
            f"auditkit ticket try-fix {ticket.id} runs the code that it shows" if blocks else None,
        )
    return diffs[0]


def _requests(ticket: Ticket, request: FixRequest, block: FixBlock) -> list[TryRequest]:
    """One for each target that the ticket is bound to; without any, for the one that its words name."""
    catalog = catalog_of(request.options.config)
    bound = bound_questions(ticket, request.options.config, catalog)
    targets = {one.target.call: one.target for one in bound if one.probe.scope == "target"}
    asked = TryRequest(request.ticket, request.checkout, request.options, block=block.number, probes=request.probes)
    return [replace(asked, targets=(target,)) for target in targets.values()] or [asked]


def _still_read(
    ticket: Ticket, request: FixRequest, spec: CheckoutSpec, changes: Sequence[FileChange]
) -> list[TargetFix]:
    """What reading the source found of the ticket's, and finds with the diff as well."""
    bound = bound_questions(ticket, request.options.config, catalog_of(request.options.config))
    read = {one.fingerprint: one for one in bound if one.probe.scope == "source"}
    if not read:
        return []
    probes = list({one.probe.id: one.probe for one in read.values()}.values())
    targets = [one.target for one in read.values()]
    questions = SourceQuestions(probes, SourceScope.TARGETS, targets, request.options)
    with Bench.open(spec, request.options.interpreter) as bench, contextlib.ExitStack() as stack:
        for change in changes:
            stack.enter_context(bench.holding(change))
        results = read_source(questions, bench.opened).results
    left = [one for one in results if one.fingerprint in read and one.outcome is Outcome.REPRODUCED]
    return [
        TargetFix(one.target, "insufficient", f"{one.probe} is still found by reading: {one.message}", ())
        for one in left
    ]


def _check_work_tree(spec: CheckoutSpec, changes: Sequence[FileChange]) -> None:
    """Refuse what is no file of a work tree that git could bring back as it was."""
    if spec.revision:
        raise BadInputError(f"--apply changes files, and {spec.text} is a revision", f"name {spec.folder}")
    repository = git.find_repository(spec.directory)
    for change in changes:
        path = spec.directory / change.file
        if repository is None:
            raise BadInputError(f"{path} is in no git repository, which could bring it back: it is not changed")
        if git.run_git(spec.directory, "ls-files", "--error-unmatch", "--", change.file).returncode != 0:
            raise BadInputError(f"git does not track {path}: it is not changed", "git add and git commit it first")
        if git.run_git(spec.directory, "diff", "--quiet", "HEAD", "--", change.file).returncode != 0:
            raise BadInputError(f"{path} has uncommitted changes: it is not changed", "commit or stash them first")
        ensure_writable(path.parent)


def _of_target(trial: FixTrial) -> TargetFix:
    rows = tuple(FixRow(probe, base, answers[0]) for probe, base, answers in trial_rows(trial) if answers)
    judgement = trial.first.judgement
    return TargetFix(trial.target, judgement.text, judgement.reason, rows)
