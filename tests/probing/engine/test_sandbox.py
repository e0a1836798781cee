"""Whatever a target does to its process, every probe gets its own answer, and nothing is left running."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from auditkit.model.enums import Evidence, Outcome, Reason
from auditkit.probing.engine import fork_servers
from auditkit.probing.engine.results import TargetRun
from tests.probing_helpers import (
    HEALTH,
    OVERFLOW,
    SYNCS,
    TARGETS,
    UNDERFLOW,
    by_probe,
    is_alive,
    outcomes,
    processes_started_with,
    run_probes,
)
from tests.sweep_helpers import wait_for

pytestmark = pytest.mark.process

CHECKOUT = TARGETS / "misbehaving"
# Enough for every probe that runs here on a busy machine; a hanging one is found soon.
LIMIT_S = 5.0
NO_RESULT = "no result within 5 s"


@pytest.fixture(scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A name in the environment of all that this file starts; at its end not even a server is left."""
    folder = tmp_path_factory.mktemp("temporary")
    yield folder
    fork_servers.end_servers()
    assert processes_started_with(folder) == []


def left_running(temporary: Path) -> set[int]:
    """Processes that this file started, but for the servers, which wait for the next worker."""
    return set(processes_started_with(temporary)) - set(pids_of_servers())


def pids_of_servers() -> list[int]:
    return [each._process.pid for each in fork_servers._SERVERS.values() if each._process is not None]


@pytest.fixture(autouse=True)
def _nothing_is_left_running(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process of a worker's family outlives the run, under any end of it."""
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)  # Python keeps the first folder that it found
    yield
    assert left_running(temporary) == set()


def ask(name: str, *probes: str, **setting: object):
    target = name if ":" in name else f"norms:{name}"
    return run_probes(CHECKOUT, target, probes or (OVERFLOW, HEALTH), time_limit_s=LIMIT_S, **setting)


@functools.cache
def sound() -> TargetRun:
    """The control of this file: the same checkout, probes and limit, and a target that behaves."""
    return ask("sound")


@pytest.mark.parametrize(
    ("function", "reason", "message"),
    [
        ("crashes_on_large", Reason.CRASH, "the process died of SIGSEGV: a crash in native code"),
        ("hangs_on_large", Reason.TIMEOUT, f"{NO_RESULT}; the process and all it started were ended"),
        ("prints_for_ever", Reason.PROTOCOL, "it printed more than 10 MB; the process and all it started were ended"),
        ("exits_on_large", Reason.EXIT, "the target ended the process itself with status 0 (sys.exit or os._exit)"),
        (
            "closes_results_then_prints",
            Reason.EXIT,
            "the target ended the process itself with status 3 (sys.exit or os._exit)",
        ),
    ],
)
def test_losing_one_probes_process_costs_that_probe_alone(function: str, reason: Reason, message: str) -> None:
    """The target misbehaves on gradients of 1e20 only: the other probe of it still answers."""
    results = by_probe(ask(function))
    lost = results[OVERFLOW]
    assert (lost.outcome, lost.reason, lost.message) == (Outcome.ERROR, reason, message)
    assert results[HEALTH].outcome is Outcome.NOT_REPRODUCED


@pytest.mark.parametrize(
    ("function", "reason", "said"),
    [
        ("crashes", Reason.CRASH, "SIGSEGV"),
        ("exits_at_once", Reason.EXIT, "status 0"),
        ("out_of_memory", Reason.NO_MEMORY, "out of memory: no space for the histogram"),
        ("returns_text", Reason.CANNOT_READ, "holds no single number"),
        ("needs_more", Reason.CANNOT_FEED, "tokenizer: no value is known: give --argument tokenizer=VALUE"),
    ],
)
def test_a_target_without_an_answer_is_an_error_that_says_why(function: str, reason: Reason, said: str) -> None:
    """Never a pass, and the message names what happened; every requested probe says so. One of each reason."""
    for result in ask(function).results:
        assert (result.outcome, result.reason) == (Outcome.ERROR, reason)
        assert said in result.message


