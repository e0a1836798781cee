"""From open to fixed on the command line: resolve, sign-off and status, with a real git repository."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.filing_helpers import put, ticket_text
from tests.project_files import our_environment

pytestmark = pytest.mark.process

REPRODUCED = "| **Outcome** | `reproduced` |\n| **Message** |"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path, "tests/test_norms.py", "class TestNorms:\n    def test_overflow(self):\n        pass\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "the fix")
    return tmp_path / "tickets"


@pytest.fixture
def commit(folder: Path) -> str:
    return git(folder, "rev-parse", "--short=10", "HEAD")


def run(folder: Path, *arguments: object) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)])


def file_of(folder: Path) -> Path:
    """The ticket's file, which lies in the folder for its status."""
    (file,) = folder.rglob("B7-PT-01.md")
    return file


def resolve(folder: Path, commit: str, *more: object) -> Any:
    words = ("--as", "fixed", "--text", "Scaled the sum.", "--commit", commit, "--test", "tests/test_norms.py")
    return run(folder, "resolve", "B7-PT-01", *words, *more)


def tick(folder: Path) -> None:
    file_of(folder).write_text(file_of(folder).read_text().replace("- [ ] a test", "- [x] a test"))


def test_resolved_signed_and_fixed(folder: Path, commit: str) -> None:
    """The steps in between are taken, up to in-review while the sign-off is missing; then fixed."""
    tick(folder)
    result = resolve(folder, commit)
    assert (result.exit_code, result.stdout) == (1, "B7-PT-01: open -> in-review\n")
    assert result.stderr == ("B7-PT-01: not fixed yet: no sign-off by pytorch\n  auditkit ticket sign-off B7-PT-01\n")
    assert file_of(folder).read_text().split("- [x] a test\n")[1] == (
        "\n---\n\n## Resolution\n\n### Final Fix Description\n\nScaled the sum.\n\n"
        f"### Commits\n\n- `{commit}`\n\n### Tests Added/Modified\n\n- `tests/test_norms.py`\n"
    )
    assert run(folder, "sign-off", "B7-PT-01", "--note", "seen").exit_code == 0
    result = run(folder, "status", "B7-PT-01", "fixed")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        f"B7-PT-01: in-review -> fixed, now {folder}/fixed/B7-PT-01.md\n",
        "",
    )
    assert f"in-review to fixed: commit {commit}\n" in file_of(folder).read_text()


def test_resolve_moves_to_fixed_when_nothing_is_missing(folder: Path, commit: str) -> None:
    tick(folder)
    assert run(folder, "sign-off", "B7-PT-01").exit_code == 0
    result = resolve(folder, commit, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["ticket"]["status"], document["missing"]) == (0, "fixed", [])
    assert ": in-review to fixed: Scaled the sum.\n" in file_of(folder).read_text()


def test_everything_that_fixed_lacks_is_named_and_nothing_written(folder: Path) -> None:
    text = ticket_text("B7-PT-01", status="`in-review`", fingerprint="p/1/t").replace("| **Message** |", REPRODUCED)
    put(folder, "batch7/B7-PT-01.md", text)
    result = run(folder, "status", "B7-PT-01", "fixed", "--commit", "abcdef1")
    assert (result.exit_code, result.stdout) == (2, "")
    *lines, hint = result.stderr.splitlines()
    assert lines == [
        "error: B7-PT-01 is not ready for fixed:",
        "  - the Resolution does not say what was done",
        f"  - commit abcdef1 is not in {folder}",
        "  - not verified: a test (line 71)",
        "  - no sign-off by pytorch",
        "  - the evidence still says reproduced: p/1/t",
    ]
    assert hint.endswith("--force writes these down")
    assert file_of(folder).read_text() == text


