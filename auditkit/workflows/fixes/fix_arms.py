"""The arms of a trial: a block of the ticket in the target's place, or the commit that mended it."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditkit.model.enums import Takes
from auditkit.model.revisions.trial import ArmKind, FixBlock, Judgement, TriedArm
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.model.tickets.page import Page
from auditkit.model.tickets.ticket import Ticket
from auditkit.probing.checkouts import git
from auditkit.probing.checkouts.checkout import CheckoutSpec, OpenCheckout, open_checkout
from auditkit.probing.checkouts.copies import open_copy
from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.patches import Blame, FunctionFile, Patch, patch
from auditkit.probing.source_code.history.anchors import Anchor, AnchoredSource
from auditkit.rules.comparison.trade import does_not_run, judge
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions

PYTHON = frozenset({"python", "py", "python3"})


@dataclass(frozen=True)
class Ground:
    """What every arm shares: the base's files, the function to mend, the target and what is asked of it.

    `findings` are the probes that a fix is judged by, `blame` is what the ticket says is wrong.
    """

    spec: CheckoutSpec
    options: RunOptions
    place: FunctionFile
    anchor: Anchor | None
    target: Target
    probes: Sequence[ProbeInfo]
    findings: tuple[str, ...]
    base: Run
    blame: Blame
    progress: Progress


def blocks_of(page: Page, sections: Sequence[str]) -> list[FixBlock]:
    """The Python blocks of the named sections, in the order of the file."""
    wanted = {section.casefold() for section in sections}
    found = [block for block in page.code_blocks if block.h2.casefold() in wanted and block.language in PYTHON]
    return [FixBlock(block.h2, number, block.line, block.text) for number, block in enumerate(found, start=1)]


def try_block(
    block: FixBlock, blocks: Sequence[FixBlock], ground: Ground, kind: ArmKind = ArmKind.RECOMMENDED
) -> TriedArm:
    """What came of one block; the whole functions among `blocks` above it may complete it."""
    name = f"{block.section}, block {block.number}"
    earlier = [other.code for other in blocks if other.number < block.number and _is_whole(other.code)]
    try:
        patched = patch(block.code, ground.place, ground.blame, earlier, _takes(ground))
    except CannotComplete as refused:
        return TriedArm(name, kind, does_not_run(f"the block {refused}"), block=block, target=ground.target.call)
    with _patched(patched, ground) as opened:
        label = f"{ground.base.environment.checkout} with {name}"
        run = ask(ground.options, opened, [ground.target], ground.probes, ground.progress, label)
    return TriedArm(
        name=name,
        kind=kind,
        judgement=_judged(ground, run),
        run=run,
        block=block,
        completion=patched.notes,
        source=patched.function,
        difference=patched.difference,
        target=ground.target.call,
    )


def _takes(ground: Ground) -> Takes | None:
    """How the function to mend is fed: as the target, where it is the target."""
    return ground.target.takes if ground.place.function.call == ground.target.call else None


def _is_whole(code: str) -> bool:
    try:
        return any(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in ast.parse(code).body)
    except SyntaxError:
        return False


def _judged(ground: Ground, run: Run) -> Judgement:
    before, after = (set(one.targets[0].roles) if one.targets else set() for one in (ground.base, run))
    # Without a plan there is no answer at all, and the results say why.
    lost = sorted(before - after) if after else []
    return judge(ground.findings, ground.base.results, run.results, lost)


@contextlib.contextmanager
def _patched(patched: Patch, ground: Ground) -> Iterator[OpenCheckout]:
    """A copy of the base with the patch in it; its text is written as the file was read."""
    with open_copy(ground.spec, ground.options.interpreter) as opened:
        file = opened.path / patched.file
        file.unlink()  # never through a link
        file.write_text(patched.text, encoding=ground.place.encoding)
        function = ground.place.function
        lines = {function.call: (patched.lines, function.outputs)} if isinstance(function, Block) else {}
        yield replace(opened, dirty=True, replaced=lines)


def actual_fix(page: Page, named: str, ground: Ground) -> tuple[list[TriedArm], list[str]]:
    """The fix that was made: the `named` commit or the resolution's, else the code that it shows; and notes."""
    revision, notes = _fix_revision(page.ticket, named, ground.spec)
    if revision:
        return [_try_revision(revision, ground)], notes
    sections = page.ticket.resolution.sections if page.ticket.resolution else ()
    shown = blocks_of(page, sections)
    return [try_block(block, shown, ground, ArmKind.APPLIED) for block in shown], notes


def _fix_revision(ticket: Ticket, named: str, spec: CheckoutSpec) -> tuple[str, list[str]]:
    """The revision with the fix, "" where the ticket names none that is here."""
    if named:
        return named, []
    commits = ticket.resolution.commits if ticket.resolution else ()
    repository = git.find_repository(spec.directory)
    known = git.first_known(repository, commits) if repository is not None else ""
    if known or not commits:
        return known, []
    return "", [f"{', '.join(commits)}, which the resolution names, is not in {spec.directory}"]


def _try_revision(revision: str, ground: Ground) -> TriedArm:
    """The arm of a commit, its target found again there."""
    name = f"applied fix, {revision[:12]}"
    with open_checkout(ground.spec.at(revision), ground.options.interpreter) as opened:
        source = AnchoredSource(opened.path, ground.options.import_roots(opened))
        found = source.find_again(ground.anchor) if ground.anchor else None
        if found is not None and found.anchor is None:
            reason = f"{ground.target.call} is not there any more"
            return TriedArm(name, ArmKind.APPLIED, does_not_run(reason), target=ground.target.call)
        call = found.anchor.call if found is not None and found.anchor is not None else ground.target.call
        target = replace(ground.target, call=call)
        run = ask(ground.options, opened, [target], ground.probes, ground.progress)
    judgement = _judged(ground, run)
    return TriedArm(name, ArmKind.APPLIED, judgement, run=run, target=call)
