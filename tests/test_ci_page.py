"""docs/ci.md and the files for CI hosts: their commands and shell steps run here, in a clean clone of a project."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.audit.test_baseline import OTHER
from tests.console_pages import BLOCK, check_page
from tests.console_pages import git as page_git
from tests.filing_helpers import put, ticket_text
from tests.project_files import ROOT, Ended
from tests.reports.exported_runs import RUNS
from tests.verify_helpers import LOOP, NAIVE, RIGHT, git

pytestmark = pytest.mark.acceptance

PAGE = ROOT / "docs" / "ci.md"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
AUDIT, COMMENT = (
    yaml.safe_load((ROOT / "docs" / "ci" / f"github-{name}.yml").read_text()) for name in ("audit", "comment")
)
GITLAB = yaml.safe_load((ROOT / "docs" / "ci" / "gitlab.yml").read_text("utf-8"))["auditkit"]
HOOK, _ = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))


def test_the_page_shows_what_its_commands_print(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    put(tmp_path, "trainer/norms.py", NAIVE)
    put(tmp_path, "more.txt", OTHER)
    put(tmp_path, "fixed.txt", RIGHT)
    page_git(tmp_path, "init", "-q", "--template=")
    page_git(tmp_path, "add", ".")
    page_git(tmp_path, "commit", "-qm", "base")
    assert len(BLOCK.findall(PAGE.read_text("utf-8"))) == 1
    check_page(PAGE, tmp_path, request.config.getoption("--update-golden"))


# The steps as the hosts run them.


@dataclass(frozen=True)
class Machine:
    """What a host gives a step: its variables, and the files that it reads afterwards."""

    clone: Path
    temp: Path
    inputs: Mapping[str, str]
    variables: Mapping[str, str]

    def run(self, step: Mapping[str, Any], shell: str = "bash --noprofile --norc -eo pipefail") -> Ended:
        """One step of an action: `env` filled in, and nothing else, so that no text becomes part of the script."""
        assert "${{" not in step["run"]
        filled = {name: re.sub(r"\$\{\{ (.*?) \}\}", self._value, text) for name, text in step.get("env", {}).items()}
        return self.shell(step["run"], filled, shell)

    def shell(self, script: str, more: Mapping[str, str], shell: str = "sh -e") -> Ended:
        file = self.temp / "step.sh"
        file.write_text(script, encoding="utf-8")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON"))}
        summary = {"GITHUB_STEP_SUMMARY": str(self.temp / "summary"), "GITHUB_OUTPUT": str(self.temp / "output")}
        done = subprocess.run(
            [*shell.split(), file],
            cwd=self.clone,
            env={**kept, **summary, **self.variables, **more},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def _value(self, match: re.Match[str]) -> str:
        name = match[1]
        own = {"github.action_path": str(ROOT), "runner.temp": str(self.temp), "github.repository": "owner/project"}
        return self.inputs.get(name.removeprefix("inputs."), own.get(name, f"<{name}>"))


INSTALL, RUN = ACTION["runs"]["steps"]
# Nothing is downloaded: what auditkit needs is found in the environment of the tests.
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
PYTHON = sys.executable


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the action's first step makes: auditkit in an environment of its own."""
    temp = tmp_path_factory.mktemp("runner")
    machine = Machine(temp, temp, {"python": PYTHON}, {**OFFLINE, "PYTHONPATH": sysconfig.get_path("purelib")})
    ended = machine.run(INSTALL)
    assert ended.code == 0, ended.stderr
    (site,) = (temp / "auditkit" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return temp


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory, home: Path) -> Path:
    """A project whose one finding has a ticket, committed on main."""
    folder = tmp_path_factory.mktemp("audited")
    put(folder, "train/norms.py", NAIVE)
    put(folder, "auditkit.yaml", "tickets: tickets\n")
    git(folder, "init", "-q", "-b", "main")
    words = ["audit", ".", "--probe", LOOP, "--tickets", "tickets", "--fix-time", "0"]
    subprocess.run([home / "auditkit/bin/auditkit", *words], cwd=folder, capture_output=True, check=False)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    return folder


@pytest.fixture
def origin(tmp_path: Path, audited: Path) -> Path:
    """A copy of that project, for a test that changes it."""
    return Path(shutil.copytree(audited, tmp_path / "origin"))


