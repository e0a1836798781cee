"""From what a plan says to its jobs: every revision of every checkout, in every environment, on every device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.enums import DeviceChoice
from auditkit.model.runs.probe import ProbeInfo
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.sweep.jobs import EnvironmentSpec, Job, Resources, Settings
from auditkit.sweep.plan_file import Checkout, PlanFile
from auditkit.sweep.repositories import resolve

# One that runs no probe yet: torch, and what the target imports.
_IDLE_WORKER_MB = 700
_HOST_MB = 200
_GITHUB_MOST = 256
_SHORT = 12


def jobs_of(plan: PlanFile, clones: Path | None = None) -> Iterator[Job]:
    """The jobs of a plan in their order: checkouts, revisions, environments, devices.

    Every revision becomes the full commit that it names now; `clones` are folders that stand for URLs. Raises
    BadInputError for a revision or a probe that is not there, with the place in the plan that names it.
    """
    catalog = load_catalog()
    probes = tuple(probe.id for probe in select(catalog, plan.probes)) if plan.probes else ()
    memory_mb = plan.memory_mb if plan.memory_mb is not None else _memory_mb(plan, probes, catalog)
    for checkout in plan.checkouts:
        environments = _environments(plan, checkout)
        settings = Settings(
            plan.probe_time_limit, (*plan.exclude, *checkout.exclude), checkout.config, checkout.targets, plan.style
        )
        for revision in checkout.revisions or ("",):
            commit = _commit(checkout, revision, clones)
            suffix = f"@{revision[:_SHORT] if revision == commit else revision}" if len(checkout.revisions) > 1 else ""
            blank = Job(
                "-", f"{checkout.name}{suffix}", checkout.repository, commit, revision, probes,
                EnvironmentSpec(), DeviceChoice.AUTO, Resources(memory_mb), settings,
            )  # fmt: skip
            for environment, device in product(environments, dict.fromkeys(plan.devices)):
                if not _is_left_out(plan, checkout, revision, environment, device):
                    gpus = int(device is DeviceChoice.CUDA)
                    resources = Resources(memory_mb, gpus, time_s=plan.time_limit)
                    yield replace(blank, key="", environment=environment, device=device, resources=resources)


def _commit(checkout: Checkout, revision: str, clones: Path | None) -> str:
    try:
        return resolve(checkout.repository, revision, clones)
    except BadInputError as error:
        place = f"{checkout.place}: " if checkout.place else ""
        raise BadInputError(f"{place}{error.message}", error.hint) from None


def _environments(plan: PlanFile, checkout: Checkout) -> Sequence[EnvironmentSpec]:
    """Interpreters that are there, then those that are made; the checkout's own where neither is named."""
    requirements = checkout.requirements if checkout.requirements is not None else plan.requirements
    there = [EnvironmentSpec(interpreter=path) for path in dict.fromkeys(plan.interpreters)]
    versions = product(plan.torch or ("",), plan.pythons or ("",))
    made = [
        EnvironmentSpec(python=python, torch=torch, requirements=requirements, index=plan.torch_index)
        for torch, python in versions
        if torch or python
    ]
    return [*there, *made] or [EnvironmentSpec()]


def _is_left_out(
    plan: PlanFile, checkout: Checkout, revision: str, environment: EnvironmentSpec, device: DeviceChoice
) -> bool:
    said = {
        "checkout": checkout.name,
        "revision": revision,
        "torch": environment.torch,
        "python": environment.python,
        "interpreter": environment.interpreter,
        "device": device.value,
    }
    return any(all(said[key] == value for key, value in words) for words in plan.without)


def _memory_mb(plan: PlanFile, probes: Sequence[str], catalog: dict[str, ProbeInfo]) -> int:
    """What a job holds at most: the probe that needs most beside a second worker and the process that reads both."""
    asked = select(catalog, probes, plan.style)
    return max([_IDLE_WORKER_MB, *(one.memory_mb for one in asked)]) + _IDLE_WORKER_MB + _HOST_MB


def github_matrix(jobs: Sequence[Job]) -> dict[str, Any]:
    """The jobs for `strategy: matrix:` of a GitHub workflow: `key` for `sweep run --only`, `name` for people.

    Raises BadInputError where they are more than GitHub runs of one matrix.
    """
    if len(jobs) > _GITHUB_MOST:
        said = f"GitHub runs at most {_GITHUB_MOST} jobs of one matrix, and these are {len(jobs):,}"
        raise BadInputError(said, "plan fewer, or run the plan on an engine: auditkit sweep run PLAN --engine slurm")
    return {"include": [{"key": job.key, "name": describe(job)} for job in jobs]}


def describe(job: Job) -> str:
    """`nanoGPT, torch 2.9, cpu`."""
    return f"{job.name}, {job.environment.label}, {job.device.value}"
