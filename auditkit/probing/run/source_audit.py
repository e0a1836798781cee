"""The part of an audit that only reads: source probes on the checkout's files, without an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import ProbeResult
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import OpenCheckout
from auditkit.probing.find.search import TOUCHES_GRADIENTS
from auditkit.probing.run.found_targets import is_specimen
from auditkit.probing.run.measurement import Progress
from auditkit.probing.run.recorded_file import recorded_in
from auditkit.probing.run.run_options import RunOptions
from auditkit.probing.source.files import LeftOut
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source.modules import Module
from auditkit.probing.source_probes.runner import run_source_probes


class SourceScope(StrEnum):
    """Which modules source probes check; references to them are searched in the whole checkout."""

    WHOLE = "whole"
    GRADIENTS = "gradients"
    TARGETS = "targets"


@dataclass(frozen=True)
class SourceQuestions:
    """Which source probes to run on which modules; the modules of `targets` are always among them.

    If `files` is given, only these files are checked.
    """

    probes: Sequence[ProbeInfo]
    scope: SourceScope
    targets: Sequence[Target]
    options: RunOptions
    files: frozenset[str] | None = None


def read_source(
    questions: SourceQuestions, opened: OpenCheckout, progress: Progress | None = None
) -> tuple[ProbeResult, ...]:
    """Read the checkout and run every source probe on it. Nothing of the checkout is imported or run."""
    if not questions.probes:
        return ()
    progress, options = progress or Progress(), questions.options
    index = SourceIndex(opened.path, options.config.import_roots)
    wanted = _wanted(questions, index)
    results = []
    recorded, _ = recorded_in(opened.source)
    for result in run_source_probes(questions.probes, index, wanted, options.policy, progress.reading, recorded):
        progress.finished(result)
        results.append(result)
    return tuple(results)


def _wanted(questions: SourceQuestions, index: SourceIndex) -> Callable[[Module], bool]:
    """Return a predicate: whether the probes check a module."""
    named = set(_places_of(questions.targets))
    left_out = LeftOut(index.path, questions.options.config.exclude)

    def wanted(module: Module) -> bool:
        if questions.files is not None and module.file not in questions.files:
            return False
        if {module.name, module.file} & named and not is_specimen(index.path, module.file):
            return True
        if is_specimen(index.path, module.file) or left_out.place_of(module.file):
            return False
        if questions.scope is SourceScope.WHOLE:
            return True
        is_about = questions.scope is SourceScope.GRADIENTS
        return is_about and TOUCHES_GRADIENTS.search(index.source_of(module)) is not None

    return wanted


def _places_of(targets: Iterable[Target]) -> Iterable[str]:
    for target in targets:
        yield target.call.partition(":")[0]
        if target.finish:
            yield target.finish.partition(":")[0]