CHANGES = {
    "adds": ({"train/more.py": OTHER}, 1, "1 known, 1 new, 0 gone"),
    "removes": ({"train/norms.py": RIGHT}, 0, "0 known, 0 new, 1 gone"),
    "hides": ({"train/more.py": OTHER, "auditkit.yaml": "exclude: [train]\n"}, 1, "1 known, 1 new, 0 gone"),
    "breaks": ({"auditkit.yaml": "exclude: [\n", "tickets/x.md": "\xff"}, 0, "1 known, 0 new, 0 gone"),
}
# A run each; on the second host the other two are slow tests.
each_change = pytest.mark.parametrize("change", CHANGES)
some_changes = pytest.mark.parametrize(
    "change", ["adds", "breaks", *(pytest.param(name, marks=pytest.mark.slow) for name in ("removes", "hides"))]
)


def clone_of(origin: Path, change: str, tmp_path: Path) -> tuple[Path, str]:
    """A clone of one commit, as hosts make it, and the base, which is not in it."""
    base = git(origin, "rev-parse", "HEAD").strip()
    for name, text in CHANGES[change][0].items():
        put(origin, name, text)
    git(origin, "add", ".")
    git(origin, "commit", "-qm", "change")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", str(clone))
    return clone, base


@each_change
def test_the_action_fails_for_what_a_change_adds(change: str, origin: Path, home: Path, tmp_path: Path) -> None:
    clone, base = clone_of(origin, change, tmp_path)
    _, code, told = CHANGES[change]
    defaults = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
    inputs = {**defaults, "against": base, "python": PYTHON, "arguments": f"--probe={LOOP}\n\n"}
    machine = Machine(clone, tmp_path, {**inputs}, {})
    (tmp_path / "auditkit").symlink_to(home / "auditkit")
    ended = machine.run(RUN)
    assert ended.code == code, ended.stderr
    assert (tmp_path / "output").read_text("utf-8") == f"exit-code={code}\n"
    assert f"\n{told}, by the tickets in `tickets` at `{base[:12]}`." in (tmp_path / "summary").read_text("utf-8")
    assert sorted(path.name for path in (clone / "auditkit-out").iterdir()) == [
        "audit.sarif", "junit.xml", "run.json", "summary.md",
    ]  # fmt: skip


def test_an_audit_that_cannot_run_has_a_summary_all_the_same(origin: Path, home: Path, tmp_path: Path) -> None:
    """Words of the workflow stay words; and a run that never was is no pass."""
    inputs = {"checkout": ".", "python": PYTHON, "arguments": "--probe=$(touch here);`touch here`", "output": "o u t"}
    (tmp_path / "auditkit").symlink_to(home / "auditkit")
    ended = Machine(origin, tmp_path, {"against": "", "tickets": "", **inputs}, {}).run(RUN)
    assert ended.code == 2
    assert (tmp_path / "summary").read_text("utf-8").startswith("## auditkit: no run, exit code 2\n")
    assert not (origin / "here").exists()


