"""Run probes on targets under one interpreter on one device: one run, judged, with nothing filed yet."""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import auditkit
from auditkit.model.enums import Contract, Takes
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import BUNDLED, Environment, ProbeResult, Run, TargetReading
from auditkit.model.target import Target
from auditkit.probing.checkout import OpenCheckout
from auditkit.probing.results import TargetRun
from auditkit.probing.runner import run_target
from auditkit.probing.sandbox import Setting
from auditkit.workflows.run_options import RunOptions

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

    `found` says that the targets were found by reading the source, `label` what stands for the checkout.
    """

    targets: Sequence[Target]
    probes: Sequence[ProbeInfo]
    label: str
    found: bool


def measure(questions: Questions, opened: OpenCheckout, setting: Setting, progress: Progress) -> Run:
    """Every probe on every target in `setting`. What could not be loaded is an `error` result."""
    runs = list(_run_all(questions, setting, progress))
    return Run(
        id=run_id(),
        environment=_environment(questions.label, opened, setting, runs),
        results=tuple(result for run in runs for result in run.results),
        targets=tuple(map(_reading, questions.targets, runs, repeat(questions.found))),
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
    questions = Questions(targets, asked, label or opened.label, found=False)
    return measure(questions, opened, options.setting(opened), progress or Progress())


def _run_all(questions: Questions, setting: Setting, progress: Progress) -> Iterator[TargetRun]:
    """Two targets at a time: counts do not change under load, and no time is measured."""

    calls = [target.call for target in questions.targets]

    def one(number: int, target: Target) -> TargetRun:
        ordinal = calls[:number].count(target.call)
        return run_target(target, questions.probes, setting, progress.probe_started, progress.finished, ordinal)

    pool = ThreadPoolExecutor(max_workers=PARALLEL_TARGETS)
    try:
        yield from pool.map(one, range(len(calls)), questions.targets)
    except BaseException:
        setting.cancelled.set()  # Ctrl-C: the workers are ended now, not at their time limit
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _reading(target: Target, run: TargetRun, found: bool) -> TargetReading:
    """The target with what its plan found out, where there is one."""
    if run.plan is None:
        return TargetReading(target, found=found)
    plan = run.plan
    learnt = replace(
        target,
        contract=Contract(plan["contract"]),
        takes=Takes(plan["feed"]["takes"]),
        setup=plan["feed"]["setup"] or target.setup,
    )
    roles = {role: entry["path"] for role, entry in plan["roles"].items()}
    return TargetReading(learnt, roles, plan["answer_kind"], found)


def _environment(label: str, opened: OpenCheckout, setting: Setting, runs: Sequence[TargetRun]) -> Environment:
    sessions = [run.session for run in runs if run.session is not None]
    session = next((each for each in sessions if each.hello is not None), None)
    said: Mapping[str, object] = (session.hello if session is not None else None) or {}
    devices = {result.device for run in runs for result in run.results if result.measurements}
    device = "cuda" if "cuda" in devices else "cpu"
    if devices == {"simulated"}:
        device = "simulated"
    return Environment(
        checkout=label,
        # The bundled specimen is part of auditkit: its version says which one it is.
        revision="" if label == BUNDLED else opened.revision,
        dirty=label != BUNDLED and opened.dirty,
        python=str(said.get("python", "")),
        torch=str(said.get("torch", "")),
        device=device,
        device_name=(session.device_name if session is not None else "") or _processor_name(),
        interpreter=setting.interpreter,
        platform=str(said.get("platform", "")),
        auditkit=auditkit.__version__,
    )


def _processor_name() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return "CPU"


def run_id() -> str:
    """A name for a run: when it began, and something that no other run of that second has."""
    now = datetime.datetime.now(datetime.UTC)
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