def test_force_writes_what_is_missing(folder: Path, commit: str) -> None:
    put(folder, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", status="`in-review`"))
    result = run(folder, "status", "B7-PT-01", "fixed", "--commit", commit, "--force", "--reason", "urgent")
    assert (result.exit_code, result.stdout) == (0, f"B7-PT-01: in-review -> fixed, now {file_of(folder)}\n")
    assert result.stderr.count("warning: forced: ") == 3
    *_, title, _, line = file_of(folder).read_text().splitlines()
    assert (title, line) == (
        "### Status Changes",
        f"- {today()}: in-review to fixed: urgent; forced, missing: the Resolution does not say what was done; "
        "not verified: a test (line 58); no sign-off by pytorch",
    )


def today() -> str:
    import datetime

    return datetime.date.today().isoformat()


def test_force_skips_no_step(folder: Path, commit: str) -> None:
    result = run(folder, "status", "B7-PT-01", "fixed", "--commit", commit, "--force")
    assert (result.exit_code, "does not go from open to fixed" in result.stderr) == (2, True)


def test_a_commit_has_to_be_in_the_history(folder: Path, commit: str, tmp_path: Path) -> None:
    """A commit on another branch counts, one that no branch holds does not, and @REV narrows it."""
    git(tmp_path, "checkout", "--quiet", "-b", "other")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "elsewhere")
    there = git(tmp_path, "rev-parse", "--short=10", "HEAD")
    git(tmp_path, "checkout", "--quiet", "-")
    assert "commit" not in resolve(folder, there).stderr
    narrowed = resolve(folder, there, "--checkout", f"{tmp_path}@{commit}")
    assert f"commit {there} is not in the history of {commit}" in narrowed.stderr
    git(tmp_path, "branch", "--quiet", "-D", "other")
    assert f"commit {there} is not in the history of any branch" in resolve(folder, there).stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--as", "open", "--text", "x"], "open resolves nothing"),
        (["--as", "fixd", "--text", "x"], "did you mean fixed"),
        (["--as", "fixed", "--text", " "], "nothing says what was done"),
        (["--as", "fixed", "--text", "x", "--commit", "HAED"], "has no revision 'HAED'"),
    ],
)
def test_a_resolution_that_cannot_be_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    before = file_of(folder).read_bytes()
    result = run(folder, "resolve", "B7-PT-01", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert file_of(folder).read_bytes() == before


def test_a_decision_is_resolved_from_any_state(folder: Path) -> None:
    result = run(folder, "resolve", "B7-PT-01", "--as", "wont-fix", "--text", "A demo.\n\nOnly.")
    assert (result.exit_code, result.stdout) == (0, f"B7-PT-01: open -> wont-fix, now {file_of(folder)}\n")
    text = file_of(folder).read_text()
    assert (
        f"### Rationale\n\nA demo.\n\nOnly.\n\n### Status Changes\n\n- {today()}: open to wont-fix: A demo. Only.\n"
        in text
    )
    again = resolve(folder, "abcdef1")
    assert (again.exit_code, "does not go from wont-fix to fixed" in again.stderr) == (2, True)
    assert file_of(folder).read_text() == text


def test_a_sign_off_names_who_and_when(folder: Path) -> None:
    result = run(folder, "sign-off", "B7-PT-01", "--agent", "PT", "--json")
    (signed,) = json.loads(result.stdout)["ticket"]["resolution"]["sign_offs"]
    assert (signed["agent"], signed["date"]) == ("pytorch", today())
    assert run(folder, "sign-off", "B7-PT-01", "--agent", "`").exit_code == 2


BOUND = "- [ ] no overflow <!-- probe: norm_overflows_on_finite_grads -->\n"


def test_resolve_says_the_next_step_and_nobody_ticks_before_a_run(folder: Path, commit: str) -> None:
    """Five lines at most, however much is missing; a box that a run can tick is not ticked by hand."""
    put(folder, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", extra=BOUND + "- [ ] one\n- [ ] two\n- [ ] three\n"))
    result = resolve(folder, commit)
    lines = (result.stdout + result.stderr).splitlines()
    assert lines == [
        "B7-PT-01: open -> in-review",
        "B7-PT-01: not fixed yet: not verified: no overflow (line 59)",
        f"  auditkit ticket verify B7-PT-01 --at {commit}",
        "  then: a box is bound to norm_overflows_on_finite_grads, which has not run",
        "  then: not verified: a test (line 58); and 4 more",
    ]
    assert run(folder, "edit", "B7-PT-01", "verified", "all").exit_code == 0
    unproven = (result := resolve(folder, commit)).stderr
    assert (result.exit_code, "ticket edit" in unproven, "ticket verify B7-PT-01" in unproven) == (1, False, True)


def test_a_ticket_that_opens_again_needs_a_review_and_a_sign_off(folder: Path, commit: str) -> None:
    tick(folder)
    assert run(folder, "sign-off", "B7-PT-01").exit_code == 0
    assert resolve(folder, commit).exit_code == 0
    assert run(folder, "status", "B7-PT-01", "open", "--reason", "it overflows again").exit_code == 0
    text = file_of(folder).read_text()
    assert f"## Earlier Resolution, until {today()}\n" in text
    assert ": fixed to open: it overflows again\n\n---\n\n## Earlier Resolution" in text
    result = resolve(folder, commit)
    assert (result.exit_code, "signed" in result.stderr) == (1, False)
    assert result.stderr == (
        f"B7-PT-01: not fixed yet: no review since it was opened again on {today()}\n"
        "  auditkit ticket review B7-PT-01 --verdict endorse --reviewer AGENT\n"
        "  then: no sign-off by pytorch\n"
    )
    assert run(folder, "review", "B7-PT-01", "--verdict", "endorse", "--reviewer", "drl").exit_code == 0
    assert run(folder, "sign-off", "B7-PT-01").exit_code == 0
    assert run(folder, "status", "B7-PT-01", "fixed").exit_code == 0


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("tests/test_nowhere.py", "no such test file: tests/test_nowhere.py in "),
        ("tests/test_norms.py::TestNorms::test_overflw", "has no test 'TestNorms::test_overflw'"),
        ("tests/test_norms.py::test_overflow", "has no test 'test_overflow'"),
        ("/etc/passwd", "not a test: '/etc/passwd'"),
        ("tests/../../x.py", "not a test: "),
        ("tests/test_norms.py::", "not a test: "),
    ],
)
def test_a_test_that_is_not_there_is_refused(folder: Path, commit: str, test: str, message: str) -> None:
    before = file_of(folder).read_bytes()
    words = ("--as", "fixed", "--text", "Scaled the sum.", "--commit", commit, "--test", test)
    for result in (run(folder, "resolve", "B7-PT-01", *words), run(folder, "edit", "B7-PT-01", "tests", test)):
        assert (result.exit_code, message in result.stderr.splitlines()[0]) == (2, True), result.stderr
    assert file_of(folder).read_bytes() == before


