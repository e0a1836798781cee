"""Code that a ticket recommends, or a patch, in the place of the target: run and judged against the base."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditkit.model.revisions.trial import FixBlock, Judgement, TriedArm
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkouts.checkout import CheckoutSpec
from auditkit.probing.patching.patches import CannotComplete, FunctionFile, patch
from auditkit.rules.comparison.trade import does_not_run
from auditkit.tickets.document import Document, Section
from auditkit.workflows.audit.measurement import Progress, ask
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.answers import Answers, answers_probe, judged, without_answers
from auditkit.workflows.fixes.bench import Bench
from auditkit.workflows.fixes.diff_block import DIFF, changes_of
from auditkit.workflows.fixes.file_change import FileChange

PYTHON = frozenset({"python", "py", "python3"})
_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})\s*([\w+-]*)")


@dataclass(frozen=True)
class Ground:
    """What every arm shares: the base's files, the function to mend, the target and what is asked of it.

    `findings` are the probes that a fix is judged by. `answers` are those of the base; `prefix` is the way from the top
    of the repository to the checkout, with which the paths of diffs begin.
    """

    spec: CheckoutSpec
    options: RunOptions
    place: FunctionFile
    target: Target
    probes: Sequence[ProbeInfo]
    findings: tuple[str, ...]
    base: Run
    progress: Progress
    answers: Answers
    prefix: str = ""

    def bench(self) -> contextlib.AbstractContextManager[Bench]:
        """A copy of the base to put a fix into."""
        return Bench.open(self.spec, self.options.interpreter)


def blocks_of(document: Document, sections: Sequence[str]) -> list[FixBlock]:
    """Return the fenced Python and diffs of the named sections, in the order of the file."""
    found: list[FixBlock] = []
    for section in document.sections:
        if section.title.casefold() in {name.casefold() for name in sections}:
            found += _fenced(document.lines[section.first : section.end], section)
    return found


def _fenced(lines: Sequence[str], section: Section) -> Iterator[FixBlock]:
    number, start, fence, language = 0, 0, "", ""
    for index, line in enumerate(lines):
        mark = _FENCE.match(line)
        if mark and not fence:
            start, fence, language = index, mark[1], mark[2].casefold()
        elif mark and mark[1].startswith(fence) and not mark[2]:
            fence = ""
            if language in PYTHON | DIFF:
                number += 1
                code = textwrap.dedent("\n".join(lines[start + 1 : index])) + "\n"
                kind = language if language in DIFF else "python"
                yield FixBlock(section.title, number, section.first + start + 1, code, kind)


def defined_in(blocks: Sequence[FixBlock]) -> set[str]:
    """Return the functions that blocks define, by their words, as a block may be no Python yet (`def f(...)`)."""
    words = (line.split() for block in blocks for line in block.code.splitlines())
    lines = [parts for parts in words if "def" in parts[:2]]
    return {parts[parts.index("def") + 1].partition("(")[0] for parts in lines if len(parts) > parts.index("def") + 1}


def try_block(block: FixBlock, ground: Ground) -> TriedArm:
    """Run one block in a copy and judge it.

    `completion` names what auditkit kept or added to make the block run.
    """
    name = f"{block.section}, block {block.number}"
    refused = TriedArm(name, does_not_run(""), block=block, target=ground.target.call)
    patched = None
    try:
        with ground.bench() as bench:
            if block.language in DIFF:
                changes = changes_of(block.code, bench.opened.path, ground.prefix)
            else:
                patched = patch(block.code, ground.place)
                changes = [FileChange(patched.file, ground.place.data, patched.data)]
            with contextlib.ExitStack() as stack:
                opened = bench.opened
                for change in changes:
                    opened = stack.enter_context(bench.holding(change))
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


def _judged(ground: Ground, run: Run) -> Judgement:
    return judged(ground.findings, ground.answers, Answers.of(run, ground.target))
