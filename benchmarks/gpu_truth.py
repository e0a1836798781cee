"""Truth: what simulation counts and the CPU answers, against what the device does.

Synchronisations and launches are counted simulated and measured, with their lines, on every subject; the numeric
probes are asked on the CPU and on the device; the bundled audit and the tests for a GPU run on the device.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from auditkit.probing.engine.catalog import load_catalog, load_module
from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.base.refusals import NotApplicable, TargetRaised
from auditkit.worker.context.context import Context
from auditkit.worker.measure import selfcheck
from auditkit.worker.measure.syncs import Count, count_launches, count_syncs
from auditkit.worker.simulated.tensor import to_simulated
from benchmarks.gpu_machine import ROOT, Machine
from benchmarks.gpu_rows import Document, Row
from benchmarks.gpu_subjects import SPECIMEN, SPECTRAL, Subject, ours, specimens, tricky
from tests.probing_helpers import COUNTS, HEALTH, MIXED_DTYPES, OVERFLOW, UNDERFLOW
from tests.worker import test_traffic_instruments as toys
from tests.worker import test_traps as traps

CATALOG = load_catalog()
TOYS = [*toys.HAND_COUNTED, ("a copy to the host (trap 7)", lambda t: traps.collect_on_the_host([t]), 1)]
REJECTS = "svd_rejects_low_precision"
NUMERICS = (OVERFLOW, UNDERFLOW, HEALTH, COUNTS, MIXED_DTYPES)
INSTRUMENTS = ("syncs", "launches", "memory", "mutation", "transfers")
TENSORS = (3, 40)
ELEMENTS = 64
LAUNCHES_PER_TENSOR = 0.1
"""Above this slope launches grow: CUDA packs about a hundred tensors into one foreach launch."""
GPU_TESTS = (
    "test_collectors_gpu.py",
    "test_spectral_gpu.py",
    "test_device_probes.py",
    "test_spectral_probes_gpu.py",
    "test_simulation_matches_device.py",
)
"""Most valuable first; the last asks again, through workers, what the rows of this part ask in one process."""
_TEST_LINE = re.compile(r"::(\S.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL)\b")
_COLLECTED = re.compile(r"(\d+)(?:/\d+)? tests? collected")


def rows(machine: Machine) -> list[Row]:
    """Every row of this part, the most valuable first."""
    files = [list(GPU_TESTS)] if machine.is_preflight else [[name] for name in GPU_TESTS]
    tests = [Row(f"pytest {' '.join(names)}", lambda names=names: _pytest(machine, names), 150) for names in files]
    named, more = machine.some([*specimens()]), machine.some([*ours(), *tricky()])
    judged = machine.some([*ours(), *named])
    return [
        *(Row(f"instrument {name}", lambda name=name: _reads_its_toy(machine, name)) for name in INSTRUMENTS),
        *(Row(f"toy {toy[0]}", lambda toy=toy: _toy(machine, *toy[1:])) for toy in TOYS),
        *(
            Row(f"toy launches of {function.__name__}", lambda f=function, n=expected: _toy_launches(machine, f, n))
            for function, expected in ((toys.pow_sum_add, 3 * ELEMENTS + 1), (toys.foreach_stack, 5))
        ),
        *(Row(f"traffic {each.name}", lambda each=each: traffic(machine, each)) for each in named),
        tests[0],
        *(Row(f"traffic {each.name}", lambda each=each: traffic(machine, each)) for each in more),
        *(Row(f"outcomes {each.name}", lambda each=each: outcomes(machine, each)) for each in judged),
        Row("audit of the bundled specimen", lambda: _audit(machine, SPECIMEN, "squared-sum-norm", OVERFLOW), 200),
        Row("audit of the spectral specimen", lambda: _audit(machine, SPECTRAL, "host-svds", REJECTS), 120),
        *tests[1:],
    ]


# --- instruments and toys ----------------------------------------------------------------------------------


def _reads_its_toy(machine: Machine, instrument: str) -> Document:
    """An instrument that does not read its toy raises, and is a row with that error."""
    device = "simulated" if machine.is_preflight else machine.device
    selfcheck.check(instrument, device, SourceRoots(str(ROOT)))
    return {"agrees": True}


def _toy(machine: Machine, function: Callable[[torch.Tensor], Any], expected: int) -> Document:
    """Synchronisations of a toy that was counted by hand."""
    values = torch.tensor([1.0, 2.0, 3.0])
    on_device, simulated = values.to(machine.device), to_simulated(values)
    function(on_device)
    measured = count_syncs(lambda: function(on_device), machine.device, toys.ROOTS).total
    pretended = count_syncs(lambda: function(simulated), "simulated", toys.ROOTS).total
    found = {"by hand": expected, "simulated": pretended, "measured": measured}
    return {**found, "agrees": len(set(found.values())) == 1}


def _toy_launches(machine: Machine, function: Callable[[list[torch.Tensor]], Any], expected: int) -> Document:
    grads = [torch.ones(8, device=machine.device) for _ in range(ELEMENTS)]
    function(grads)
    measured = count_launches(lambda: function(grads), machine.device, toys.ROOTS).total
    return {"by hand": expected, "measured": measured, "agrees": measured == expected}


# --- traffic -----------------------------------------------------------------------------------------------


def traffic(machine: Machine, subject: Subject) -> Document:
    """Synchronisations and launches, simulated and measured, with their lines, at two numbers of gradients."""
    contexts = subject.contexts(("simulated", machine.device))
    counters: dict[str, Callable[[Context, list[Any]], Count]] = {
        "syncs": lambda context, grads: context.syncs(grads),
        "launches": lambda context, grads: context.launches(grads),
    }
    if contexts["simulated"].has_finish:
        counters["syncs while collecting"] = lambda context, grads: context.syncs(grads, whole=False)
    cases = [
        {
            "what": what,
            "tensors": tensors,
            "simulated": _counted(contexts["simulated"], tensors, counter),
            "measured": _counted(contexts[machine.device], tensors, counter),
        }
        for what, counter in counters.items()
        for tensors in TENSORS
    ]
    return {"cases": cases, **agreement(cases)}


def _counted(context: Context, tensors: int, counter: Callable[[Context, list[Any]], Count]) -> Document:
    try:
        count = counter(context, context.gradients(tensors, ELEMENTS))
    except TargetRaised as error:
        return {"raises": str(error)}
    lines = Counter("elsewhere" if site is None else f"{site.file}:{site.line}" for site in count.sites)
    return {"count": count.total, "lines": dict(sorted(lines.items()))}


def agreement(cases: list[Document]) -> Document:
    """Whether counts and lines of synchronisations are the same, and whether launches grow in both or in neither."""
    syncs = [case for case in cases if case["what"] != "launches"]
    raised = any(("raises" in case["simulated"]) != ("raises" in case["measured"]) for case in cases)
    same = [case["simulated"].get("count") == case["measured"].get("count") for case in syncs]
    lines = [case["simulated"].get("lines") == case["measured"].get("lines") for case in syncs]
    grows = [_launches_grow(cases, kind) for kind in ("simulated", "measured")]
    return {
        "agrees": all(same) and not raised and grows[0] == grows[1],
        "lines_agree": all(lines),
        "launches_grow": {"simulated": grows[0], "measured": grows[1]},
    }


def _launches_grow(cases: list[Document], kind: str) -> bool:
    few, many = [case for case in cases if case["what"] == "launches"]
    growth = many[kind].get("count", 0) - few[kind].get("count", 0)
    return bool(growth / (many["tensors"] - few["tensors"]) > LAUNCHES_PER_TENSOR)


# --- outcomes ----------------------------------------------------------------------------------------------


def outcomes(machine: Machine, subject: Subject) -> Document:
    """What the numeric probes say on the CPU and on the device."""
    on_cpu, on_device = (
        {probe: _outcome(probe, subject.contexts((device,))[device]) for probe in NUMERICS}
        for device in ("cpu", machine.device)
    )
    differing = [probe for probe in NUMERICS if on_cpu[probe]["outcome"] != on_device[probe]["outcome"]]
    return {"CPU": on_cpu, "device": on_device, "differing": differing, "agrees": not differing}


def _outcome(probe_id: str, context: Context) -> Document:
    probe = CATALOG[probe_id]
    if context.plan.contract not in probe.contracts:
        return {"outcome": "not_applicable", "message": "another contract"}
    module = load_module(probe)
    try:
        messages = list(module.measure(context))
    except NotApplicable as reason:
        return {"outcome": "not_applicable", "message": str(reason)}
    except TargetRaised as error:
        return {"outcome": "raises", "message": str(error)}
    measured = [SimpleNamespace(**each) for each in messages if each["type"] == "measurement"]
    verdict = module.judge(measured, probe.policy)
    return {"outcome": verdict["outcome"], "message": verdict["message"]}


# --- commands ----------------------------------------------------------------------------------------------


def _audit(machine: Machine, checkout: Path, target: str, probe: str) -> Document:
    """`auditkit audit` of a specimen on the device; in preflight of one target and one probe."""
    words = ["auditkit", "audit", str(checkout), "--device", machine.device, "--no-tickets", "--json"]
    if machine.is_preflight:
        words += ["--target", target, "--probe", probe]
    with tempfile.TemporaryDirectory() as folder:
        ended = machine.run_module(words, Path(folder))
    if not ended.stdout.strip():
        raise RuntimeError(f"exit {ended.code}: {ended.stderr[-400:]}")
    document = json.loads(ended.stdout)
    kept = ("probe", "target", "outcome", "device", "evidence", "law", "message")
    results = [{key: result.get(key) for key in kept} for result in document["results"]]
    run = {key: document["run"][key] for key in ("torch", "python", "device", "device_name")}
    return {"exit": ended.code, "run": run, "summary": document["summary"], "results": results}


def _pytest(machine: Machine, names: list[str]) -> Document:
    """`pytest -m gpu` on some files; in preflight they are imported and their tests collected."""
    words = ["pytest", "-v", "-m", "gpu", "-p", "no:cacheprovider", "--color=no", "--tb=short", "-W", "default"]
    words += ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    words += [str(ROOT / "tests" / "gpu" / name) for name in names]
    with tempfile.TemporaryDirectory() as folder:
        ended = machine.run_module([*words, *(["--collect-only", "-q"] if machine.is_preflight else [])], Path(folder))
    tests = _TEST_LINE.findall(ended.stdout)
    collected = _COLLECTED.search(ended.stdout)
    found: Document = {"exit": ended.code, **Counter(said.lower() for _, said in tests)}
    found |= {"collected": int(collected[1])} if collected else {}
    if ended.code != 0:
        found["failed_tests"] = [name for name, said in tests if said in ("FAILED", "ERROR")]
        found["output_tail"] = (ended.stdout + ended.stderr)[-6000:].replace(str(ROOT), ".")
    return {**found, "agrees": ended.code == 0}
