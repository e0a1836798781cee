"""From a plan to its jobs: every revision of every checkout, in every environment, on every device."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from auditkit.config.yaml_reader import YamlFile
from auditkit.model.enums import DeviceChoice
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.catalog import load_catalog, select
from auditkit.sweep.jobs import EnvironmentSpec, Job, Resources
from auditkit.sweep.preparation import URL, resolve, short_name

_IDLE_WORKER_MB = 700
"""A worker that runs no probe yet: torch, and what the target imports."""
_HOST_MB = 200


@dataclass(frozen=True)
class Checkout:
    """A repository, a `path` or a `url`, and the revisions to check, none for the newest commit."""

    path: str = ""
    url: str = ""
    name: Annotated[str, Meta(pattern=r"^([\w+-][\w.+ -]*)?$")] = ""  # of a folder, too
    revisions: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    config: str = ""

    @property
    def repository(self) -> str:
        return self.url or self.path


@dataclass(frozen=True)
class Plan:
    """Checkouts, each crossed with every torch and Python, every interpreter and every device.

    `time_limit` is seconds for a job.
    """

    checkouts: Annotated[tuple[Checkout, ...], Meta(min_length=1)]
    torch: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()
    devices: tuple[DeviceChoice, ...] = (DeviceChoice.AUTO,)
    probes: tuple[str, ...] = ()
    torch_index: str = ""
    time_limit: float = 3600.0


def read_plan_file(path: Path) -> Plan:
    """Read a plan's YAML. Raises BadInputError as `file:line:column: message` with the line and a hint."""
    file = YamlFile(path, "docs/sweep.md shows one", as_text=True)
    folder = Path(os.path.abspath(path)).parent
    listed = file.value.get("checkouts") if isinstance(file.value, dict) else None
    if isinstance(listed, list):  # a text is a checkout, too
        file.value["checkouts"] = [{"path": each} if isinstance(each, str) else each for each in listed]
    plan = file.convert(Plan, "plan")
    checkouts: dict[str, Checkout] = {}
    for number, one in enumerate(plan.checkouts):
        if bool(one.path) == bool(one.url):
            hint = "path: ../trainer"
            raise file.error(f"$.checkouts[{number}]", "a checkout has a path or a url, and not both", hint)
        found = checkout_of(one.repository, folder)
        name, config = one.name or found.name, _absolute(one.config, folder) if one.config else ""
        if name in checkouts:
            hint = "give it a name: of its own; revisions: lists several of one checkout"
            raise file.error(f"$.checkouts[{number}]", f"a second checkout is called {name}", hint)
        revisions = one.revisions or found.revisions
        checkouts[name] = Checkout(found.path, found.url, name, revisions, one.requirements, config)
    interpreters = tuple(_absolute(each, folder) for each in plan.interpreters)
    return replace(plan, checkouts=tuple(checkouts.values()), interpreters=interpreters)


def checkout_of(text: str, folder: Path = Path()) -> Checkout:
    """Return the checkout of a URL or of a path from `folder`, with or without `@REVISION`. Raises BadInputError."""
    if found := URL.fullmatch(text):
        url, revision = found.groups()
        return Checkout("", url, short_name(url), (revision,) if revision else ())
    spec = parse_checkout(_absolute(text, folder))
    place = str(spec.directory)
    return Checkout(place, "", short_name(place), (spec.revision,) if spec.revision else ())


def _absolute(path: str, folder: Path) -> str:
    return os.path.abspath(folder / Path(path).expanduser())


def jobs_of(plan: Plan) -> Iterator[Job]:
    """Yield the jobs of a plan in their order: checkouts, revisions, environments, devices.

    Every revision becomes the full commit that it names now. Raises BadInputError for a missing revision or probe.
    """
    catalog = load_catalog()
    probes = tuple(probe.id for probe in select(catalog, plan.probes)) if plan.probes else ()
    # The probe that needs most, a second worker, and the process that reads both.
    most = max([_IDLE_WORKER_MB, *(one.memory_mb for one in select(catalog, probes, False))])
    memory_mb = most + _IDLE_WORKER_MB + _HOST_MB
    for checkout in plan.checkouts:
        environments = _environments(plan, checkout)
        for revision in checkout.revisions or ("",):
            commit = resolve(checkout.repository, revision)
            suffix = f"@{revision[:12] if revision == commit else revision}" if len(checkout.revisions) > 1 else ""
            for environment, device in product(environments, dict.fromkeys(plan.devices)):
                resources = Resources(memory_mb, int(device is DeviceChoice.CUDA), plan.time_limit)
                yield Job(
                    "", f"{checkout.name}{suffix}", checkout.repository, commit, probes, environment, device,
                    resources, checkout.config,
                )  # fmt: skip


def _environments(plan: Plan, checkout: Checkout) -> Sequence[EnvironmentSpec]:
    """Return existing interpreters, then those that auditkit makes; the checkout's own if the plan names neither."""
    existing = [EnvironmentSpec(interpreter=path) for path in dict.fromkeys(plan.interpreters)]
    made = [
        EnvironmentSpec(python=python, torch=torch, requirements=checkout.requirements, index=plan.torch_index)
        for torch, python in product(dict.fromkeys(plan.torch) or ("",), dict.fromkeys(plan.pythons) or ("",))
        if torch or python
    ]
    return [*existing, *made] or [EnvironmentSpec()]
