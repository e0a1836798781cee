"""The collectors that the GPU is asked about: ours, the specimen's, those of the tests' checkouts, generated ones."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditkit.config.config import read_config
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.serve.loading import load, owner_class, use_import_roots
from benchmarks.gpu_machine import ROOT
from benchmarks.gpu_rows import Document
from tests.probing_helpers import TARGETS, load_target
from tests.property.generated import make_case
from tests.worker import test_traps as traps

SPECIMEN = ROOT / "probes" / "specimens" / "gradient_monitoring"
SPECTRAL = SPECIMEN.parent / "spectral_analysis"
COLLECTORS = ROOT / "auditkit" / "collectors"
CONFIGS = ("auditkit.yaml", "families.yaml")
# Not `misbehaving` and `limits`, which crash and hang, `ranks`, which need several, nor `watching` and `discovery`,
# which are there for how they are found and fed.
SMALL_CHECKOUTS = ("devices", "inputs", "layouts", "partial")
# Single operators, some for matrices alone or with answers of many numbers: tests count them without a plan.
WITHOUT_PLAN = ("waiting.py",)
GENERATED = 30
OURS = {
    "compute_total_norm": None,
    "collect_gradients": "PendingGradientStats.materialize",
    "collect_dual_gradients": "PendingDualGradientStats.materialize",
}


@dataclass(frozen=True)
class Subject:
    """A collector by name: what makes its caller, the folder whose lines are its own, and what is known of it."""

    name: str
    make_caller: Callable[[], Caller]
    folder: Path
    request: Document

    def contexts(self, devices: tuple[str, ...]) -> dict[str, Context]:
        """One context for each device, all fed by one plan."""
        caller, roots = self.make_caller(), SourceRoots(str(self.folder))
        plan = find_plan(caller, self.request)
        return {device: Context(plan, caller, device, roots, {}) for device in devices}


def ours() -> Iterator[Subject]:
    """Our own collectors, with ordinary operators on a device and in simulation."""
    for name, finish in OURS.items():
        yield _named(f"auditkit.collectors:{name}", COLLECTORS, finish and f"auditkit.collectors:{finish}")


def specimens() -> Iterator[Subject]:
    use_import_roots([str(SPECIMEN)])
    for config in CONFIGS:
        for target in read_config(SPECIMEN / config).targets:
            yield _named(target.call, SPECIMEN, target.finish, target.to_json())


def tricky() -> Iterator[Subject]:
    """What the tests ask beside specimens."""
    for folder in SMALL_CHECKOUTS:
        use_import_roots([str(TARGETS / folder)])
        for path in sorted(set((TARGETS / folder).glob("*.py")) - {TARGETS / folder / name for name in WITHOUT_PLAN}):
            module = load_target(path)
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if function.__module__ == module.__name__ and not name.startswith("_"):
                    yield Subject(f"{folder}/{path.stem}:{name}", _of_function(function), path.parent, {})
    for trap in (traps.histogram_of_a_copy, traps.reads_at_the_end, traps.reads_in_a_loop):
        yield Subject(f"traps:{trap.__name__}", _of_function(trap), Path(traps.__file__).parent, {})
    # Lines are read from their files until this process ends.
    folder_of_generated = Path(tempfile.mkdtemp(prefix="generated-"))
    for seed in range(GENERATED):
        path = folder_of_generated / f"generated_{seed}.py"
        path.write_text(make_case(seed).text, encoding="utf-8")
        module = load_target(path)
        caller = _of_function(module.collect, getattr(module, "materialize", None))
        yield Subject(f"generated:{seed}", caller, folder_of_generated, {})


def _named(call: str, folder: Path, finish: str | None, request: Document | None = None) -> Subject:
    def make_caller() -> Caller:
        function, (owner, method) = load(call, [str(folder)]), owner_class(call)
        return Caller(function, owner, method, {}, load(finish, [str(folder)]) if finish else None)

    return Subject(call, make_caller, folder, request or {})


def _of_function(function: Callable[..., Any], finish: Callable[..., Any] | None = None) -> Callable[[], Caller]:
    return lambda: Caller(function, None, "", {}, finish)
