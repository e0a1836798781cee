"""What all tests share: their processes' surroundings, and the flag that rewrites golden files."""

from __future__ import annotations

import compileall
import functools
import gc
import os
import signal
import subprocess
from pathlib import Path

import hypothesis
import pytest
import typer.main
from _pytest.assertion import rewrite

from tests.project_files import ROOT
from tests.sharing import SHARED_FOLDER

# A command of a test would build those of the whole application, in 30 ms of processor time, a thousand times.
typer.main.get_command = functools.cache(typer.main.get_command)

# On a busy machine an example may take any time.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")

# Small checkouts of ours, with tests of their own in them: read by tests, never run as tests.
collect_ignore = ["targets"]


def pytest_configure(config: pytest.Config) -> None:
    """Before any test file, and so before torch, is imported; the processes of `-n` inherit the environment."""
    _hear_ctrl_c()
    # OpenMP's threads spin while they wait for each other: with two busy cores 42 s of processor time against
    # 29 s with one thread, in test_passes.py and test_input_probes.py.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if "PYTEST_XDIST_WORKER" not in os.environ:
        # Some hundred processes read these files, and none that is started with `-B` writes what it compiled:
        # 0.4 of a worker's 3 s.
        compileall.compile_dir(ROOT / "auditkit", quiet=2)
        if config.getoption("numprocesses", default=None):
            _rewrite_asserts(config)


def _rewrite_asserts(config: pytest.Config) -> None:
    """Every process of `-n` collects all tests, and rewriting their asserts takes each 9 of its 15 s."""
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if "targets" not in path.parts]
    shares = os.cpu_count() or 1
    children = []
    for share in range(shares):
        children.append(os.fork())
        if not children[-1]:
            try:
                for path in files[share::shares]:
                    _rewrite_file(path, config)
            finally:  # what cannot be parsed is pytest's to tell
                os._exit(0)
    for child in children:
        os.waitpid(child, 0)


def _rewrite_file(path: Path, config: pytest.Config) -> None:
    """Write what pytest reads in the place of the file; it writes none itself under PYTHONDONTWRITEBYTECODE."""
    written = rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, written) is None and rewrite.try_makedirs(written.parent):
        source, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, written)


def _hear_ctrl_c() -> None:
    """Whoever runs the tests in the background may have them ignore Ctrl-C, and so every program they start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


MARKED = ("process", "acceptance", "slow", "gpu")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as a unit test what has no mark."""
    for item in items:
        if not any(item.get_closest_marker(mark) for mark in MARKED):
            item.add_marker("unit")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The acceptance tests alone need a third of the files, and every process of `-n` would import the others too."""
    if config.option.markexpr.startswith("acceptance") and collection_path.name.startswith("test_"):
        return "acceptance" not in collection_path.read_text("utf-8") or None
    return None


def pytest_collection_finish() -> None:
    """As a worker does before it measures: what was imported is no garbage, and looking through it takes 0.2 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _unit_tests_start_no_process(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier that runs before every commit stays quick: what needs another process says so with a mark."""
    if request.node.get_closest_marker("unit"):
        monkeypatch.setattr(subprocess, "Popen", _refuse_process)
        monkeypatch.setattr(os, "fork", _refuse_process)


def _refuse_process(*command: object, **_: object) -> None:
    raise AssertionError(f"a unit test starts a process: mark it pytest.mark.process ({str(command)[:200]})")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite golden files instead of comparing.")


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the processes of one test run (`-n`) share what is dear to make."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = tmp_path_factory.getbasetemp().parent / "shared"
        folder.mkdir(exist_ok=True)
        os.environ[SHARED_FOLDER] = str(folder)


@pytest.fixture(scope="session", autouse=True)
def _own_caches(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads what lies among the user's caches, nor leaves anything there."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("caches"))
