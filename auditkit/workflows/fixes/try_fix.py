"""Try a ticket's recommended fix before anybody applies it: its code in the target's place, and every probe again."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditkit.errors import BadInputError, NothingMeasuredError, TargetNotLoadedError
from auditkit.model.enums import Outcome
from auditkit.model.revisions.trial import FixBlock, FixTrial
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.model.text import inert_line
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, parse_checkout
from auditkit.probing.hosts.catalog import select
from auditkit.probing.patching.patches import Blame, FunctionFile, find_function
from auditkit.probing.source_code.history.anchors import AnchoredSource
from auditkit.rendering.trial import render_trial, trial_rows
from auditkit.rules.comparison.trade import to_be_mended
from auditkit.rules.tickets.subject import subject_of
from auditkit.store.edits.evidence import with_trial
from auditkit.store.folder.repository import Change, Repository
from auditkit.store.markdown.pages import page_of
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.configuration import catalog_of
from auditkit.workflows.fixes.answers import Answers, answers_probe, without_answers
from auditkit.workflows.fixes.file_change import prefix_of
from auditkit.workflows.fixes.fix_arms import PYTHON, Ground, actual_fix, blocks_of, try_block
from auditkit.workflows.proof.ticket_questions import Question, bound_questions, located_target

__all__ = ["TryRequest", "trial_rows", "try_fix", "write_trial"]

RECOMMENDED = "Recommended Fix"


@dataclass(frozen=True)
class TryRequest:
    """What to try where.

    `checkout` is `DIR` or `DIR@REV`; `base` and `fix` are revisions of it, "" for the named one and for what
    the ticket's resolution says. `block` picks one block of the fix; `targets` are tried instead of the
    ticket's own (the first of them); `probes` are asked instead of all stable ones, beside those
    that the fix is judged by: `findings`, or those that the ticket is about. `complete` adds what a fix forgets.
    """

    ticket: str
    checkout: str
    options: RunOptions
    base: str = ""
    fix: str = ""
    block: int | None = None
    targets: tuple[Target, ...] = ()
    probes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    complete: bool = False


def try_fix(repository: Repository, request: TryRequest, progress: Progress | None = None) -> FixTrial:
    """Run the base, every recommended block and the fix that was made; nothing is written.

    The audited directory is only read: each arm runs in a copy of its own. Raises BadInputError for a ticket
    without a Python block in its fix or without a function to try it on, TargetNotLoadedError where the base
    cannot be loaded, and NothingMeasuredError where no finding of the ticket reproduces there.
    """
    entry = repository.find(request.ticket)
    page = page_of(entry.document, entry.ticket)
    blocks = _chosen(blocks_of(page, (RECOMMENDED,)), request.block, entry.ticket)
    spec = parse_checkout(request.checkout).at(request.base)
    _check_revision(spec, request.fix)
    catalog = catalog_of(request.options.config)
    bound = bound_questions(entry.ticket, request.options.config, catalog)
    probes = _asked(request, bound, catalog)
    progress = progress or Progress()
    with request.options.open(spec) as opened:
        target = _target(entry.ticket, request, opened, bound)
        progress.targets_known([target], len(probes) * (1 + sum(_is_wanted(block, request) for block in blocks)))
        run = _loaded(ask(request.options, opened, [target], [*probes, answers_probe()], progress))
        base = without_answers(run)
        of_target = [question.probe.id for question in bound if question.target.call == target.call]
        findings, chosen = _findings(entry.ticket, request, of_target, base, catalog)
        learnt = base.targets[0].target
        place = _place(entry.ticket, request, opened, learnt, blocks)
        ground = Ground(
            spec=spec,
            options=request.options,
            place=place,
            anchor=AnchoredSource(opened.path, request.options.import_roots(opened)).anchor(learnt.call),
            target=learnt,
            probes=probes,
            findings=findings,
            base=base,
            blame=_blame(page, place),
            progress=progress,
            answers=Answers.of(run, target),
            prefix=prefix_of(spec),
            complete=request.complete,
        )
    arms = [try_block(block, blocks, ground) for block in blocks if _is_wanted(block, request)]
    actual, notes = actual_fix(page, request.fix, ground)
    return FixTrial(str(entry.ticket.id), target.call, findings, chosen, base, (*arms, *actual), tuple(notes))


def write_trial(repository: Repository, trial: FixTrial) -> Change:
    """Put the trial into its ticket, in the place of an earlier one of the same target; nothing else changes.

    Raises as `Repository.change` does.
    """
    return repository.change(trial.ticket, lambda entry: with_trial(entry.document, trial.id, render_trial(trial)))


def _chosen(blocks: list[FixBlock], number: int | None, ticket: Ticket) -> list[FixBlock]:
    """All blocks, once it is sure that there is one, and that the one that was asked for is there."""
    if not blocks:
        raise BadInputError(
            f"{ticket.id}: its {RECOMMENDED} shows no Python code, so there is nothing to run",
            "show the code in a block that begins with ```python, or a change in one with ```diff",
        )
    if number is not None and not 1 <= number <= len(blocks):
        raise BadInputError(f"{ticket.id}: its {RECOMMENDED} has no block {number}", f"it has 1 to {len(blocks)}")
    return blocks


def _is_wanted(block: FixBlock, request: TryRequest) -> bool:
    return request.block is None or block.number == request.block


def _check_revision(spec: CheckoutSpec, revision: str) -> None:
    """Refuse a revision that is not there before anything is measured."""
    repository = git.find_repository(spec.directory) if revision else None
    if repository is not None:
        git.resolve_revision(repository, revision)


def _target(ticket: Ticket, request: TryRequest, opened: OpenCheckout, bound: Sequence[Question]) -> Target:
    """The target that was named, else the first that the ticket is bound to, else the function of its Location."""
    if request.targets:
        return request.targets[0]
    called = [question.target for question in bound if question.probe.scope == "target"]
    if called:
        return called[0]
    return located_target(ticket, opened.path, request.options.import_roots(opened), request.options.config)


def _asked(request: TryRequest, bound: Sequence[Question], catalog: dict[str, ProbeInfo]) -> list[ProbeInfo]:
    """The probes that were named, or all stable ones; in any case those that the fix is judged by."""
    names = [*(request.findings or (question.probe.id for question in bound))]
    chosen = {probe.id: probe for probe in select(catalog, request.probes)}
    if names:
        chosen |= {probe.id: probe for probe in select(catalog, names)}
    return [probe for probe in chosen.values() if probe.scope == "target"]


def _loaded(run: Run) -> Run:
    failed = next((result for result in run.results if not result.loaded), None)
    if failed is not None:
        raise TargetNotLoadedError(f"the base cannot be loaded: {failed.message}", "name another with --base REV")
    return run


def _findings(
    ticket: Ticket, request: TryRequest, bound: Sequence[str], base: Run, catalog: Mapping[str, ProbeInfo]
) -> tuple[tuple[str, ...], str]:
    """The probes that the fix is judged by, and how they were chosen. Red first: each reproduces at the base.

    `bound` are those that the ticket asks of the target.
    """
    reproduced = [result.probe for result in base.results if result.outcome is Outcome.REPRODUCED]
    named = tuple(probe.id for probe in select(dict(catalog), request.findings)) if request.findings else ()
    if named or bound:
        wanted, chosen = named or tuple(bound), "named" if named else "bound"
        red = [result for result in base.results if result.probe in wanted and result.outcome is Outcome.REPRODUCED]
        judging = {result.probe for result in (red if named else to_be_mended(red))}
        found = tuple(probe for probe in dict.fromkeys(wanted) if probe in judging)
    else:
        found, chosen = subject_of(ticket, reproduced, catalog), "from the ticket's words"
        wanted = found
    if not found:
        raise NothingMeasuredError(
            f"{ticket.id}: {', '.join(wanted) or 'nothing that it is about'} does not reproduce at "
            f"{base.environment.checkout}, so no fix of it can be tried there",
            "--base REV names the revision that has the defect; --finding ID the probe that shows it",
        )
    return found, chosen


def _place(
    ticket: Ticket, request: TryRequest, opened: OpenCheckout, target: Target, blocks: Sequence[FixBlock]
) -> FunctionFile:
    """The function that the blocks are put in the place of: the target, or another that Location and a block name."""
    roots = request.options.import_roots(opened)
    calls = [target.call]
    with contextlib.suppress(BadInputError):
        calls.append(located_target(ticket, opened.path, roots, request.options.config).call)
    found = [one for call in dict.fromkeys(calls) if (one := find_function(opened.path, roots, call)) is not None]
    if not found:
        raise BadInputError(
            f"{ticket.id}: {inert_line(target.call)} is no function that {opened.label} defines there",
            "--target package.module:function names it where it is defined",
        )
    defined = {name for block in blocks for name in _defined(block.code)}
    return next((one for one in found if one.function.name in defined), found[0])


def _defined(code: str) -> set[str]:
    """The functions that a block defines; its own words, as it may be no Python yet (`def f(...)`)."""
    words = (line.split() for line in code.splitlines())
    lines = [parts for parts in words if "def" in parts[:2]]
    return {parts[parts.index("def") + 1].partition("(")[0] for parts in lines if len(parts) > parts.index("def") + 1}


def _blame(page: Page, place: FunctionFile) -> Blame:
    """The lines and the code that the ticket says are wrong; lines of other files are not."""
    ranges = [span for span in page.ticket.lines if not span.file or place.file.endswith(span.file.lstrip("./"))]
    lines = frozenset(number for span in ranges for number in range(span.first, span.last + 1))
    shown = [
        block.text
        for block in page.code_blocks
        if block.h2.casefold() == "detailed description" and block.language in PYTHON
    ]
    return Blame(lines, tuple(shown))
