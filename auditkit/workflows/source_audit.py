"""The part of an audit that only reads: source probes over the checkout's files, without any interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import auditkit
from auditkit.model.enums import Outcome
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import BUNDLED, SOURCE_DEVICE, Environment, ProbeResult
from auditkit.model.target import Target
from auditkit.probing.checkout import OpenCheckout
from auditkit.probing.discovery.search import TOUCHES_GRADIENTS
from auditkit.probing.source.facts import ModuleFacts
from auditkit.probing.source.index import SourceIndex
from auditkit.probing.source.run import notes_of, run_source_probes
from auditkit.workflows.measuring import Progress
from auditkit.workflows.run_options import RunOptions
from auditkit.workflows.targets import is_specimen


class SourceScope(StrEnum):
    """Which modules source probes ask about; what refers to them is looked for in the whole checkout."""

    WHOLE = "whole"
    GRADIENTS = "gradients"
    TARGETS = "targets"


@dataclass(frozen=True)
class SourceQuestions:
    """What source probes are asked, of which modules; `targets` are those whose modules belong to the question."""

    probes: Sequence[ProbeInfo]
    scope: SourceScope
    targets: Sequence[Target]
    options: RunOptions


@dataclass(frozen=True)
class SourceAnswers:
    """The judged results, and what the reader of the run must know of the checkout's files."""

    results: tuple[ProbeResult, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def are_any(self) -> bool:
        """Whether some probe said yes or no."""
        return any(result.outcome in (Outcome.REPRODUCED, Outcome.NOT_REPRODUCED) for result in self.results)


def read_source(questions: SourceQuestions, opened: OpenCheckout, progress: Progress | None = None) -> SourceAnswers:
    """Read the checkout and ask every source probe. Nothing of the checkout is imported or run."""
    if not questions.probes:
        return SourceAnswers()
    progress, options = progress or Progress(), questions.options
    index = SourceIndex(opened.path, options.config.import_roots)
    wanted = _wanted(questions, index)
    results = []
    for result in run_source_probes(
        questions.probes, index, wanted, options.policy, options.time_limit_s, progress.reading
    ):
        progress.finished(result)
        results.append(result)
    return SourceAnswers(tuple(results), notes_of(index))


def _wanted(questions: SourceQuestions, index: SourceIndex) -> Callable[[ModuleFacts], bool]:
    """Whether a module is one that the probes ask about."""
    named = set(_modules_of(questions.targets))

    def wanted(module: ModuleFacts) -> bool:
        if is_specimen(index.root, module.file):
            return False
        if questions.scope is SourceScope.WHOLE or module.name in named:
            return True
        is_about = questions.scope is SourceScope.GRADIENTS
        return is_about and TOUCHES_GRADIENTS.search(index.source_of(module)) is not None

    return wanted


def _modules_of(targets: Iterable[Target]) -> Iterable[str]:
    for target in targets:
        yield target.call.partition(":")[0]
        if target.finish:
            yield target.finish.partition(":")[0]


def source_environment(label: str, opened: OpenCheckout) -> Environment:
    """The environment of a run that only read: no interpreter, no torch, no device."""
    return Environment(
        checkout=label,
        # The bundled specimen is part of auditkit: its version says which one it is.
        revision="" if label == BUNDLED else opened.revision,
        dirty=label != BUNDLED and opened.dirty,
        python="",
        torch="",
        device=SOURCE_DEVICE,
        device_name="none: the source was read",
        interpreter="",
        platform="",
        auditkit=auditkit.__version__,
    )
