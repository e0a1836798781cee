"""`audit --new-only`: the tickets in git are what was known before; a change cannot loosen its own check."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.filing_helpers import put
from tests.project_files import Ended, auditkit
from tests.test_schema import document_of
from tests.verify_helpers import LOOP, LOOP_PRINT, NAIVE, RIGHT, git

pytestmark = pytest.mark.process

OTHER = NAIVE.replace("total_norm", "other_norm")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one finding, its ticket, and a configuration; the package lies in a folder of its own."""
    folder = tmp_path_factory.mktemp("base")
    put(folder, "code/train/norms.py", NAIVE)
    put(folder, "code/auditkit.yaml", "batch: 1\n")
    git(folder, "init", "-q", "-b", "main")
    assert ask(folder, "--tickets", "tickets", new_only=False).code == 1
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "base")
    return folder


@pytest.fixture
def project(base: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return shutil.copytree(base, tmp_path / "project")


def ask(project: Path, *words: object, new_only: bool = True) -> Ended:
    mode = ["--new-only"] if new_only else ["--fix-time=0"]
    return auditkit("audit", "code", "--probe", LOOP, *mode, *words, cwd=project)


def last(ended: Ended) -> list[str]:
    """The lines that speak of the tickets."""
    return ended.stdout[ended.stdout.index(" known, ") - 2 :].strip().split("\n")


def test_what_has_a_ticket_is_known_and_nothing_is_filed(project: Path) -> None:
    (ticket,) = project.glob("tickets/B*.md")
    before = ticket.read_bytes()
    ended = ask(project)
    assert (ended.code, last(ended)) == (0, ["1 known, 0 new, 0 gone, by the tickets in tickets"])
    assert "norms.py:7" not in ended.stdout
    assert (ticket.read_bytes(), git(project, "status", "--porcelain")) == (before, "")


def test_a_finding_that_a_change_adds_is_new(project: Path) -> None:
    put(project, "code/train/more.py", OTHER)
    ended = ask(project, "--against", "HEAD", "--json", "--summary", "s.md")
    assert ended.code == 1
    baseline = document_of("run", ended)["baseline"]
    assert [one["fingerprint"] for one in baseline["new"]] == [f"{LOOP}/1/train.more:other_norm"]
    assert [one["ticket"] for one in baseline["known"]] == ["B1-PT-01"]
    assert baseline["against"] == git(project, "rev-parse", "HEAD").strip()
    summary = (project / "s.md").read_text("utf-8")
    assert "1 new" in summary
    # From the top of the repository, where a host looks for it.
    assert "`code/train/more.py:" in summary


def test_a_finding_that_a_change_removes_is_gone(project: Path) -> None:
    put(project, "code/train/norms.py", RIGHT)
    ended = ask(project)
    assert ended.code == 0
    head, gone = last(ended)
    assert head.startswith("0 known, 0 new, 1 gone, ")
    assert gone == f"    gone: {LOOP_PRINT}: no longer found in the source, B1-PT-01 is open"


def test_a_fixed_one_that_comes_back_is_new_and_says_so(project: Path) -> None:
    (ticket,) = project.glob("tickets/B*.md")
    ticket.write_text(ticket.read_text("utf-8").replace("status: open", "status: fixed", 1), encoding="utf-8")
    ended = ask(project)
    assert ended.code == 1
    assert f"    again: {LOOP_PRINT}: B1-PT-01 is fixed, and its finding reproduces again" in ended.stdout
    assert "auditkit ticket show B1-PT-01 --tickets tickets" in ended.stdout


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("code/auditkit.yaml", "exclude: [train]\n"),
        ("code/auditkit.yaml", f"severity: {{{LOOP}: P4}}\n"),
        ("code/auditkit.yaml", "tickets: elsewhere\n"),
        ("code/auditkit.yaml", "tickets: [\n"),
        ("tickets/B9-PT-01.md", "a ticket for its own finding"),
    ],
    ids=["exclude", "severity", "tickets", "not YAML", "own ticket"],
)
def test_a_change_cannot_hide_its_finding(project: Path, file: str, text: str) -> None:
    """With --against the base's configuration and tickets are read, whatever the change says."""
    put(project, "code/train/more.py", OTHER)
    if file.endswith(".md"):
        (known,) = project.glob("tickets/B*.md")
        text = known.read_text("utf-8").replace("train.norms:total_norm", "train.more:other_norm")
        put(project, "elsewhere/README.md", "")
    put(project, file, text.replace("B1-PT-01", "B9-PT-01"))
    git(project, "add", ".")
    git(project, "commit", "-qm", "change")
    ended = ask(project, "--against", "HEAD~1", "--junit", "junit.xml")
    assert ended.code == 1, ended.stderr
    assert last(ended)[0].startswith("1 known, 1 new, 0 gone, ")
    failures = ET.parse(project / "junit.xml").iter("failure")
    assert [(each.text or "").split("\n")[0] for each in failures] == ["code/train/more.py:7"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--new-only", "--no-tickets"], "--new-only compares with tickets"),
        (["--against", "HEAD"], "--against is for --new-only and --changed"),
        (["--new-only", "--against", "nothing"], "has no revision 'nothing'"),
        (["--summary", "/dev/null"], "/dev/null is a device"),
        (["--sarif", "x", "--csv", "./x"], "that is the file of --sarif"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_asked(project: Path, words: list[str], told: str) -> None:
    ended = auditkit("audit", "code", "--probe", LOOP, *words, cwd=project)
    assert ended.code in (2, 4)
    assert told in " ".join(ended.stderr.split())
    assert ended.stdout == ""


def test_a_finding_keeps_its_ticket_when_its_function_moves(project: Path) -> None:
    """After `git mv`, a move into another file and a new name the ticket is the same one."""
    for names, text in (
        (("norms.py", "measures.py"), NAIVE),
        (("measures.py", "more.py"), f"import math\n\nLIMIT = math.inf\n\n\n{NAIVE}"),
        (("more.py", "more.py"), OTHER),
    ):
        old, new = (project / "code/train" / name for name in names)
        if old != new:
            git(project, "mv", str(old), str(new))
        new.write_text(text, encoding="utf-8")
        git(project, "commit", "-qam", "move")
        assert ask(project).code == 0
        assert ask(project, "--tickets", "tickets", new_only=False).code == 1
        (ticket,) = project.glob("tickets/B*.md")
        assert f"train/{new.name}:" in ticket.read_text().partition("\nfunction:")[0], ticket.read_text()
        git(project, "commit", "-qam", "what is known")


def test_only_what_changed_is_checked(project: Path) -> None:
    """Files that git does not track count, and so do functions of other files that call what changed."""
    assert ask(project, "--changed").code == 0
    put(project, "code/train/other.py", OTHER)
    ended = ask(project, "--changed")
    assert ended.code == 1
    assert "train/other.py:7" in ended.stdout
    assert "1 Python file changed since" in ended.stdout
    git(project, "add", ".")
    git(project, "commit", "-qm", "other")
    assert (ask(project, "--changed").code, ask(project, "--changed", "--against", "HEAD~").code) == (0, 1)


def test_a_comment_with_a_reason_suppresses_a_finding(project: Path) -> None:
    """On the line of the finding; without a reason or a known probe it is reported and does nothing."""
    file = project / "code/train/norms.py"
    line = next(each for each in NAIVE.splitlines() if ".item()" in each)
    for where, comment, code in (
        (line, f"ignore[{LOOP}] logged once a day", 0),
        (line, f"ignore[{LOOP}]", 1),
        (line, "ignore[sync_in_lop] typed wrongly", 1),
    ):
        marked = [f"{each}  # auditkit: {comment}" if each.startswith(where) else each for each in NAIVE.splitlines()]
        file.write_text("\n".join(marked) + "\n", encoding="utf-8")
        ended = ask(project, "--no-tickets", "--sarif", "a.sarif", new_only=False)
        (result,) = json.loads((project / "a.sarif").read_text())["runs"][0]["results"]
        suppressed = [{"kind": "inSource", "justification": "logged once a day"}]
        assert (ended.code, result.get("suppressions")) == (code, None if code else suppressed)
        assert ("1 ignored in the source" in ended.stdout) == (not code)
        assert ("ignores it" in ended.stderr) == bool(code)
