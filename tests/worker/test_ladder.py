"""Every way to load a target gives the same answers, and none leaves anything behind for the next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.model.enums import Outcome, Reason
from auditkit.model.runs.run import ProbeResult
from auditkit.probing.checkout.checkout import import_roots
from auditkit.probing.engine.results import TargetRun
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.engine.trials import Trial, try_candidates
from auditkit.probing.find.search import discover
from tests.probing_helpers import CACHED, HEALTH, MISSING, OVERFLOW, SYNCS, TARGETS, is_alive, run_probes
from tests.source_helpers import write

pytestmark = pytest.mark.process

NORM = "def norm(grads):\n    return torch.stack([grad.norm() for grad in grads]).norm().item()\n"
ABSENT = "a_module_nobody_has"


# --- every rung gives the same ------------------------------------------------------------------


def trials(checkout: Path, rung: str) -> list[Trial]:
    roots = tuple(import_roots(checkout, ()))
    setting = Setting(checkout, sys.executable, roots, rungs=(rung,))
    return try_candidates(discover(checkout, ()).candidates, setting)


def differences(checkout: Path) -> list[tuple[str, str]]:
    """The collectors that load as a package and can be called, and that cannot, or otherwise, cut out of their file."""
    as_package = trials(checkout, "package")
    assert any(trial.works for trial in as_package)
    return [
        (trial.target.call, other.message)
        for trial, other in zip(as_package, trials(checkout, "cut_out"), strict=True)
        if trial.works and (trial.plan, trial.target) != (other.plan, other.target)
    ]


def test_every_collector_is_fed_and_read_alike() -> None:
    """Its contract, its fields and their roles, what it does to gradients, and its lines that call torch."""
    assert differences(TARGETS / "partial") == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["corpus", "devices", "guessed", "inputs", "layouts", "ranks", "wrappers"])
def test_every_collector_of_all_checkouts_is_fed_and_read_alike(name: str) -> None:
    assert differences(TARGETS / name) == []


def values_of(result: ProbeResult) -> list[tuple[str, str, str]]:
    return [(each.name, str(each.value), str(each.case)) for each in result.measurements]


def said(run: TargetRun) -> list[object]:
    return [
        (each.probe, each.outcome, each.severity, each.law, each.location, each.excerpt, each.message, values_of(each))
        for each in run.results
    ]


@pytest.mark.parametrize(
    ("checkout", "call", "probes"),
    [
        ("corpus", "remembered:cached_norm", (CACHED, OVERFLOW)),  # keeps its first answer in the module
        ("corpus", "sound_stats:gradient_stats", (HEALTH, MISSING)),
        ("devices", "asked_at_import:norm_on_constant", (SYNCS,)),  # asks for CUDA when it is imported
    ],
)
def test_outcomes_numbers_and_places_are_the_same(checkout: str, call: str, probes: tuple[str, ...]) -> None:
    as_package = run_probes(TARGETS / checkout, call, probes, rungs=("package",))
    assert {result.reason for result in as_package.results} == {None}
    run = run_probes(TARGETS / checkout, call, probes, rungs=("cut_out",))
    assert run.loaded_by.rung == "cut_out"
    assert said(run) == said(as_package)


# --- what a module does when it is imported -------------------------------------------------------


def ask(folder: Path, source: str, call: str = "target:norm", **more: str) -> TargetRun:
    write(folder, {"target.py": f"import torch\n{source}", **{f"{name}.py": text for name, text in more.items()}})
    return run_probes(folder, call, [HEALTH], time_limit_s=20.0)


@pytest.mark.parametrize(
    ("at_import", "said"),
    [
        (f"import {ABSENT}\nraise SystemExit(3)", "needs the module"),
        ("import sys\nsys.exit('usage: train CONFIG')", "exits with 'usage: train CONFIG'"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "the process died of SIGKILL"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 1))", "raises ConnectionRefusedError"),
        (
            "torch.Tensor.norm = torch.norm = lambda *_: torch.ones(())\nraise RuntimeError('late')",
            "RuntimeError: late",
        ),
        ("open('written', 'a').write('x')\nraise RuntimeError('late')", "RuntimeError: late"),
        ("torch.ones(1, requires_grad=True).backward()", ""),
    ],
)
def test_the_function_is_asked_without_what_the_module_does(at_import: str, said: str, tmp_path: Path) -> None:
    """The answer is that of a sound function: torch is as it was. The run says why it was cut out."""
    loaded, result = (run := ask(tmp_path, f"{at_import}\n{NORM}")).loaded_by, run.results[0]
    assert (loaded.rung, loaded.placeholders, result.outcome) == ("cut_out", (), Outcome.NOT_REPRODUCED)
    assert said in run.notes[0]


def test_a_folder_is_not_hidden_by_an_installed_package_of_its_name(tmp_path: Path) -> None:
    run = run_probes(write(tmp_path, {"pytest/norms.py": f"import torch\n{NORM}"}), "pytest.norms:norm", [HEALTH])
    assert (run.loaded_by.rung, run.results[0].outcome) == ("package", Outcome.NOT_REPRODUCED)


def test_in_a_circle_of_imports_a_name_is_there_when_it_is_asked_for(tmp_path: Path) -> None:
    run = ask(tmp_path, f"import target_too\n{NORM}", target_too="from target import norm\n")
    assert (run.loaded_by.rung, run.results[0].outcome) == ("cut_out", Outcome.NOT_REPRODUCED)
    assert "partially initialized module" in run.notes[0]


POOL = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\npool.submit(int).result()\n"
NATIVE = "torch.set_num_threads(2); torch.ones(1 << 20).sum()\n"  # starts OpenMP's pool


@pytest.mark.parametrize(
    "source",
    [
        f"torch.cuda.is_initialized = lambda: True\n{NORM}",
        f"{POOL}{NORM.replace('def norm', 'def of')}def norm(grads):\n    return pool.submit(of, grads).result()\n",
        f"{NATIVE}{NORM.replace('    return', f'    {NATIVE}    return')}",
    ],
)
def test_what_no_fork_survives_is_imported_for_each_probe(source: str, tmp_path: Path) -> None:
    """CUDA and threads are lost in a fork: a function that waits for a thread of its module would wait for ever."""
    run = ask(tmp_path, source)
    assert (run.loaded_by.rung, run.results[0].outcome) == ("package", Outcome.NOT_REPRODUCED)


def test_a_module_that_never_ends_its_import_is_cut_out_in_time(tmp_path: Path) -> None:
    write(tmp_path, {"target.py": f"import time, torch\nwhile True:\n    time.sleep(1)\n{NORM}"})
    run = run_probes(tmp_path, "target:norm", [HEALTH], time_limit_s=8.0)
    assert (run.loaded_by.rung, run.results[0].outcome) == ("cut_out", Outcome.NOT_REPRODUCED)
    assert "no result within 8 s" in run.notes[0]


def test_a_copy_that_the_module_forks_is_not_the_target(tmp_path: Path) -> None:
    run = ask(tmp_path, f"import os\nif os.fork() == 0:\n    open('copy', 'w').write(str(os.getpid()))\n{NORM}")
    assert (run.loaded_by.rung, run.results[0].outcome) == ("package", Outcome.NOT_REPRODUCED)
    assert not is_alive(int((tmp_path / "copy").read_text()))


def test_a_module_that_kills_who_watches_it_ends_in_one_line(tmp_path: Path) -> None:
    run = ask(tmp_path, f"import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nwhile True: pass\n{NORM}")
    assert (run.results[0].outcome, run.results[0].reason) == (Outcome.ERROR, Reason.CRASH)
    assert (
        run.results[0].message == "importing target: the process died of SIGKILL: out of memory, or killed from outside"
    )


def test_where_nothing_loads_each_way_says_why_once(tmp_path: Path) -> None:
    run = ask(tmp_path, f"import {ABSENT}\nfrom target_too import missing\nmissing.x\n", target_too="x = 1\n")
    result = run.results[0]
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.IMPORT_ERROR)
    assert result.message.startswith(f"importing target needs the module '{ABSENT}', which {sys.executable} does not")
    assert "; target has no 'norm' (install it there" in result.message
    assert result.message.endswith(f"(install it there: {sys.executable} -m pip install {ABSENT})")


# --- files that are no modules ----------------------------------------------------------------------


@pytest.mark.parametrize("path", ["my-trainer/train.py", "train-gpt.py"])
def test_a_file_that_no_import_can_name_is_loaded_with_its_siblings(path: str, tmp_path: Path) -> None:
    folder = Path(path).parent
    source = "def norm(grads):\n    return sum(helper.of(grad).item() for grad in grads)\n"
    helper = "def of(grad):\n    return grad.norm()\n"
    write(tmp_path, {path: f"import helper\nimport torch\n{source}", str(folder / "helper.py"): helper})
    run = run_probes(tmp_path, f"{path}:norm", [SYNCS])
    assert (run.loaded_by.rung, run.results[0].outcome) == ("cut_out", Outcome.REPRODUCED)
    assert run.results[0].location is not None
    assert (run.results[0].location.file, run.results[0].location.line) == (path, 4)


def test_a_package_whose_init_fails_is_left_out(tmp_path: Path) -> None:
    """Names that the `__init__` takes from elsewhere are there all the same, and nothing else of it runs."""
    init = "from .parts import norm_of\nraise RuntimeError('no GPU')\n"
    files = {
        "pkg/__init__.py": init,
        "pkg/parts.py": "def norm_of(grad):\n    return grad.norm()\n",
        "pkg/norms.py": "import torch\nfrom pkg import norm_of\nfrom . import parts\n"
        + NORM.replace("grad.norm()", "norm_of(grad)"),
    }
    run = run_probes(write(tmp_path, files), "pkg.norms:norm", [HEALTH])
    assert (run.loaded_by.rung, run.results[0].outcome) == ("cut_out", Outcome.NOT_REPRODUCED)
    assert run.results[0].notes == ("cut out of its file, of which nothing else ran",)


# --- stand-ins ----------------------------------------------------------------------------------------

USES = f"""
import {ABSENT} as absent
from {ABSENT}.deep import Base

