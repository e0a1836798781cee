"""torch is imported once for each interpreter, a target once for all its probes: counted, not timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.model.enums import DeviceChoice, Outcome
from auditkit.model.runs.run import Run
from auditkit.model.runs.target import Target
from auditkit.probing.run.run_options import RunOptions
from tests.second_interpreter import make_interpreter

pytestmark = pytest.mark.process

PROBES = (
    "norm_overflows_on_finite_grads",
    "norm_underflows_to_zero",
    "nonfinite_grads_look_healthy",
    "syncs_grow_with_tensors",
    "launches_grow_with_tensors",
)

# A real `import torch` is an audit event of the interpreter; one that finds it loaded is none.
COUNTER = """
import os
import sys


def note(event, arguments):
    if event == "import" and arguments[0] == "torch":
        with open(LOG, "a", encoding="utf-8") as log:
            log.write("torch {}\\n".format(os.getpid()))


sys.addaudithook(note)
"""
STATS = """
import os

import torch

with open(LOG, "a", encoding="utf-8") as log:
    log.write("stats {}\\n".format(os.getpid()))


def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


def largest_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return max((g.double().norm().item() for g in grads), default=0.0)
"""


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An interpreter that notes what it imports, and the file in which it does: its server serves all tests."""
    folder = tmp_path_factory.mktemp("interpreter")
    log = folder / "imports.log"
    return make_interpreter(folder / "python", COUNTER.replace("LOG", repr(str(log)))), log


@pytest.fixture
def counted(interpreter: tuple[Path, Path]) -> tuple[Path, Path]:
    """The interpreter, and its file, empty."""
    interpreter[1].write_text("", encoding="utf-8")
    return interpreter


def options_of(python: Path) -> RunOptions:
    return RunOptions(python=str(python), device=DeviceChoice.CPU)


def run(tmp_path: Path, counted: tuple[Path, Path], functions: tuple[str, ...]) -> Run:
    python, log = counted
    checkout = tmp_path / "checkout"
    checkout.mkdir(exist_ok=True)
    text = STATS.replace("LOG", repr(str(log)))
    (checkout / "stats.py").write_text(text, encoding="utf-8")
    targets = tuple(Target(f"stats:{name}") for name in functions)
    request = AuditRequest(str(checkout), (options_of(python),), targets, PROBES)
    done = audit(request)
    assert len(done.results) == len(PROBES) * len(functions)
    assert Outcome.ERROR not in {result.outcome for result in done.results}
    return done


def imports(log: Path, name: str) -> list[str]:
    """The processes that imported the module `name`."""
    return [pid for module, pid in map(str.split, log.read_text("utf-8").splitlines()) if module == name]


def test_one_target_costs_two_imports_however_many_probes_run(tmp_path: Path, counted: tuple[Path, Path]) -> None:
    """Five probes in forks of two processes that imported the target side by side, and of one that imported torch."""
    _, log = counted
    run(tmp_path, counted, ("grad_norm",))
    assert len(imports(log, "torch")) <= 1  # none where the server of another test still runs
    assert len(imports(log, "stats")) == 2


def test_a_trial_shares_its_import_with_the_audit(tmp_path: Path, counted: tuple[Path, Path]) -> None:
    """Nobody names a target: both functions are found, tried and audited."""
    python, log = counted
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    text = STATS.replace("LOG", repr(str(log)))
    (checkout / "stats.py").write_text(text, encoding="utf-8")
    request = AuditRequest(str(checkout), (options_of(python),), (), PROBES)
    assert len(audit(request).targets) == 2
    assert len(imports(log, "stats")) == 2
