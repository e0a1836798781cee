"""Run probes on targets under one interpreter on one device: one run, judged, with nothing filed yet."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat

import auditkit
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import BUNDLED, SOURCE_DEVICE, Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkouts.checkout import OpenCheckout
from auditkit.probing.hosts.results import TargetRun, environment_of_runs, read_target
from auditkit.probing.hosts.runner import in_parallel, run_target
from auditkit.probing.hosts.sandbox import Setting
from auditkit.workflows.audit.run_options import RunOptions

PARALLEL_TARGETS = 2


@dataclass(frozen=True)
class Progress:
    """Told what is going on; every call may come from another thread.

    `finished` has each judged result once, as soon as it is there; what a run adds later (its cause, its ticket,
    the other arms' answers) is not in it yet.
    """

    targets_known: Callable[[Sequence[Target], int], None] = lambda *_: None
    trying: Callable[[str], None] = lambda *_: None
    probe_started: Callable[[str, str], None] = lambda *_: None
    reading: Callable[[str], None] = lambda *_: None
    finished: Callable[[ProbeResult], None] = lambda *_: None


@dataclass(frozen=True)
class Questions:
    """What is asked of every arm alike: these probes of these targets.

    `place` is the checkout without any interpreter; `found` says that its targets were found by reading the source.
    """

    targets: Sequence[Target]
    probes: Sequence[ProbeInfo]
    place: Environment
    found: bool = False


def measure(questions: Questions, setting: Setting, progress: Progress) -> Run:
    """Every probe on every target in `setting`. What could not be loaded is an `error` result.

    Two targets at a time: counts do not change under load, and no time is measured.
    """
    calls = [target.call for target in questions.targets]

    def one(number: int) -> TargetRun:
        target, ordinal = questions.targets[number], calls[:number].count(calls[number])
        return run_target(target, questions.probes, setting, progress.probe_started, progress.finished, ordinal)

    runs = in_parallel(one, range(len(calls)), PARALLEL_TARGETS, setting.cancelled)
    return Run(
        id=run_id(),
        environment=environment_of_runs(questions.place, setting, runs),
        results=tuple(result for run in runs for result in run.results),
        targets=tuple(map(read_target, questions.targets, runs, repeat(questions.found))),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
    )


def ask(
    options: RunOptions,
    opened: OpenCheckout,
    targets: Sequence[Target],
    probes: Sequence[ProbeInfo],
    progress: Progress | None = None,
    label: str | None = None,
) -> Run:
    """Every one of `probes` (of scope `target`) about every one of `targets`, judged, with no tickets.

    `label` stands for the checkout in the run, `opened.label` without one. A target that cannot be loaded is
    an `error` result. Raises BadInputError as `RunOptions.setting` does.
    """
    asked = [probe for probe in probes if probe.scope == "target"]
    questions = Questions(targets, asked, environment_of(label or opened.label, opened))
    return measure(questions, options.setting(opened), progress or Progress())


def environment_of(label: str, opened: OpenCheckout) -> Environment:
    """Where a run is made that only reads: no interpreter, no torch, no device. `label` stands for the checkout."""
    return Environment(
        checkout=label,
        # The bundled specimen is part of auditkit: its version says which one it is.
        revision="" if label == BUNDLED else opened.revision,
        dirty=label != BUNDLED and opened.dirty,
        python="",
        torch="",
        device=SOURCE_DEVICE,
        device_name="none: the source was read",
        auditkit=auditkit.__version__,
    )


def run_id() -> str:
    """A name for a run: when it began, and something that no other run of that second has."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