@some_changes
def test_the_gitlab_job_fails_for_what_a_change_adds(change: str, origin: Path, home: Path, tmp_path: Path) -> None:
    base = git(origin, "rev-parse", "HEAD").strip()
    clone, _ = clone_of(origin, change, tmp_path)
    assert GITLAB["variables"]["GIT_DEPTH"] == "0"
    git(clone, "fetch", "-q", "--unshallow")
    # The whole audit takes longer than a test may; the rest of the line is the template's.
    (script,) = GITLAB["script"]
    script = script.replace("set -- --new-only", f"set -- --new-only --probe={LOOP}")
    own = {"AUDITKIT_HOME": str(home / "auditkit"), "AUDITKIT_PYTHON": PYTHON, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    ended = Machine(clone, tmp_path, {}, {**GITLAB["variables"], **own}).shell(script, {})
    assert (ended.code, CHANGES[change][2] in ended.stdout) == (CHANGES[change][1], True), ended.stderr
    reports = GITLAB["artifacts"]["reports"].values()
    assert all((clone / name).is_file() for name in [*reports, *GITLAB["artifacts"]["paths"]])


GH = """#!/bin/sh
printf '%s\\n' "$*" >> "$GH_LOG"
case "$*" in *--silent*) cp comment.md "$GH_LOG.body" ;; *pulls*) echo "$NUMBER" ;; *comments*) echo "$KNOWN" ;; esac
"""


@pytest.mark.parametrize(
    ("run", "number", "known", "wanted"),
    [
        ("hostile", "7", "", "POST repos/owner/project/issues/7/comments"),
        ("hostile", "7", "12\n13", "PATCH repos/owner/project/issues/comments/12"),
        ("none", "7", "12", "PATCH repos/owner/project/issues/comments/12"),
        ("none", "7", "", ""),
        ("hostile", "", "", ""),
    ],
    ids=["first", "again", "mended", "nothing to say", "closed"],
)
def test_the_comment_is_made_of_data_alone(
    run: str, number: str, known: str, wanted: str, home: Path, tmp_path: Path
) -> None:
    """A hostile run is rendered and cut; the pull request is the event's, whatever the artifact says."""
    put(tmp_path, "auditkit-out/run.json", json.dumps(RUNS[run].to_json()))
    gh = put(tmp_path, "bin/gh", GH)
    gh.chmod(0o755)
    render, comment = (step for step in COMMENT["jobs"]["comment"]["steps"] if step.get("shell"))
    path = f"{tmp_path / 'bin'}:{home / 'auditkit/bin'}:{os.environ['PATH']}"
    log = tmp_path / "gh.log"
    machine = Machine(tmp_path, tmp_path, {}, {"PATH": path, "GH_LOG": str(log), "NUMBER": number, "KNOWN": known})
    for step in (render, comment):
        ended = machine.run(step)
        assert ended.code == 0, ended.stderr
    asked = log.read_text("utf-8").splitlines()
    assert "head=<github.event.workflow_run.head_repository.owner.login>:" in asked[0]
    assert (tmp_path / "output").is_file() == bool(number)
    assert [line for line in asked if "--silent" in line] == (
        [f"api --silent --method {wanted} -F body=@comment.md"] if wanted else []
    )
    if not wanted:
        return
    body = Path(f"{log}.body").read_text("utf-8")
    assert body.startswith("<!-- auditkit -->\n# ")
    assert len(body) < 65536
    assert body.endswith("[The whole run](<github.event.workflow_run.html_url>)\n")


def test_a_summary_of_900_kb_makes_a_comment_that_fits(tmp_path: Path) -> None:
    """Cut between lines, in bytes, which are never fewer than characters."""
    put(tmp_path, "summary.md", "| é `finding` |\n" * 60_000)
    (script,) = re.findall(r"LC_ALL=C awk .*? summary\.md", COMMENT["jobs"]["comment"]["steps"][-2]["run"])
    cut = Machine(tmp_path, tmp_path, {}, {}).shell(script, {}).stdout
    assert 59_000 < len(cut.encode()) <= 60_000
    assert set(cut.split("\n")) == {"| é `finding` |", ""}


def test_the_workflows_give_rights_only_where_no_foreign_code_runs() -> None:
    """The first job may read and holds no credentials; the second checks nothing out, and no script is made of text."""
    assert AUDIT["permissions"] == {"contents": "read"}
    assert "permissions" not in AUDIT["jobs"]["audit"]
    (checkout,) = (
        step for step in AUDIT["jobs"]["audit"]["steps"] if step.get("uses", "").startswith("actions/checkout")
    )
    assert checkout["with"]["persist-credentials"] is False
    assert COMMENT["permissions"] == {}
    steps = COMMENT["jobs"]["comment"]["steps"]
    assert not [step for step in steps if "checkout" in step.get("uses", "")]
    every = [*AUDIT["jobs"]["audit"]["steps"], *steps, *ACTION["runs"]["steps"]]
    assert not [step["run"] for step in every if "${{" in step.get("run", "")]
    assert "secrets" not in str([AUDIT, COMMENT, ACTION])


@pytest.mark.parametrize(("severity", "code"), [("P2", 0), ("P9", 1)])
def test_the_hook_lints_the_tickets_of_a_clone(severity: str, code: int, tmp_path: Path, home: Path) -> None:
    text = ticket_text(location="").replace("severity: P2", f"severity: {severity}")
    put(tmp_path, "tickets/B7-PT-01.md", text)
    assert re.fullmatch(HOOK["files"], "tickets/B7-PT-01.md")
    assert (HOOK["language"], HOOK["pass_filenames"]) == ("python", False)
    path = {"PATH": f"{home / 'auditkit/bin'}:{os.environ['PATH']}"}
    ended = Machine(tmp_path, tmp_path, {}, path).shell(HOOK["entry"], {})
    assert ended.code == code, ended.stdout + ended.stderr
