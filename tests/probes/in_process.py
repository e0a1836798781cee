"""One probe on one function of a test, in this process: the same code as in a worker, without its start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from auditkit.model.enums import DeviceChoice
from auditkit.model.probe import ProbeInfo
from auditkit.model.target import Target
from auditkit.probing.catalog import load_catalog, load_module
from auditkit.probing.runner import device_for
from auditkit.probing.worker.context import Context, NotApplicable, TargetRaised
from auditkit.probing.worker.feeding import Caller
from auditkit.probing.worker.frames import SourceRoots
from auditkit.probing.worker.loading import load, owner_class
from auditkit.probing.worker.plan import find_plan
from tests.probing_helpers import SMALL_MEMORY

ROOTS = SourceRoots(str(Path(__file__).parent))
CATALOG = load_catalog()


class Answer(NamedTuple):
    """What the probe measured and said; `outcome` `not_applicable` has its reason as message."""

    outcome: str
    message: str
    severity: str | None
    rows: list[SimpleNamespace]
    notes: list[str]
    line: int | None

    def values(self, name: str, **case: Any) -> list[Any]:
        return [row.value for row in self.rows if row.name == name and case.items() <= row.case.items()]


def ask(
    probe_id: str,
    function: Callable,
    arguments: Mapping[str, Any] = {},
    owner: type | None = None,
    policy: Mapping[str, Any] = {},
    roots: SourceRoots = ROOTS,
) -> Answer:
    """`probe_id` on `function`, a method of `owner` if given; lines are looked for under `roots`."""
    caller = Caller(function, owner, function.__name__ if owner else "", dict(arguments))
    return _ask(CATALOG[probe_id], Context(find_plan(caller, {}), caller, "cpu", roots, {}), policy)


def ask_all(target: Target, probes: Sequence[str], folder: Path) -> dict[str, Answer]:
    """Each of `probes` on one target of the checkout `folder`, on the device that `auto` means without a GPU."""
    function, (owner, method) = load(target.call, [str(folder)]), owner_class(target.call)
    finish = load(target.finish, [str(folder)]) if target.finish else None
    caller = Caller(function, owner, method, dict(target.arguments), finish)
    plan, roots = find_plan(caller, {}), SourceRoots(str(folder))
    answers = {}
    for probe in (CATALOG[probe_id] for probe_id in probes):
        if plan.contract not in probe.contracts:
            answers[probe.id] = Answer("not_applicable", "another contract", None, [], [], None)
            continue
        device = device_for(probe, DeviceChoice.AUTO)
        answers[probe.id] = _ask(probe, Context(plan, caller, device, roots, SMALL_MEMORY), {})
    return answers


def _ask(probe: ProbeInfo, context: Context, policy: Mapping[str, Any]) -> Answer:
    try:
        reported = list(load_module(probe).measure(context))
    except NotApplicable as reason:
        return Answer("not_applicable", str(reason), None, [], [], None)
    except TargetRaised as error:
        return Answer("error", str(error), None, [], [], None)
    rows = [SimpleNamespace(**each) for each in reported if each["type"] == "measurement"]
    places = [each["location"] for each in reported if each["type"] == "location"]
    notes = [each["text"] for each in reported if each["type"] == "note"]
    said = load_module(probe).judge(rows, {**probe.policy, **policy})
    line = places[0]["line"] if places and places[0] else None
    return Answer(said["outcome"], said["message"], said.get("severity"), rows, notes, line)