def test_a_test_may_be_named_by_its_node_or_lie_at_the_fix_alone(folder: Path, tmp_path: Path) -> None:
    put(tmp_path, "tests/test_later.py", "def test_it():\n    pass\n")
    git(tmp_path, "add", "tests/test_later.py")
    git(tmp_path, "commit", "--quiet", "-m", "with its test")
    fix = git(tmp_path, "rev-parse", "HEAD")
    (tmp_path / "tests" / "test_later.py").unlink()
    node = "tests/test_norms.py::TestNorms::test_overflow[float16]"
    words = ("--as", "fixed", "--text", "x", "--commit", fix, "--test", "tests/test_later.py::test_it", "--test", node)
    assert run(folder, "resolve", "B7-PT-01", *words).exit_code == 1
    assert f"- `tests/test_later.py::test_it`\n- `{node}`\n" in file_of(folder).read_text()


def test_fields_of_the_end_are_edited(folder: Path) -> None:
    """Fixed By, categories and tests; tests that an imported ticket names are kept, whether they are here or not."""
    imported = "\n## Resolution\n\n### Tests Added\n\n- `test_scale` - 1e20\n- `tests/test_old.py`\n\nAnd prose.\n"
    put(folder, "batch7/B7-PT-01.md", ticket_text("B7-PT-01", extra=imported))
    for field, value in (
        ("fixed-by", "ada"),
        ("category", "numerical stability, Test coverage gap"),
        ("tests", "test_scale, tests/test_norms.py::TestNorms"),
    ):
        assert run(folder, "edit", "B7-PT-01", field, value).exit_code == 0
    text = file_of(folder).read_text()
    assert "| **Fixed By** | ada |" in text
    assert "- [ ] Correctness bug\n- [ ] Race condition / concurrency\n- [X] Numerical stability\n" in text
    assert "- [x] Test coverage gap\n" in text
    assert "### Tests Added\n\n- `test_scale` - 1e20\n\nAnd prose.\n- `tests/test_norms.py::TestNorms`\n" in text
    wrong = run(folder, "edit", "B7-PT-01", "category", "Numercal stability")
    assert (wrong.exit_code, "did you mean Numerical stability" in wrong.stderr) == (2, True)


def test_a_terminal_is_asked_before_anybody_signs(folder: Path) -> None:
    """In a pipe it is said as whom; on a terminal nothing is written before a yes."""
    command = [sys.executable, "-m", "auditkit", "ticket", "sign-off", "B7-PT-01", "--tickets", str(folder)]
    before = file_of(folder).read_bytes()
    for answer, code, is_same in ((b"n\n", 2, True), (b"y\n", 0, False)):
        ours, theirs = pty.openpty()
        os.write(ours, answer)
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, env=our_environment())
        os.close(ours)
        os.close(theirs)
        assert done.returncode == code, done.stderr
        assert "sign B7-PT-01 off as pytorch, who reported the finding (--agent names another)?" in done.stderr
        assert (file_of(folder).read_bytes() == before) is is_same
    assert "signing B7-PT-01 off as pytorch, who reported" in run(folder, "sign-off", "B7-PT-01").stderr
    assert run(folder, "sign-off", "B7-PT-01", "--agent", "drl").stderr == ""


def test_a_status_whose_folder_has_such_a_file_is_not_half_written(folder: Path) -> None:
    """What is said to have failed has changed nothing."""
    (folder / "closed" / "B7-PT-01.md").mkdir(parents=True)
    before = (folder / "batch7" / "B7-PT-01.md").read_bytes()
    for words in (
        ("status", "B7-PT-01", "wont-fix", "--reason", "x"),
        ("resolve", "B7-PT-01", "--as", "wont-fix", "--text", "x"),
    ):
        result = run(folder, *words)
        assert (result.exit_code, "exists already" in result.stderr) == (4, True), result.stderr
        assert (folder / "batch7" / "B7-PT-01.md").read_bytes() == before


def test_a_file_that_cannot_be_moved_is_no_failure(folder: Path) -> None:
    """The status is written: that is what was asked for."""
    put(folder, "closed", "no folder\n")
    result = run(folder, "status", "B7-PT-01", "wont-fix", "--reason", "x")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01: open -> wont-fix\n")
    assert "note: the status is written, but the file stays in its folder: cannot write" in result.stderr
    assert "| `wont-fix` |" in (folder / "batch7" / "B7-PT-01.md").read_text()
