"""Probes about named targets in one open checkout, with nothing filed: what several jobs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from auditkit.model.enums import DeviceChoice
from auditkit.model.probe import ProbeInfo
from auditkit.model.run import Run
from auditkit.model.target import Target
from auditkit.probing.checkout import OpenCheckout, choose_interpreter, import_roots
from auditkit.probing.results import DEFAULT_TIME_LIMIT_S, Setting
from auditkit.store.config import Config
from auditkit.workflows.measuring import Progress, Questions, measure


@dataclass(frozen=True)
class Manner:
    """How probes are run: with which configuration, interpreter (None: the checkout's own), device and limit.

    `named` says that these probes were asked for by name, and not as part of all.
    """

    config: Config = field(default_factory=Config)
    python: str | None = None
    device: DeviceChoice = DeviceChoice.AUTO
    time_limit_s: float = DEFAULT_TIME_LIMIT_S
    named: bool = True


def make_setting(manner: Manner, opened: OpenCheckout, probes: Sequence[ProbeInfo]) -> Setting:
    """Where `probes` run in `opened`. Raises BadInputError for an interpreter or import root that is not there."""
    interpreter, _ = choose_interpreter(opened.source, manner.python or manner.config.python)
    policy = manner.config.policy
    return Setting(
        checkout=opened.path,
        interpreter=str(interpreter),
        import_roots=import_roots(opened.path, manner.config.import_roots),
        device=manner.device,
        time_limit_s=manner.time_limit_s,
        options={"asked_by_name": manner.named},
        policy={probe.id: {name: policy[name] for name in policy if name in probe.policy} for probe in probes},
    )


def ask(
    manner: Manner,
    opened: OpenCheckout,
    targets: Sequence[Target],
    probes: Sequence[ProbeInfo],
    progress: Progress | None = None,
    label: str | None = None,
) -> Run:
    """Every one of `probes` (of scope `target`) about every one of `targets`, judged, with no tickets.

    `label` stands for the checkout in the run, `opened.label` without one. A target that cannot be loaded is
    an `error` result. Raises BadInputError as `make_setting` does.
    """
    asked = [probe for probe in probes if probe.scope == "target"]
    questions = Questions(targets, asked, manner.config.severity, label or opened.label, found=False)
    return measure(questions, opened, make_setting(manner, opened, asked), progress or Progress())
