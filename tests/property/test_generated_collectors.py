"""500 random well-behaved collectors: none of the probes that look at their answers may reproduce.

A cheap probe takes 10 to 90 ms of CPU for a case, all sixteen 0.3 s: each case gets four of them by turns, so
each sees 125, 6 of them in the acceptance run (the others are marked `slow`). The expensive ones (0.4 to 5 s) see
only the first few cases: `SHARES` says how many. Probes that need a GPU and probes of the source are not asked; a probe
for memory, launches or reads is not asked of a case that pays for what the probe counts (`Case.costs`). Everything
runs in this process, on one thread.
"""
# ruff: noqa: F403, F405 - the names of probes

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from auditkit.worker.base.frames import SourceRoots
from auditkit.worker.context.context import Context
from auditkit.worker.feed.caller import Caller
from auditkit.worker.feed.search import find_plan
from tests.probes.in_process import CATALOG, _ask
from tests.probing_helpers import *
from tests.property.generated import Case, make_case

pytestmark = pytest.mark.acceptance

CASES = 500
# 0.1 s of processor time a case.
SHARE = 25
CHEAP = (
    *(TWO_DEVICES, MIXED_DTYPES, OFF_DEVICE, EMPTY, GENERATOR, MISSING, NONCONTIGUOUS, SPARSE),
    *(NO_ELEMENTS, MUTATES, HEALTH, OVERFLOW, UNDERFLOW, RATIO, CLIPPING, ASYNC),
)
SHARES = {COUNTS: 8, ACCURACY: 1, GROUPING: 1, SYNCS: 4, LAUNCHES: 4, MEMORY: 2, RETAINED: 1, GRAPHS: 1}
SIMULATED = (TWO_DEVICES, OFF_DEVICE, SYNCS, LAUNCHES, ASYNC)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def answers(case: Case, name: str, probes: list[str], folder: Path) -> dict[str, str]:
    """What probes say of a collector, which is a module of its own file, so that a failure can be run again."""
    path = folder / f"{name}.py"
    path.write_text(case.text)
    module = load_target(path)
    caller = Caller(module.collect, None, "", {}, getattr(module, "materialize", None))
    plan, roots, found = find_plan(caller, {}), SourceRoots(str(folder)), {}
    for probe in (probe for probe in probes if probe not in case.costs):
        device = "simulated" if probe in SIMULATED else "cpu"
        answer = _ask(CATALOG[probe], Context(plan, caller, device, roots, {"memory_sizes": [1_000_000]}), {})
        is_quiet = answer.outcome in ("not_reproduced", "not_applicable")
        found[probe] = answer.outcome if is_quiet else f"{answer.outcome}: {answer.message}"
    return found


def probes_for(number: int) -> list[str]:
    """Return every fourth cheap probe, from another one on for each case; the expensive ones for the first cases."""
    turn = list(CHEAP[number % 4 :: 4])
    return turn + [probe for probe, share in SHARES.items() if number < share]


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=pytest.mark.slow if n else []) for n in range(0, CASES, SHARE)]
)
def test_no_probe_reproduces_on_a_well_behaved_collector(first: int, tmp_path: Path) -> None:
    wrong: dict[str, dict[str, str]] = {}
    asked = 0
    for seed in range(first, first + SHARE):
        found = answers(make_case(seed), f"generated_{seed}", probes_for(seed), tmp_path)
        asked += len(found)
        bad = {probe: text for probe, text in found.items() if text not in ("not_reproduced", "not_applicable")}
        wrong.update({f"seed {seed}": bad} if bad else {})
    assert wrong == {}
    assert asked >= SHARE


@pytest.mark.parametrize(
    ("defect", "probe"),
    [
        ("float32 squares", OVERFLOW),
        ("NaN dropped", HEALTH),
        ("first device alone", TWO_DEVICES),
        ("first dtype alone", MIXED_DTYPES),
        ("sparse raises", SPARSE),
        ("scaled in place", MUTATES),
    ],
)
def test_the_same_generator_with_one_defect_is_caught(defect: str, probe: str, tmp_path: Path) -> None:
    """The control, on the first five cases that hold the defect's place and no early reading of another kind."""
    caught = 0
    for seed in range(40):
        case = make_case(seed, defect)
        if case.text == make_case(seed).text or "torch._foreach_norm(_stored(grads), 2" not in case.text:
            continue
        name = f"defective_{seed}"
        assert answers(case, name, [probe], tmp_path)[probe].startswith("reproduced"), case.text
        caught += 1
        if caught == 5:
            break
    assert caught >= 2
