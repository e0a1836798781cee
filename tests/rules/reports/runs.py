"""Runs and module pages of our own invention, for the tests of audit reports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from auditkit.model.enums import Contract, Evidence, Outcome, Reason, Severity
from auditkit.model.module_page import (
    Flow,
    FlowStep,
    Importer,
    ImporterKind,
    Mention,
    ModulePage,
    NameUse,
    Share,
    Way,
)
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.run import Environment, ProbeResult, Run, TargetReading, fingerprint
from auditkit.model.runs.target import Target
from auditkit.probing.hosts.catalog import load_catalog

PROBES = load_catalog()
COLLECT, FINISH = "train.norms:total_norm", "train.norms:materialize"
OVERFLOW, SYNCS, LAUNCHES = "norm_overflows_on_finite_grads", "syncs_grow_with_tensors", "launches_grow_with_tensors"
MEMORY, GRAPH, CAPTURE = "peak_memory_grows_with_params", "graph_breaks_under_compile", "breaks_cuda_graph_capture"
UNUSED, CLIP = "public_function_unused", "clip_destroys_gradients"
STATEMENT = Statement("src/train/norms.py", 10, 10)
ENVIRONMENT = Environment(
    checkout="../trainer", revision="a" * 40, dirty=False, python="3.11.7", torch="2.13.0", device="cpu",
    device_name="A CPU", auditkit="0.1.0",
)  # fmt: skip


def found(probe: str, severity: Severity, target: str = COLLECT, **others: Any) -> ProbeResult:
    """A finding of `probe` at line 10."""
    fields: dict[str, Any] = {
        "severity": severity,
        "evidence": Evidence.MEASURED,
        "device": "cpu",
        "location": Location("src/train/norms.py", 10, "total_norm"),
        "excerpt": CodeExcerpt("src/train/norms.py", 10, ("norms = [g.norm().item() for g in grads]",)),
        "statement": STATEMENT,
        "measurements": (
            Measurement("count", 7, "count", {"tensors": 4, "device": "cpu"}),
            Measurement("count", 19, "count", {"tensors": 16, "device": "cpu"}),
        ),
    }
    return said(probe, Outcome.REPRODUCED, target, **(fields | others))


def said(probe: str, outcome: Outcome, target: str = COLLECT, **others: Any) -> ProbeResult:
    """What `probe` said of `target`."""
    message = others.pop("message", f"{probe} says so")
    return ProbeResult(probe, 1, target, outcome, message, fingerprint(probe, target), **others)


def make_run(*results: ProbeResult, **others: Any) -> Run:
    target = Target(COLLECT, contract=Contract.GRAD_NORM, finish=FINISH)
    environment = others.pop("environment", ENVIRONMENT)
    return Run("20260304T101112Z-abc", environment, results, (TargetReading(target),), **others)


RUN = make_run(
    found(OVERFLOW, Severity.P1),
    found(SYNCS, Severity.P1, device="simulated", evidence=Evidence.SIMULATED, law="n+3"),
    found(MEMORY, Severity.P2, statement=replace(STATEMENT, first=12, last=12)),
    said(GRAPH, Outcome.NOT_REPRODUCED, evidence=Evidence.MEASURED, device="cpu", message="1 graph"),
    said(CLIP, Outcome.NOT_APPLICABLE, device="cpu", message="it does not clip"),
    said(CAPTURE, Outcome.UNAVAILABLE, device="cuda", reason=Reason.NO_DEVICE, message="there is no CUDA device"),
    said(LAUNCHES, Outcome.ERROR, device="cpu", reason=Reason.CRASH, message="ended by signal 11"),
    said(UNUSED, Outcome.NOT_REPRODUCED, "train", evidence=Evidence.MEASURED, device="source"),
)
"""Two findings at one statement, one at another, and every other outcome."""


def make_page(**others: Any) -> ModulePage:
    uses = (NameUse("total_norm", (Mention(Way.CALLED, "step", 5),)),)
    fields: dict[str, Any] = {
        "file": "src/train/norms.py",
        "name": "train.norms",
        "purpose": "Norms of gradients.",
        "lines": 40,
        "functions": 3,
        "classes": 1,
        "annotated": Share(3, ()),
        "documented": Share(3, ("total_norm",)),
        "compiles": (),
        "importers": (
            Importer("src/train/__init__.py", ImporterKind.PACKAGE, (NameUse("total_norm", ()),)),
            Importer("src/train/loop.py", ImporterKind.CODE, uses),
            Importer("tests/test_norms.py", ImporterKind.TEST, uses, tests=4, is_property_based=True),
        ),
        "flows": (
            Flow(
                "src/train/loop.py",
                "step",
                ("src/train/cli.py:main",),
                (FlowStep("total_norm()", 5), FlowStep("torch.cuda.synchronize()", 6, "wait")),
            ),
        ),
    }
    return ModulePage(**(fields | others))