@pytest.mark.parametrize(
    ("call", "reason", "said"),
    [
        ("needs_package:norm", Reason.PLACEHOLDER, f"{sys.executable} -m pip install a_package_that_nobody_has"),
        ("exits_at_import:norm", Reason.EXIT, "(its last output: licence not found, leaving"),
        ("hangs_at_import:norm", Reason.TIMEOUT, f"importing hangs_at_import: {NO_RESULT}"),
        ("norms:NotAFunction", Reason.CANNOT_FEED, "is a class: name one of its methods"),
    ],
)
def test_a_target_that_cannot_be_loaded_says_what_happened(call: str, reason: Reason, said: str) -> None:
    """One of each reason, and of each way to lose the worker."""
    result = ask(call, OVERFLOW).results[0]
    assert (result.outcome, result.reason) == (Outcome.ERROR, reason)
    assert said in result.message


def test_what_a_target_prints_is_never_a_message() -> None:
    """Megabytes, broken text and lines that look like our own messages, on every descriptor it finds."""
    run = ask("writes_to_every_descriptor")
    assert outcomes(run) == outcomes(sound())
    assert values_of(run) == values_of(sound())
    assert any("bytes, ignored" in note for note in run.results[0].notes)


def values_of(run: object) -> list[tuple[str, str]]:
    return [(m.name, str(m.value)) for result in run.results for m in result.measurements]  # type: ignore[attr-defined]


def test_a_thread_started_at_import_harms_no_probe() -> None:
    """It does not survive the fork for each probe."""
    run = run_probes(CHECKOUT, "starts_thread:norm", [OVERFLOW, UNDERFLOW, HEALTH], time_limit_s=20.0)
    assert set(outcomes(run).values()) == {"not_reproduced"}


def test_an_interpreter_without_torch_is_named(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    interpreter = str(tmp_path / "bare" / "bin" / "python")
    result = ask("sound", OVERFLOW, interpreter=interpreter).results[0]
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.NO_TORCH)
    assert f"{interpreter} has no torch" in result.message


def test_an_interpreter_that_is_none_is_named(tmp_path: Path) -> None:
    """Missing, not executable, or another program altogether."""
    text = tmp_path / "text"
    text.write_text("not a program")
    for path in (tmp_path / "missing", text, Path("/bin/true")):
        result = ask("sound", OVERFLOW, interpreter=str(path)).results[0]
        assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.NO_INTERPRETER)
        assert str(path) in result.message


def test_a_cancelled_run_ends_at_once() -> None:
    """`cancelled` is what Ctrl-C sets: the worker and its children are gone when the run returns."""
    cancelled = threading.Event()
    threading.Timer(4.0, cancelled.set).start()
    started = time.monotonic()
    run_probes(CHECKOUT, "norms:hangs_on_large", [OVERFLOW], time_limit_s=600.0, cancelled=cancelled)
    assert time.monotonic() - started < 300.0


def test_a_server_that_was_killed_is_started_again() -> None:
    """The control: a worker of the first server has answered."""
    assert outcomes(ask("sound", HEALTH)) == {HEALTH: "not_reproduced"}
    for pid in (pids := pids_of_servers()):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, pids)))
    assert outcomes(ask("sound", HEALTH)) == {HEALTH: "not_reproduced"}


def test_code_that_the_simulated_device_breaks_is_counted_on_the_cpu_and_says_so() -> None:
    result = run_probes(CHECKOUT, "norms:refuses_devices", [SYNCS], time_limit_s=20.0).results[0]
    assert (result.outcome, result.device, result.law) == (Outcome.NOT_REPRODUCED, "cpu", "1")
    assert {result.evidence, *(each.evidence for each in result.measurements)} == {Evidence.SIMULATED}
    assert result.notes == (
        "the simulated device failed (the target raises NotImplementedError: no kernel for cuda); "
        "counted on plain CPU tensors instead",
    )
