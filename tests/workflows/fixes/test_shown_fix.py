"""The diff that a ticket shows is run again, and applied only where it suffices and git could bring the file back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, ExitCode
from auditkit.store.config.config import Config
from auditkit.store.folder.repository import Repository
from auditkit.workflows.audit.run_options import RunOptions
from auditkit.workflows.fixes.file_change import FileChange
from auditkit.workflows.fixes.shown_fix import FixRequest, ShownFix, run_shown_fix
from tests.probing_helpers import MEMORY, OVERFLOW
from tests.project_files import auditkit, our_environment
from tests.test_schema import document_of
from tests.workflows.fixes.test_try_fix import SQUARES, TICKET, git

pytestmark = pytest.mark.process

WRONG = "torch.stack([(g * g).sum() for g in grads]).sum()"
SUFFICES = "torch.stack([g.double().norm() for g in grads]).square().sum()"
FLAT = "torch.cat([g.reshape(-1).double() for g in grads]).square().sum()"


class Shown:
    """A repository with the squares in its folder `sub`, and a ticket about it that shows a diff."""

    def __init__(self, folder: Path) -> None:
        self.top, self.tickets = folder / "trainer", folder / "tickets"
        self.checkout = self.top / "sub"
        for path in (self.checkout, self.tickets):
            path.mkdir(parents=True)
        git(self.top, "init", "--quiet")
        self.file = self.checkout / "norms.py"
        self.file.write_text(SQUARES, encoding="utf-8")
        git(self.top, "add", ".")
        git(self.top, "commit", "--quiet", "-m", "norms")
        self.show(SUFFICES)

    def show(self, code: str, language: str = "diff") -> None:
        after = SQUARES.replace(WRONG, code)
        diff = FileChange("norms.py", SQUARES.encode(), after.encode()).difference("sub/")
        text = TICKET.format(fix=f"```{language}\n{diff}```", commit="", applied="")
        (self.tickets / "B7-PT-01.md").write_text(text, encoding="utf-8")

    def run(self, *, apply: bool = False, where: str = "") -> ShownFix:
        options = RunOptions(Config(), sys.executable, time_limit_s=60.0)
        request = FixRequest("B7-PT-01", str(self.checkout) + where, options, apply, (OVERFLOW, MEMORY))
        return run_shown_fix(Repository(self.tickets), request)


@pytest.fixture
def shown(tmp_path: Path) -> Shown:
    return Shown(tmp_path)


def test_a_fix_that_suffices_is_applied_and_not_committed(shown: Shown) -> None:
    words = ("ticket", "fix", "B7-PT-01", "sub", "--tickets", "../tickets", "--python", sys.executable)
    asked = ("--probe", OVERFLOW, "--json")
    ran = auditkit(*words, *asked, cwd=shown.top)
    assert ran.code == 0, ran.stderr
    document = document_of("ticket_fix", ran)
    assert (document["verdict"], document["applied"]) == ("sufficient", False)
    assert [row["probe"] for row in document["targets"][0]["rows"]] == [OVERFLOW]
    assert shown.file.read_text("utf-8") == SQUARES
    applied = auditkit(*words, "--probe", OVERFLOW, "--apply", cwd=shown.top)
    assert applied.code == 0, applied.stderr
    assert "B7-PT-01: changed norms.py; nothing is committed" in applied.stdout
    assert shown.file.read_text("utf-8") == SQUARES.replace(WRONG, SUFFICES)
    assert git(shown.top, "status", "--porcelain") == "M sub/norms.py"


def test_a_fix_that_trades_is_not_applied(shown: Shown) -> None:
    shown.show(FLAT)
    fix = shown.run(apply=True)
    assert fix.verdict == "trades overflow for memory and right answers"
    assert not fix.applied
    assert shown.file.read_text("utf-8") == SQUARES


def _python(shown: Shown) -> None:
    shown.show(SUFFICES, "python")


def _moved(shown: Shown) -> None:
    shown.file.write_text(SQUARES.replace("sum() for g", "sum()  for g"), encoding="utf-8")


def _dirty(shown: Shown) -> None:
    shown.file.write_text(SQUARES + "# mine\n", encoding="utf-8")


def _untracked(shown: Shown) -> None:
    git(shown.top, "rm", "--quiet", "--cached", "sub/norms.py")


def _no_repository(shown: Shown) -> None:
    os.rename(shown.top / ".git", shown.top / "was.git")
    shown.tickets.joinpath("B7-PT-01.md").write_text(
        shown.tickets.joinpath("B7-PT-01.md").read_text("utf-8").replace("sub/norms.py", "norms.py"), encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("spoil", "where", "said"),
    [
        (_python, "", "its Recommended Fix shows no diff, so there is nothing to apply"),
        (_moved, "", "its diff does not apply any more: norms.py has other lines at"),
        (_dirty, "", "has uncommitted changes: it is not changed"),
        (_untracked, "", "git does not track"),
        (_no_repository, "", "is in no git repository"),
        (lambda _: None, "@HEAD", "--apply changes files, and"),
    ],
    ids=["no diff", "other lines", "dirty", "untracked", "no repository", "revision"],
)
def test_what_may_not_be_changed_is_refused_before_anything_runs(
    shown: Shown, spoil: object, where: str, said: str
) -> None:
    assert callable(spoil)
    spoil(shown)
    before = shown.file.read_bytes()
    with pytest.raises(BadInputError, match=said):
        shown.run(apply=True, where=where)
    assert shown.file.read_bytes() == before


READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 77; cd "$1"; shift; exec "$@"'


def test_a_read_only_checkout_is_refused_before_anything_runs(shown: Shown) -> None:
    """Root may write any file, but none of a file system that is mounted so; in a mount namespace of its own."""
    words = ("ticket", "fix", "B7-PT-01", "sub", "--apply", "--tickets", "../tickets", "--python", sys.executable)
    command = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", str(shown.top), sys.executable, "-m", "auditkit", *words]
    try:
        done = subprocess.run(command, env=our_environment(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("no mount namespace can be made here")
    assert (done.returncode, done.stdout) == (int(ExitCode.STORE_CONFLICT), "")
    assert done.stderr.startswith(f"error: cannot write {shown.checkout}: Read-only file system; nothing was changed\n")
    assert shown.file.read_text("utf-8") == SQUARES
