"""One probe on one function of a test, in this process: the same code as in a worker, without its start."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from auditkit.model.enums import Contract, DeviceChoice
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.severity import Occurs, meant, severity_of
from auditkit.model.runs.target import Target
from auditkit.probing.engine.catalog import load_catalog, load_module
from auditkit.probing.engine.runner import device_for
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import NotApplicable, TargetRaised
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from auditkit.worker.serve.loading import load, owner_class
from auditkit.worker.steps import search as step_search
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

    @property
    def said(self) -> str:
        """The outcome, and the severity of a finding: `reproduced P3`."""
        return f"{self.outcome} {self.severity or ''}".strip()

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
    return ask_caller(
        probe_id, Caller(function, owner, function.__name__ if owner else "", dict(arguments)), policy, roots
    )


def ask_caller(probe_id: str, caller: Caller, policy: Mapping[str, Any] = {}, roots: SourceRoots = ROOTS) -> Answer:
    """`probe_id` on a target that is bound already, for example with the step that finishes its result."""
    return _ask(CATALOG[probe_id], Context(find_plan(caller, {}), caller, "cpu", roots, {}), policy)


def ask_all(target: Target | str, probes: Sequence[str], folder: Path) -> dict[str, Answer]:
    """Each of `probes` on one target of the checkout `folder`, on the device that `auto` means without a GPU."""
    target = target if isinstance(target, Target) else Target(target)
    with _imports_from(folder):
        caller, roots, answers = _caller_of(target, folder), SourceRoots(str(folder)), {}
        is_step = target.contract is Contract.TRAIN_STEP
        plan = step_search.find_plan(caller, {}, roots) if is_step else find_plan(caller, {})
        for probe in (CATALOG[probe_id] for probe_id in probes):
            answers[probe.id] = Answer("not_applicable", "another contract", None, [], [], None)
            if plan.contract in probe.contracts:
                device = device_for(probe, DeviceChoice.AUTO)
                answers[probe.id] = _ask(probe, Context(plan, caller, device, roots, SMALL_MEMORY), {})
    return answers


@contextlib.contextmanager
def _imports_from(checkout: Path) -> Iterator[None]:
    """Checkouts have modules of one name: what is imported from this one is forgotten at the end."""
    before = set(sys.modules)
    sys.path.insert(0, str(checkout))
    try:
        yield
    finally:
        sys.path.remove(str(checkout))
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{checkout}/"):
                del sys.modules[name]


def _caller_of(target: Target, folder: Path) -> Caller:
    function, (owner, method) = load(target.call, [str(folder)]), owner_class(target.call)
    finish = load(target.finish, [str(folder)]) if target.finish else None
    return Caller(function, owner, method, dict(target.arguments), finish)


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
    return Answer(said["outcome"], said["message"], _severity(probe, said, context.plan.clips), rows, notes, line)


def _severity(probe: ProbeInfo, said: Mapping[str, Any], clips: bool) -> str | None:
    if said["outcome"] != "reproduced":
        return None
    occurs = said.get("occurs", probe.occurs)
    words = map(Occurs, occurs.values() if isinstance(occurs, dict) else [occurs])
    return min(severity_of(meant(said.get("breaks", probe.breaks), clips), word) for word in words).value
