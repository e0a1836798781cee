"""torch is imported only in a process we are prepared to lose: never in ours."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.application import EVERY
from tests.filing_helpers import put, ticket_text
from tests.project_files import Ended, auditkit, run_program

pytestmark = pytest.mark.process

# Runs one command line as `auditkit` does, then says on stderr which of the given modules it loaded.
DRIVER = """
import sys
watched = sys.argv[1].split(",")
sys.argv = ["auditkit", *sys.argv[2:]]
from auditkit.cli.main import main
try:
    main()
except SystemExit as end:
    code = end.code or 0
print("loaded:", *(name for name in watched if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""
# The help of each command, one after the other; says of each its exit code, its example, and what is loaded by then.
PAGES = """
import contextlib, io, json, sys
from auditkit.cli.main import main
watched, commands = json.loads(sys.argv[1])
told = []
for words in commands:
    sys.argv, page, code = ["auditkit", *words, "--help"], io.StringIO(), 0
    with contextlib.redirect_stdout(page):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    told.append([words, code, "Example: auditkit " in page.getvalue(), [n for n in watched if n in sys.modules]])
print(json.dumps(told))
"""
HEAVY = ("torch", "numpy", "pydantic", "markdown_it", "rich", "yaml")

COLLECTOR = """
import torch

def grad_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return sum(float(g.double().norm()) ** 2 for g in grads) ** 0.5
"""


def run_watched(modules: tuple[str, ...], *arguments: object, cwd: Path | None = None) -> tuple[Ended, list[str]]:
    """The command's end, and which of `modules` its process had loaded by then."""
    command = [sys.executable, "-c", DRIVER, ",".join(modules), *map(str, arguments)]
    ended = run_program(command, cwd=cwd)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("loaded:"), ended.stderr
    return ended, last.split()[1:]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "stats.py").write_text(COLLECTOR, encoding="utf-8")
    return folder


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text("B7-PT-01"))
    return tmp_path / "tickets"


def test_help_needs_nothing_that_is_slow_to_load() -> None:
    """Every command's help has an example and loads nothing that only other commands need; Typer's help needs rich."""
    commands = list(EVERY)
    heavy = [name for name in HEAVY if name not in ("rich", "markdown_it")]
    ended = run_program([sys.executable, "-c", PAGES, json.dumps([[*heavy, "auditkit.cli.main"], commands])])
    told = json.loads(ended.stdout)
    assert len(told) == len(commands) > 30
    # The last is loaded by each, and so shows that the watch sees what is.
    assert [page for page in told if page[1:] != [0, True, ["auditkit.cli.main"]]] == []


@pytest.mark.parametrize(
    "words", [["probe", "list"], ["probe", "list", "--json"], ["probe", "show", "syncs_grow_with_tensors"]]
)
def test_the_catalog_needs_nothing_that_is_slow_to_load(words: list[str]) -> None:
    """Probes are listed from their literals: nothing of them, and no torch, is imported."""
    ended, loaded = run_watched(HEAVY, *words)
    assert (ended.code, loaded) == (0, [])
    assert "syncs_grow_with_tensors" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        "list",
        "list --json",
        "show B7-PT-01",
        "next",
        "status B7-PT-01 investigating",
        "edit B7-PT-01 labels+=amp",
    ],
)
def test_tickets_need_nothing_that_is_slow_to_load(words: str, tickets: Path) -> None:
    """Plain reading and moving of tickets, through a pipe, starts at once."""
    ended, loaded = run_watched(HEAVY, "ticket", *words.split(), "--tickets", tickets)
    assert loaded == []
    assert (ended.code, bool(ended.stdout)) == (0, True), ended.stderr


@pytest.mark.acceptance
def test_measuring_happens_elsewhere(checkout: Path, tmp_path: Path) -> None:
    """`audit` and `init` measure with torch, and never load it themselves."""
    named = ["--probe", "syncs_grow_with_tensors", "--tickets", tmp_path / "tickets", "--fix-time=0"]
    ended, loaded = run_watched(("torch", "numpy"), "audit", checkout, *named)
    assert (ended.code, loaded) == (1, []), ended.stderr
    assert list((tmp_path / "tickets").rglob("B1-PT-01.md")) != []

    ended, loaded = run_watched(("torch", "numpy"), "init", checkout)
    assert (ended.code, loaded) == (0, []), ended.stderr


@pytest.mark.acceptance
def test_doctor_asks_another_process(tmp_path: Path) -> None:
    ended, loaded = run_watched(("torch", "numpy"), "doctor", cwd=tmp_path)
    assert (ended.code, loaded) == (0, []), ended.stderr


def test_a_process_that_loads_torch_is_caught(tmp_path: Path) -> None:
    """The watch itself: a command line whose process has loaded torch is reported."""
    (tmp_path / "sitecustomize.py").write_text("import numpy, torch\n", encoding="utf-8")
    command = [sys.executable, "-c", DRIVER, "torch,numpy,rich", "--version"]
    paths = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parent.parent)])
    ended = run_program(command, environment={"PYTHONPATH": paths})
    assert ended.stderr.splitlines()[-1] == "loaded: torch numpy"
    assert (ended.code, ended.stdout) == (0, auditkit("--version").stdout)
