"""The arms of a trial: a block of the ticket in the target's place, or the commit that mended it."""

from __future__ import annotations

import ast
import contextlib
import re
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
from auditkit.probing.discovery.blocks.blocks import Block
from auditkit.probing.patching.fragments import CannotComplete
from auditkit.probing.patching.patches import Blame, FunctionFile, Patch, patch
from auditkit.probing.source_code.history.anchors import Anchor, AnchoredSource
from auditkit.rules.comparison.trade import does_not_run, incomplete
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.answers import Answers, answers_probe, judged, without_answers
from auditkit.workflows.fixes.bench import Bench
from auditkit.workflows.fixes.diff_block import DIFF, changes_of
from auditkit.workflows.fixes.file_change import FileChange

PYTHON = frozenset({"python", "py", "python3"})
_FORGOTTEN = re.compile(r"(\w+), which the function still needs and the fix forgets")


@dataclass(frozen=True)
class Ground:
    """What every arm shares: the base's files, the function to mend, the target and what is asked of it.

    `findings` are the probes that a fix is judged by, `blame` is what the ticket says is wrong. `answers` are those of
    the base; `prefix` is the way from the top of the repository to the checkout, with which the paths of diffs begin.
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
    answers: Answers
    prefix: str = ""
    complete: bool = False

    def bench(self) -> contextlib.AbstractContextManager[Bench]:
        """A copy of the base to put a fix into."""
        return Bench.open(self.spec, self.options.interpreter)


def blocks_of(page: Page, sections: Sequence[str]) -> list[FixBlock]:
    """The Python and the diffs of the named sections, in the order of the file; none of an earlier trial's block."""
    wanted, languages = {section.casefold() for section in sections}, PYTHON | DIFF
    shown = [block for block in page.code_blocks if block.h2.casefold() in wanted and not block.is_evidence]
    found = [block for block in shown if block.language in languages]
    return [
        FixBlock(block.h2, number, block.line, block.text, block.language if block.language in DIFF else "python")
        for number, block in enumerate(found, start=1)
    ]


def try_block(
    block: FixBlock, blocks: Sequence[FixBlock], ground: Ground, kind: ArmKind = ArmKind.RECOMMENDED
) -> TriedArm:
    """What came of one block; the whole functions among `blocks` above it may complete it."""
    name = f"{block.section}, block {block.number}"
    earlier = [other.code for other in blocks if other.number < block.number and _is_whole(other.code)]
    refused = TriedArm(name, kind, does_not_run(""), block=block, target=ground.target.call)
    patched = None
    try:
        with ground.bench() as bench:
            if block.language in DIFF:
                changes = changes_of(block.code, bench.opened.path, ground.prefix)
            else:
                patched = patch(block.code, ground.place, ground.blame, earlier, _takes(ground))
                forgotten = forgotten_in(patched.notes)
                if forgotten and not ground.complete:
                    return replace(refused, judgement=incomplete(forgotten))
                changes = [_change(patched, ground, bench)]
            with _holding(bench, changes, patched, ground) as opened:
                label = f"{ground.base.environment.checkout} with {name}"
                asked = (ground.options, opened, [ground.target], [*ground.probes, answers_probe()])
                run = ask(*asked, ground.progress, label)
    except CannotComplete as error:
        return replace(refused, judgement=does_not_run(f"the block {error}"))
    return replace(
        refused,
        judgement=_judged(ground, run),
        run=without_answers(run),
        completion=patched.notes if patched is not None else (),
        source=patched.function if patched is not None else "",
        difference=patched.difference if patched is not None else block.code,
    )


def forgotten_in(notes: Sequence[str]) -> list[str]:
    """The names that a completion had to add, by what it says of itself."""
    return [found[1] for note in notes if (found := _FORGOTTEN.match(note))]


def _change(patched: Patch, ground: Ground, bench: Bench) -> FileChange:
    before = (bench.opened.path / patched.file).read_bytes()
    return FileChange.of(patched.file, before, patched.text, ground.place.encoding)


@contextlib.contextmanager
def _holding(
    bench: Bench, changes: Sequence[FileChange], patched: Patch | None, ground: Ground
) -> Iterator[OpenCheckout]:
    """The copy with the changes, and the lines that stand for a block now."""
    function, opened = ground.place.function, bench.opened
    with contextlib.ExitStack() as stack:
        for change in changes:
            opened = stack.enter_context(bench.holding(change))
        is_block = patched is not None and isinstance(function, Block)
        lines = {function.call: (patched.lines, function.outputs)} if patched and isinstance(function, Block) else {}
        yield replace(opened, replaced=lines) if is_block else opened


def _takes(ground: Ground) -> Takes | None:
    """How the function to mend is fed: as the target, where it is the target."""
    return ground.target.takes if ground.place.function.call == ground.target.call else None


def _is_whole(code: str) -> bool:
    try:
        return any(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in ast.parse(code).body)
    except SyntaxError:
        return False


def _judged(ground: Ground, run: Run) -> Judgement:
    return judged(ground.findings, ground.answers, Answers.of(run, ground.target))


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
        run = ask(ground.options, opened, [target], [*ground.probes, answers_probe()], ground.progress)
    return TriedArm(name, ArmKind.APPLIED, _judged(ground, run), run=without_answers(run), target=call)
