"""The first commit with another answer, in real histories; where nothing has to run, a probe that reads source asks."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from auditkit.errors import BadInputError, TargetNotLoadedError
from auditkit.model.enums import Contract, Takes
from auditkit.model.revisions.bisection import Bisection, CommitAnswer, State
from auditkit.model.runs.target import Target
from auditkit.store.reading.reader import read_ticket
from auditkit.workflows.audit.run_options import RunOptions, user_memory
from auditkit.workflows.history.bisect import BisectRequest, bisect, choose
from tests.filing_helpers import put, ticket_text
from tests.project_files import Ended, auditkit, our_environment

pytestmark = pytest.mark.process

CALL = "train.norms:total_norm"
SOUND = """
import torch


def total_norm(grads):
    squares = [(g * g).sum() for g in grads]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return total.sqrt().item()
"""
READS_IN_LOOP = """
import torch


def total_norm(grads):
    squares = [(g * g).sum().item() for g in grads]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return total ** 0.5
"""
BROKEN = "def total_norm(:\n"


class History:
    """A small git repository; every commit is a file's text, with other files that do not matter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commits: list[str] = []
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str, stdin: str | None = None) -> str:
        settings = ["-c", "user.name=Dana", "-c", "user.email=dana@example.org", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.folder), *settings, *words]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, text: str | None, module: str = "norms") -> str:
        package = self.folder / "src" / "train"
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").touch()
        (self.folder / "log.txt").write_text(f"{len(self.commits)}\n")
        for file in package.glob("*.py"):
            if file.stem != "__init__":
                file.unlink()
        if text is not None:
            (package / f"{module}.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "--quiet", "-m", f"step {len(self.commits)}")
        self.commits.append(self.git("rev-parse", "HEAD"))
        return self.commits[-1]

    def line_of(self, texts: Iterable[str]) -> None:
        """One commit after another; one process writes them all, because many commits by hand are dear."""
        stream = []
        for number, text in enumerate(texts):
            stream.append(f"commit refs/heads/main\ncommitter Dana <dana@example.org> {number} +0000\n")
            stream.append(f"data <<END\nstep {number}\nEND\n")
            files = {"src/train/__init__.py": "", "src/train/norms.py": text, "log.txt": f"{number}\n"}
            stream += [f"M 100644 inline {path}\ndata {len(data)}\n{data}\n" for path, data in files.items()]
        self.git("fast-import", "--quiet", stdin="".join(stream))
        self.git("reset", "--quiet", "--hard", "main")
        self.commits = self.git("rev-list", "--reverse", "main").split()

    def digest(self) -> str:
        """Every byte of the repository, its `.git` too."""
        found = hashlib.sha256()
        for path in sorted(self.folder.rglob("*")):
            found.update(str(path.relative_to(self.folder)).encode() + (path.read_bytes() if path.is_file() else b""))
        return found.hexdigest()


@pytest.fixture(autouse=True)
def private_places(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Caches and worktrees of this test alone."""
    place = tmp_path_factory.mktemp("places")
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "trainer")


def search(
    history: History, good: str, bad: str, told: Callable[[CommitAnswer, int], None] = lambda *_: None, **more: object
) -> Bisection:
    text = ticket_text(fingerprint=f"sync_in_loop/1/{CALL}")
    ticket = read_ticket(text.encode(), Path("B7-PT-01.md"))
    return bisect(BisectRequest(ticket, str(history.folder), good, bad, **more), told)  # type: ignore[arg-type]


@pytest.mark.parametrize("first", [1, 2, 9, 30])
def test_the_commit_that_brought_the_finding(history: History, first: int) -> None:
    history.line_of(f"# {number}\n" + (SOUND if number < first else READS_IN_LOOP) for number in range(31))
    before = history.digest()
    found = search(history, history.commits[0], "main")
    assert found.first == history.commits[first]
    assert found.reproduces_since
    assert (found.older.state, found.newer.state) == (State.NOT_REPRODUCED, State.REPRODUCED)
    assert found.commit_count == 30
    assert len(found.answers) <= 2 + math.ceil(math.log2(30))
    assert history.digest() == before


def test_the_commit_that_took_it_away_however_the_ends_are_called(history: History) -> None:
    history.line_of(f"# {number}\n" + (READS_IN_LOOP if number < 6 else SOUND) for number in range(9))
    for good, bad in [("main", history.commits[0]), (history.commits[0], "main")]:
        found = search(history, good, bad)
        assert (found.first, found.reproduces_since) == (history.commits[6], False)


def test_the_function_is_followed_over_a_move_and_a_new_name(history: History) -> None:
    history.commit(SOUND)
    history.commit(SOUND, module="telemetry")
    history.commit(SOUND.replace("total_norm", "gradient_norm"), module="telemetry")
    history.commit(READS_IN_LOOP.replace("total_norm", "gradient_norm"), module="telemetry")
    history.commit("# end\n" + READS_IN_LOOP.replace("total_norm", "gradient_norm"), module="telemetry")
    found = search(history, history.commits[0], "main")
    assert found.first == history.commits[3]
    calls = {answer.commit: answer.call for answer in found.answers}
    assert calls[history.commits[0]] == CALL
    assert calls[history.commits[3]] == "train.telemetry:gradient_norm"


def test_commits_that_do_not_parse_are_skipped_and_named(history: History) -> None:
    texts = [SOUND, SOUND, BROKEN, BROKEN, BROKEN, SOUND, READS_IN_LOOP, BROKEN, READS_IN_LOOP]
    for number, text in enumerate(texts):
        history.commit(f"# {number}\n{text}")
    found = search(history, history.commits[0], "main")
    assert found.first == history.commits[6]
    skipped = {answer.commit for answer in found.skipped}
    assert skipped
    assert skipped <= {history.commits[number] for number in (2, 3, 4, 7)}
    assert all("was never closed" in answer.why or "invalid syntax" in answer.why for answer in found.skipped)


def test_where_the_first_one_cannot_be_told_all_candidates_are(history: History) -> None:
    for number, text in enumerate([SOUND, SOUND, BROKEN, BROKEN, READS_IN_LOOP, READS_IN_LOOP]):
        history.commit(f"# {number}\n{text}")
    found = search(history, history.commits[0], "main")
    assert found.first == ""
    assert set(found.candidates) == set(history.commits[2:5])
    assert found.candidates[-1] == history.commits[4]
    assert found.to_json()["first"] is None


def test_a_function_that_came_with_the_finding(history: History) -> None:
    history.commit(None)
    history.commit(None)
    history.commit(READS_IN_LOOP)
    history.commit("# end\n" + READS_IN_LOOP)
    found = search(history, history.commits[0], "main")
    assert (found.older.state, found.first) == (State.ABSENT, history.commits[2])


def test_a_finding_that_came_over_a_merged_branch(history: History) -> None:
    history.commit(SOUND)
    history.git("switch", "--quiet", "-c", "side")
    history.commit("# side\n" + SOUND)
    culprit = history.commit(READS_IN_LOOP)
    history.git("switch", "--quiet", "main")
    (history.folder / "notes.md").write_text("main went on\n")
    history.git("add", "-A")
    history.git("commit", "--quiet", "-m", "main went on")
    history.git("merge", "--quiet", "-m", "merge", "side")
    assert search(history, history.commits[0], "main").first == culprit


def test_ends_on_two_branches_meet_where_they_parted(history: History) -> None:
    base = history.commit(SOUND)
    history.git("switch", "--quiet", "-c", "side")
    culprit = history.commit(READS_IN_LOOP)
    history.git("switch", "--quiet", "main")
    history.commit("# main\n" + SOUND)
    found = search(history, "main", "side")
    assert (found.older.commit, found.first) == (base, culprit)


def _runs(history: History, **more: object) -> Bisection:
    """A search that has to run code, with the user's memory."""
    target = Target(CALL, contract=Contract.GRAD_NORM, takes=Takes.MODULE)
    options = RunOptions(memory=user_memory(fresh=bool(more.pop("fresh", False))))
    probe = "norm_overflows_on_finite_grads"
    return search(history, history.commits[0], "main", probe=probe, target=target, options=options, **more)


@pytest.mark.process
def test_a_second_call_asks_nothing_again_and_a_fresh_one_everything(history: History) -> None:
    """Commits that change another file have one answer together."""
    history.line_of([OVERFLOWS, OVERFLOWS, HOLDS, HOLDS, "# at the end\n" + HOLDS])
    first, again = _runs(history), _runs(history)
    assert again.first == first.first == history.commits[2]
    assert [answer.was_known for answer in first.answers] == [False, False, False, True]
    assert all(answer.was_known for answer in again.answers)
    assert not any(answer.was_known for answer in _runs(history, fresh=True).answers[:2])


KILLED = """
import os, signal, sys
from pathlib import Path
from auditkit.model.enums import Contract, Takes
from auditkit.model.runs.target import Target
from auditkit.store.reading.reader import read_ticket
from auditkit.workflows.audit.run_options import RunOptions, user_memory
from auditkit.workflows.history.bisect import BisectRequest, bisect
asked = []
def told(answer, remaining):
    asked.append(answer)
    if len(asked) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
ticket = read_ticket(Path(sys.argv[1]).read_bytes(), Path("B7-PT-01.md"))
target = Target(sys.argv[4], contract=Contract.GRAD_NORM, takes=Takes.MODULE)
options, probe = RunOptions(memory=user_memory(False)), "norm_overflows_on_finite_grads"
bisect(BisectRequest(ticket, sys.argv[2], sys.argv[3], "main", options, probe, target), told)
"""


@pytest.mark.process
def test_a_killed_one_goes_on_where_it_was(history: History, tmp_path: Path, private_places: Path) -> None:
    history.line_of([OVERFLOWS, "# 1\n" + OVERFLOWS, "# 2\n" + HOLDS])
    before = history.digest()
    ticket = tmp_path / "ticket.md"
    ticket.write_text(ticket_text(fingerprint=f"sync_in_loop/1/{CALL}"))
    command = [sys.executable, "-c", KILLED, str(ticket), str(history.folder), history.commits[0], CALL]
    assert subprocess.run(command, env=our_environment(), check=False).returncode == -9
    assert history.digest() == before
    found = _runs(history)
    assert found.first == history.commits[2]
    assert sum(answer.was_known for answer in found.answers) == 2
    assert not list(private_places.glob("auditkit-checkout-*/tree"))


def test_two_ends_that_answer_alike_are_refused(history: History) -> None:
    history.commit(SOUND)
    history.commit("# more\n" + SOUND)
    with pytest.raises(BadInputError, match="answer alike: not reproduced"):
        search(history, history.commits[0], "main")
    with pytest.raises(BadInputError, match="are the same commit"):
        search(history, history.commits[1], "main")
    with pytest.raises(BadInputError, match="has no revision 'v9'"):
        search(history, "v9", "main")


def test_an_end_without_the_function_is_refused(history: History) -> None:
    history.commit(READS_IN_LOOP)
    history.commit(None)
    with pytest.raises(BadInputError, match=f"has no {CALL}"):
        search(history, history.commits[0], "main")


def test_an_end_that_does_not_parse_is_no_answer(history: History) -> None:
    history.commit(SOUND)
    history.commit(BROKEN)
    with pytest.raises(TargetNotLoadedError, match="gives no answer"):
        search(history, history.commits[0], "main")


def test_silent_commits_are_left_in_steps_that_double() -> None:
    commits = list("abcdefghij")
    assert choose(commits, [], 0) == "a"
    assert choose(commits, ["a"], 1) == "c"
    assert choose(commits, ["a", "c"], 2) == "f"
    assert choose(commits, ["a", "c", "f"], 3) == "j"
    assert choose(commits, commits, 4) is None


OVERFLOWS = """
def total_norm(module):
    grads = [p.grad for p in module.parameters() if p.grad is not None]
    return float(sum((g.float() * g.float()).sum() for g in grads) ** 0.5)
"""
HOLDS = OVERFLOWS.replace("float()", "double()")


def test_a_target_that_runs(history: History) -> None:
    history.commit(OVERFLOWS)
    fix = history.commit(HOLDS)
    target = Target(CALL, contract=Contract.GRAD_NORM, takes=Takes.MODULE)
    found = search(history, "main", "main~1", probe="norm_overflows_on_finite_grads", target=target)
    assert (found.first, found.older.state, found.newer.state) == (fix, State.REPRODUCED, State.NOT_REPRODUCED)
    assert "1.84e+19" in found.older.why
    assert found.older.torch


def test_the_page_and_the_document_tell_of_the_commit(history: History, tmp_path: Path) -> None:
    history.commit(READS_IN_LOOP)
    fix = history.commit(SOUND)
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", ticket_text(fingerprint=f"sync_in_loop/1/{CALL}"))
    ended = _cli(history, tmp_path, "--json")
    document = json.loads(ended.stdout)
    assert (ended.code, document["first"], document["change"]) == (0, fix, "not_reproduced")
    assert {one["commit"]: one["state"] for one in document["asked"]}[fix] == "not_reproduced"
    ended = _cli(history, tmp_path)
    assert ended.code == 0
    assert "  reproduced " in ended.stdout
    assert f"{fix} is the first commit after which it no longer reproduces\n" in ended.stdout
    assert "Dana: step 1\n" in ended.stdout
    assert "  src/train/norms.py  +2 -2\n" in ended.stdout


def _cli(history: History, folder: Path, *more: str) -> Ended:
    words = ["--checkout", history.folder, "--good", "main", "--bad", "main~1"]
    return auditkit("bisect", "B7-PT-01", *words, *more, cwd=folder)


@pytest.mark.slow
def test_targets_that_cannot_be_imported_are_skipped(history: History) -> None:
    missing = "import package_that_is_not_here\n"
    for number, text in enumerate([HOLDS, HOLDS, missing + HOLDS, OVERFLOWS, missing + OVERFLOWS, OVERFLOWS]):
        history.commit(f"# {number}\n{text}")
    target = Target(CALL, contract=Contract.GRAD_NORM, takes=Takes.MODULE)
    found = search(history, history.commits[0], "main", probe="norm_overflows_on_finite_grads", target=target)
    named = {answer.commit: answer.why for answer in found.skipped}
    assert found.first == history.commits[3] or set(found.candidates) == set(history.commits[2:4])
    assert all("package_that_is_not_here" in why for why in named.values())
