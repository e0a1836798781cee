"""Every command that files or changes tickets has --dry-run, which shows what would change, and changes no byte."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auditkit.sweep.jobs import Result, ResultsFolder
from tests import application
from tests.application import app
from tests.filing_helpers import ROOT, put, ticket_text
from tests.reports.exported_runs import RUNS
from tests.sweep_helpers import job, plan
from tests.verify_helpers import LOOP, NAIVE, git, state_of

pytestmark = pytest.mark.process

WITHOUT = {
    "ticket list", "ticket show", "ticket next", "ticket lint",
    "probe list", "probe show", "probe new", "probe run", "doctor", "mcp", "run", "schema",
    "compare", "report", "export", "init",
    "sweep plan", "sweep run", "sweep merge",
}  # fmt: skip
ASK = f"--checkout . --probe {LOOP}"
WRITES = {
    "audit": (f". --probe {LOOP} --tickets tickets", "create tickets/B1-PT-01.md"),
    "ticket new": ("--title x --agent pytorch --batch 7", "create tickets/B7-PT-03.md"),
    "ticket edit": ("B7-PT-01 severity=P0", "+severity: P0"),
    "ticket status": ("B7-PT-01 investigating", "+status: investigating"),
    "ticket resolve": ("B7-PT-01 wont-fix --note why --as ada", "+status: wont-fix"),
    "ticket review": ("B7-PT-01 endorse --as ada", "+- **ENDORSE** P2 · ada via a@b"),
    "ticket import": ("old", "create tickets/B3-CR-01.md"),
    "ticket verify": (f"B7-PT-01 {ASK}", ""),
    "ticket fix": (f"B7-PT-01 {ASK}", ""),
}
MAY_FAIL = {"ticket verify", "ticket fix"}
"""These need what is not made here: they are held to have the option."""


COMMANDS = {" ".join(words): command for words, command in application.COMMANDS.items()}


def test_every_command_that_may_write_has_the_option() -> None:
    """A new command belongs to one of the two lists."""
    assert WITHOUT | WRITES.keys() == COMMANDS.keys()
    with_option = {name for name, command in COMMANDS.items() if "--dry-run" in str([p.opts for p in command.params])}
    assert with_option == WRITES.keys()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A git repository with collectorsand two tickets."""
    put(tmp_path, "src/train/norms.py", NAIVE)
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "tickets/B7-PT-02.md", ticket_text("B7-PT-02", status="fixed"))
    shutil.copytree(ROOT / "tests/data/old_audit", tmp_path / "old")
    put(tmp_path, "run.json", json.dumps(RUNS["findings"].to_json()))
    asked = job(tmp_path, "trainer", "a" * 40)
    plan(tmp_path / "plan.jsonl", [asked])
    swept = ResultsFolder(tmp_path / "swept")
    with swept.held([asked]):
        swept.put(Result(asked, RUNS["findings"].to_json()))
    git(tmp_path, "init", "-q", "--template=")
    git(tmp_path, "add", ".")
    git(tmp_path, "config", "user.name", "a@b")
    git(tmp_path, "commit", "-qm", "work that fixes B7-PT-01")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path.with_name("cache")))
    return tmp_path


def state(folder: Path) -> dict[str, str]:
    """Every file and folder; git's own state too, but for what reading it touches."""
    return {path: what for path, what in state_of(folder).items() if Path(path).name not in ("index", "ORIG_HEAD")}


@pytest.mark.parametrize("name", [name for name in WRITES if name not in MAY_FAIL])
def test_a_dry_run_shows_what_would_change_and_changes_nothing(folder: Path, name: str) -> None:
    words, shown = WRITES[name]
    before = state(folder)
    result = CliRunner().invoke(app, [*name.split(), *shlex.split(words), "--dry-run"])
    assert result.exit_code in (0, 1), result.output
    assert shown in result.stdout, result.output
    assert state(folder) == before
    assert result.stderr.startswith("dry run: nothing is written; the output shows what would happen\n")


def test_what_is_shown_is_what_is_written(folder: Path) -> None:
    """The control: without the option the same command changes the same file; its document stays the only one."""
    words = ["ticket", "edit", "B7-PT-01", "severity=P0"]
    before = state(folder)
    dry = CliRunner().invoke(app, [*words, "--dry-run", "--json"])
    assert json.loads(dry.stdout)["tickets"][0]["severity"] == "P0"
    assert "+severity: P0" in dry.stderr
    assert state(folder) == before
    assert CliRunner().invoke(app, words).exit_code == 0
    changed = {path for path, text in state(folder).items() if before.get(path) != text and ".auditkit" not in path}
    assert changed == {str(folder / "tickets/B7-PT-01.md")}
