"""A fix keeps the types that callers have: of what is returned, and of what other ranks reduce with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.config.config import Config
from auditkit.model.runs.run import Finding, Run
from auditkit.model.runs.target import Target
from auditkit.probing.checkout.checkout import parse_checkout
from auditkit.probing.engine.catalog import load_catalog
from auditkit.probing.fix.rewrites.rewrite import Rewrite
from auditkit.probing.run.measurement import ask
from auditkit.probing.run.run_options import RunOptions
from auditkit.trials.bench import Bench
from auditkit.trials.fix_search import Found, Search
from auditkit.trials.fix_trials import Scene
from tests.probing.fix.rewrites.places import of_lines
from tests.probing_helpers import OVERFLOW

pytestmark = pytest.mark.process

REDUCED = """import torch
import torch.distributed as dist


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.zeros(()) if not grads else torch.stack([g.norm() for g in grads]).norm() ** 2
    dtype = grads[0].dtype if grads else torch.float32
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(total)
    return total.sqrt()
"""
SUM, RETURN = (REDUCED.split("\n").index(line) + 1 for line in REDUCED.split("\n") if "stack" in line or "sqrt" in line)
EMPTY, FULL = "torch.zeros(())", "torch.stack([g.norm() for g in grads])"
WIDE_EMPTY, WIDE_FULL = "torch.zeros((), dtype=torch.float64)", "torch.stack([g.double().norm() for g in grads])"
CAST = "    return total.sqrt().to(torch.promote_types(dtype, torch.float32))"


def rewrite(total: str, returned: str) -> Rewrite:
    return of_lines({SUM: total, RETURN: returned}, OVERFLOW)


def wide(line: str) -> str:
    return line.replace(FULL, WIDE_FULL)


OF_LINE, RETURNED = REDUCED.split("\n")[SUM - 1], REDUCED.split("\n")[RETURN - 1]
WIDENS = rewrite(wide(OF_LINE).replace(EMPTY, WIDE_EMPTY), RETURNED)
ABORTS = rewrite(wide(OF_LINE), CAST)
KEEPS = rewrite(wide(OF_LINE).replace(EMPTY, WIDE_EMPTY), CAST)


class Reduced:
    """A checkout with a norm that ranks add up, and its overflow."""

    def __init__(self, folder: Path) -> None:
        (folder / "norms.py").write_text(REDUCED, "utf-8")
        self.spec, self.options = parse_checkout(str(folder)), RunOptions(Config(), sys.executable, time_limit_s=60.0)
        self.probes = [load_catalog()[OVERFLOW]]
        with self.options.open(self.spec) as opened:
            self.run: Run = ask(self.options, opened, [Target("norms:grad_norm")], self.probes)
        (result,) = self.run.results
        target = self.run.targets[0].target
        self.finding = Finding(self.probes[0], result, self.run.environment, self.run.id, target)

    def search(self, *rewrites: Rewrite) -> Found:
        with self.options.open(self.spec) as opened, Bench.open(self.spec, sys.executable) as bench:
            scene = Scene(self.spec, opened, {"": self.options}, self.probes)
            search = Search(scene, self.run, [bench], 120.0, rewrites=lambda *_: list(rewrites))
            return search.fixes_of([[self.finding]])


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Reduced:
    return Reduced(tmp_path_factory.mktemp("reduced"))


def test_a_change_of_the_returned_dtype_is_no_fix(reduced: Reduced) -> None:
    found = reduced.search(WIDENS)
    assert found.fixes == ()
    (why,) = found.no_fix.values()
    assert why.endswith("type of the result of dtype float32, seed 0, device cpu: "
                        "float32 tensor on cpu -> float64 tensor on cpu")  # fmt: skip


def test_a_change_that_aborts_a_rank_without_gradients_is_no_fix(reduced: Reduced) -> None:
    """Each rank alone returns what it did; together they reduce 8 bytes with 4."""
    (fix,) = reduced.search(ABORTS, KEEPS).fixes
    assert WIDE_EMPTY in fix.difference
    assert CAST in fix.difference
