"""Run probes on targets under one interpreter on one device, and judge the results; nothing is filed."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import auditkit
from auditkit import sandbox
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import BUNDLED, SOURCE_DEVICE, Environment, ProbeResult, Run
from auditkit.model.runs.target import Target
from auditkit.model.text import listed
from auditkit.probing.checkout.checkout import OpenCheckout
from auditkit.probing.engine.results import TargetRun, environment_of_runs, read_target
from auditkit.probing.engine.runner import TRAFFIC, in_parallel, run_target
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.run.ownership import TorchItself
from auditkit.probing.run.run_options import RunOptions

PARALLEL_WORKERS = 2
_COUNTING = ("graphs", *TRAFFIC)


@dataclass(frozen=True)
class Progress:
    """Callbacks while probes run; any thread may call them.

    `finished` gets each judged result once, without what a run adds later (cause, ticket, other environments).
    """

    targets_known: Callable[[Sequence[Target], int], None] = lambda *_: None
    trying: Callable[[str], None] = lambda *_: None
    probe_started: Callable[[str, str], None] = lambda *_: None
    reading: Callable[[str], None] = lambda *_: None
    finished: Callable[[ProbeResult], None] = lambda *_: None


@dataclass(frozen=True)
class Questions:
    """Which probes to run on which targets; the same for every interpreter and device.

    `place` is the checkout without an interpreter. Discovery found the last `found_count` targets; a user named the
    others. `attributed` separates torch's own findings from the checkout's.
    """

    targets: Sequence[Target]
    probes: Sequence[ProbeInfo]
    place: Environment
    found_count: int = 0
    attributed: bool = True


def measure(questions: Questions, setting: Setting, progress: Progress) -> Run:
    """Run every probe on every target in `setting`; a target that could not be loaded gives `error` results.

    Two workers run at a time, which share the last target: no probe measures time, and counts do not change under load.
    A finding that torch's own function has as well is attributed to torch (docs/design/ownership.md).
    """
    calls = [target.call for target in questions.targets]
    last = len(calls) - 1
    named = len(calls) - questions.found_count
    shares = [(number, questions.probes) for number in range(last)]
    shares += [(last, half) for half in _halves(questions.probes) if calls]
    torch_itself = TorchItself(setting, questions.probes) if questions.attributed else None
    attribute = torch_itself.attribute if torch_itself is not None else None

    def one(share: tuple[int, Sequence[ProbeInfo]]) -> TargetRun:
        number, probes = share
        ordinal = calls[:number].count(calls[number])
        target = replace(questions.targets[number], found=number >= named)
        started, finished = progress.probe_started, progress.finished
        if torch_itself is None or not target.places:
            return run_target(target, probes, setting, started, finished, ordinal, attribute)
        run = torch_itself.own(run_target(target, probes, setting, started, ordinal=ordinal))
        for result in run.results:
            finished(result)
        return run

    runs = in_parallel(one, shares, PARALLEL_WORKERS, setting.cancelled)
    if runs:
        runs[last:] = [_joined(runs[last:], questions.probes)]
    return Run(
        id=run_id(),
        environment=environment_of_runs(questions.place, setting, runs),
        results=tuple(result for run in runs for result in run.results),
        targets=tuple(
            read_target(target, run, number >= named)
            for number, (target, run) in enumerate(zip(questions.targets, runs, strict=True))
        ),
        notes=_notes(calls, runs),
    )


def _halves(probes: Sequence[ProbeInfo]) -> list[Sequence[ProbeInfo]]:
    """Split the probes into halves of equal time: those that compute, and those that compile or count traffic."""
    counts = [probe for probe in probes if probe.instrument in _COUNTING]
    computes = [probe for probe in probes if probe.instrument not in _COUNTING]
    return [half for half in (computes, counts) if half] or [()]


def _notes(calls: Sequence[str], runs: Sequence[TargetRun]) -> tuple[str, ...]:
    """Return each note once, with the targets that it concerns."""
    of_text: dict[str, list[str]] = {}
    for call, run in zip(calls, runs, strict=True):
        for text in dict.fromkeys(run.notes):
            of_text.setdefault(text, []).append(call)
    return tuple(f"{listed(dict.fromkeys(named), 2)}: {text}" for text, named in of_text.items())


def _joined(runs: Sequence[TargetRun], probes: Sequence[ProbeInfo]) -> TargetRun:
    """Join the runs of one target by several workers; results are in the order of the probes."""
    first = next((run for run in runs if run.plan is not None), runs[0])
    by_probe = {result.probe: result for run in runs for result in run.results}
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    return replace(first, results=[by_probe[probe.id] for probe in probes], notes=notes)


def ask(
    options: RunOptions,
    opened: OpenCheckout,
    targets: Sequence[Target],
    probes: Sequence[ProbeInfo],
    progress: Progress | None = None,
    label: str | None = None,
) -> Run:
    """Run `probes` (those of scope `target`) on `targets`, judge them, and file no ticket.

    `label` names the checkout in the run instead of `opened.label`. Findings are not attributed to torch, since that
    changes only a severity. Raises BadInputError as `RunOptions.setting` does.
    """
    asked = [probe for probe in probes if probe.scope == "target"]
    questions = Questions(targets, asked, environment_of(label or opened.label, opened), attributed=False)
    return measure(questions, options.setting(opened), progress or Progress())


def environment_of(label: str, opened: OpenCheckout) -> Environment:
    """Return the environment of a run that only reads source: without interpreter, torch or device."""
    return Environment(
        checkout=label,
        # The bundled specimen is part of auditkit, so auditkit's version identifies it.
        revision="" if label == BUNDLED else opened.revision,
        dirty=label != BUNDLED and opened.dirty,
        python="",
        torch="",
        device=SOURCE_DEVICE,
        device_name="none: the source was read",
        auditkit=auditkit.__version__,
        sandbox=sandbox.inside() or "none",
    )


def run_id() -> str:
    """Return a unique name for a run: when it began, and a random part."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
