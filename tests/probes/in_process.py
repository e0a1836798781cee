"""One probe on one function of a test, in this process: the same code as in a worker, without its start."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from auditkit.model.enums import Contract, DeviceChoice
from auditkit.model.runs.probe import Policy, ProbeInfo
from auditkit.model.runs.severity import Occurs, meant, severity_of
from auditkit.model.runs.target import Target
from auditkit.probing.hosts.catalog import load_catalog, load_module
from auditkit.probing.hosts.results import Asked, TargetRun, make_result
from auditkit.probing.hosts.runner import device_for
from auditkit.probing.hosts.session import Job
from auditkit.probing.worker.base.frames import SourceRoots
from auditkit.probing.worker.base.refusals import NotApplicable, TargetRaised
from auditkit.probing.worker.context.context import Context
from auditkit.probing.worker.feeding.caller import Caller
from auditkit.probing.worker.feeding.search import find_plan
from auditkit.probing.worker.process.jsonlines import Reader, Writer, new_token
from auditkit.probing.worker.process.loading import load, owner_class
from auditkit.probing.worker.steps import search as step_search
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
    return ask_caller(
        probe_id, Caller(function, owner, function.__name__ if owner else "", dict(arguments)), policy, roots
    )


def ask_caller(probe_id: str, caller: Caller, policy: Mapping[str, Any] = {}, roots: SourceRoots = ROOTS) -> Answer:
    """`probe_id` on a target that is bound already, for example with the step that finishes its answer."""
    return _ask(CATALOG[probe_id], Context(find_plan(caller, {}), caller, "cpu", roots, {}), policy)


def ask_all(target: Target, probes: Sequence[str], folder: Path) -> dict[str, Answer]:
    """Each of `probes` on one target of the checkout `folder`, on the device that `auto` means without a GPU."""
    caller = _caller_of(target, folder)
    roots = SourceRoots(str(folder))
    plan = step_search.find_plan(caller, {}, roots) if _is_step(target) else find_plan(caller, {})
    answers = {}
    for probe in (CATALOG[probe_id] for probe_id in probes):
        if plan.contract not in probe.contracts:
            answers[probe.id] = Answer("not_applicable", "another contract", None, [], [], None)
            continue
        device = device_for(probe, DeviceChoice.AUTO)
        answers[probe.id] = _ask(probe, Context(plan, caller, device, roots, SMALL_MEMORY), {})
    return answers


def _is_step(target: Target) -> bool:
    return target.contract is Contract.TRAIN_STEP


def run_here(checkout: Path, target: Target | str, probes: Sequence[str]) -> TargetRun:
    """The results of `probing_helpers.run_probes`, without a worker: what it sends, and what the host makes of it."""
    named = target if isinstance(target, Target) else Target(target)
    with _imports_from(checkout):
        caller = _caller_of(named, checkout)
        plan = find_plan(caller, named.to_json())
        run = TargetRun(plan=plan.to_json())
        for probe in (CATALOG[probe_id] for probe_id in probes):
            device = device_for(probe, DeviceChoice.AUTO)
            job = Job(probe.id)
            if plan.contract in probe.contracts:
                context = Context(plan, caller, device, SourceRoots(str(checkout)), SMALL_MEMORY)
                for message in _received(_messages(probe, context)):
                    job.take(message)
            run.results.append(make_result(Asked(probe, named.call, device, Policy()), job, run, checkout))
    return run


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


def _messages(probe: ProbeInfo, context: Context) -> Iterator[dict[str, Any]]:
    """What the worker sends of one probe."""
    try:
        yield from load_module(probe).measure(context)
    except NotApplicable as reason:
        yield {"type": "not_applicable", "message": str(reason)}
    except TargetRaised as error:
        yield context.location(error.site)
        yield {"type": "failed", "reason": "exception", "message": f"the target raises {error}"}


def _received(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages as the host reads them, with infinities and NaN as words."""
    with tempfile.TemporaryFile() as file:
        token = new_token()
        for message in messages:
            Writer(file.fileno(), token).send(message)
        file.seek(0)
        return Reader(token).feed(file.read())


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
    occurs = Occurs(said["occurs"]) if "occurs" in said else probe.occurs
    assert occurs is not None
    return severity_of(meant(said.get("breaks", probe.breaks), clips), occurs).value