def named(grads):
    absent.memory.now()

def caught(grads):
    try:
        absent.memory.now()
    except Exception:
        pass
    return sum(grad.norm() for grad in grads)

def swallowed(grads):
    try:
        absent.memory.now()
    except BaseException:
        pass
    return sum(grad.norm() for grad in grads)

class Derived(Base):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(2, 2)

    def norm(self, grads):
        return sum(grad.norm() for grad in grads) * Base.scale

    def own_norm(self, grads):
        return sum(grad.norm() for grad in grads)
"""


@pytest.mark.parametrize(
    ("name", "used"),
    [("named", ".memory"), ("caught", ".memory"), ("swallowed", ".memory"), ("Derived.norm", ".deep.Base.scale")],
)
def test_what_stands_in_is_never_used_in_silence(name: str, used: str, tmp_path: Path) -> None:
    result = ask(tmp_path, USES, f"target:{name}").results[0]
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.PLACEHOLDER)
    assert f"it uses {ABSENT}{used}, and {sys.executable} has no module '{ABSENT}'" in result.message


def test_a_method_is_asked_whose_class_derives_from_what_is_absent(tmp_path: Path) -> None:
    """Of an object made without its constructor, which calls that of the absent class."""
    run = ask(tmp_path, USES, "target:Derived.own_norm")
    assert run.results[0].outcome is Outcome.NOT_REPRODUCED
    assert run.loaded_by.placeholders == (ABSENT,)
