"""Bad input: one clear message on stderr, the right exit code, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.cli.main import main
from tests.project_files import Ended, auditkit, our_environment
from tests.verify_helpers import git

pytestmark = pytest.mark.process

OK, FINDINGS, BAD_INPUT, NOTHING_MEASURED, STORE_CONFLICT, NOT_LOADED = range(6)

COLLECTORS = '''
import torch


def grad_norm(parameters):
    """The L2 norm of the gradients."""
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return 0.0
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=torch.float64))).item()


def needs_a_database(database, user, *, password):
    return database.norm_of(user)
'''
CONFIG = """\
batch: 3
tagrets:
  - call: stats:grad_norm
"""
NORM = "--target stats:grad_norm --contract grad_norm --takes parameters --probe syncs_grow_with_tensors"
PROBE = "--probe syncs_grow_with_tensors"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path / "workspace")


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all tests that leave every file as it was."""
    return make_workspace(tmp_path_factory.mktemp("untouched") / "workspace")


def make_workspace(place: Path) -> Path:
    """A folder with a plain checkout, a git one, an empty one, and a file where a folder might be."""
    for name in ("plain", "repository", "empty", "wrong"):
        (place / name).mkdir(parents=True)
    for name in ("plain", "repository", "wrong"):
        (place / name / "stats.py").write_text(COLLECTORS, encoding="utf-8")
    (place / "plain" / "needs_more.py").write_text("import a_package_nobody_has\n", encoding="utf-8")
    (place / "plain" / "unreadable.py").write_text("def (\n", encoding="utf-8")
    (place / "wrong" / "auditkit.yaml").write_text(CONFIG, encoding="utf-8")
    (place / "a-file").write_text("text\n", encoding="utf-8")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v1.2.0"]):
        git(place / "repository", *words)
    return place


def everything_in(folder: Path) -> dict[str, str]:
    """Every file below a folder with what it holds: what must not change."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8", "replace") for path in files}


def run_in(place: Path, line: str) -> Ended:
    """The command's end; it must leave every file as it was and print no traceback."""
    before = everything_in(place)
    ended = auditkit(*line.split(), cwd=place)
    assert everything_in(place) == before
    assert "Traceback" not in ended.stderr + ended.stdout
    return ended


def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: Path, line: str) -> Ended:
    """The command in this process, which costs a twentieth of one of its own; it must leave every file as it was."""
    for name, value in {"NO_COLOR": "1", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["auditkit", *line.split()])
    monkeypatch.chdir(place)
    before = everything_in(place)
    with pytest.raises(SystemExit) as ended:
        main()
    assert everything_in(place) == before
    assert isinstance(ended.value.code, int)
    return Ended(ended.value.code, *capsys.readouterr())


# Command line, exit code, and what stderr must say. All of these end before anything is measured.
REFUSED = {
    "no such directory": ("audit plian", BAD_INPUT, "no such directory: plian", "did you mean plain?"),
    "a file for a checkout": ("audit a-file", BAD_INPUT, "a-file is a file, not a directory"),
    "revision without git": ("audit plain@HEAD", BAD_INPUT, "is not in a git repository", "'HEAD'"),
    "unknown revision": ("audit repository@v1.2.1", BAD_INPUT, "no revision 'v1.2.1'", "did you mean v1.2.0?"),
    "unknown probe": (
        f"audit plain {PROBE[:-1]}",
        BAD_INPUT,
        "no probe is called 'syncs_grow_with_tensor'",
        "did you mean syncs_grow_with_tensors",
    ),
    "no such probe file": ("probe run mine.py --checkout plain", BAD_INPUT, "mine.py: No such file or directory"),
    "unknown device": ("audit plain --device cpux", BAD_INPUT, "no such device: 'cpux'", "did you mean cpu or cuda?"),
    "unknown contract": (
        "audit plain --target stats:grad_norm --contract gradnorm",
        BAD_INPUT,
        "no such contract: 'gradnorm'",
        "did you mean grad_norm",
    ),
    "unknown severity": ("audit plain --fail-on P9", BAD_INPUT, "no such severity: 'P9'", "did you mean P"),
    "unknown target name": (
        "audit plain --target grad_nrm --tickets new",
        BAD_INPUT,
        "no target is called 'grad_nrm'",
        "did you mean stats:grad_norm?",
        "a target is package.module:function",
    ),
    "malformed argument": (f"audit plain {NORM} --argument eps", BAD_INPUT, "--argument eps: not of the form"),
    "wrong key": (
        "audit wrong",
        BAD_INPUT,
        "wrong/auditkit.yaml:2:1: unknown key 'tagrets'",
        "\n    tagrets:\n    ^~~~~~~\n",
        "did you mean targets?",
    ),
    "no such configuration": ("audit plain --config mine.yaml", BAD_INPUT, "no such file: mine.yaml", "auditkit init"),
    "no such interpreter": (f"audit plain {NORM} --python no/python", BAD_INPUT, "no such Python interpreter"),
    "unwritable tickets": (f"audit plain {NORM} --tickets /sys/tickets", STORE_CONFLICT, "/sys/"),
    "a file for tickets": (f"audit plain {NORM} --tickets a-file", STORE_CONFLICT, "a-file is not a folder"),
    "no collectors": ("audit empty", NOTHING_MEASURED, "no gradient collector was found", "--target"),
    "init twice": ("init wrong", BAD_INPUT, "wrong/auditkit.yaml exists already", "--output FILE"),
    "doctor elsewhere": ("doctor --checkout plian", BAD_INPUT, "did you mean plain?"),
    "no tickets": ("ticket list", BAD_INPUT, "there is no tickets folder tickets", "--tickets DIR"),
}


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
def test_it_is_refused_before_anything_is_measured(
    untouched: Path,
    case: tuple[str, ...],
    as_json: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One error on stderr and the same exit code; on stdout nothing, or with --json the error as one document."""
    line, code, *sentences = case
    if as_json and line.startswith("init"):
        pytest.skip("init writes a file and has no --json")
    ended = run_here(monkeypatch, capsys, untouched, f"{line} --json" if as_json else line)
    assert ended.code == code, ended.stderr
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("error: ") == 1
    if as_json:
        document = json.loads(ended.stdout)
        assert sorted(document) == ["error", "exit_code", "hint", "location", "schema_version"]
        assert document["error"].split("\n")[0] == ended.stderr.split("\n")[0].removeprefix("error: ")
        place = (
            {"path": str(untouched / "wrong/auditkit.yaml"), "line": 2, "column": 1} if line == "audit wrong" else None
        )
        assert (document["exit_code"], document["location"]) == (code, place)
    else:
        assert ended.stdout == ""
    for sentence in sentences:
        assert sentence in ended.stderr


def test_a_target_that_neither_this_folder_nor_the_specimen_has(untouched: Path) -> None:
    ended = run_in(untouched / "empty", "audit --target stats:norm")
    assert (ended.code, "auditkit audit CHECKOUT --target stats:norm" in ended.stderr) == (BAD_INPUT, True)


# Command line, exit code, reason in the document, and what stderr must say. The run itself says why.
UNMEASURED = {
    "target's import fails": (
        "--target needs_more:norm",
        NOT_LOADED,
        "import_error",
        "needs the module 'a_package_nobody_has'",
        "pip install a_package_nobody_has",
    ),
    "no such function": (
        "--target stats:grad_nrm",
        NOT_LOADED,
        "import_error",
        "stats has no 'grad_nrm'",
        "did you mean grad_norm?",
    ),
    "target that cannot be fed": (
        "--target stats:needs_a_database",
        NOTHING_MEASURED,
        "cannot_feed",
        "database: no value is known",
        "--argument",
    ),
    "no such device here": (
        "--target stats:grad_norm --device cuda",
        NOTHING_MEASURED,
        "no_device",
        "there is no CUDA device",
    ),
    "an interpreter that is none": (
        "--target stats:grad_norm --python true",
        NOT_LOADED,
        "no_interpreter",
        "is no Python",
    ),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("case", UNMEASURED.values(), ids=list(UNMEASURED))
def test_what_could_not_be_measured_is_said(
    workspace: Path, case: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is a document with the reason, and stderr names it."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    options, code, reason, *sentences = case
    ended = run_in(workspace, f"audit plain {PROBE} {options} --json")
    assert ended.code == code, ended.stderr
    (result,) = json.loads(ended.stdout)["results"]
    assert (result["reason"], result["severity"], result["ticket"]) == (reason, None, None)
    assert all(sentence in ended.stderr for sentence in sentences), ended.stderr
    assert ended.stderr.count("error: ") == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("probe list", OK),
        ("audit plain --probe sync_in_loop", NOTHING_MEASURED),
    ],
)
def test_a_reader_that_leaves_changes_no_exit_code(workspace: Path, line: str, code: int) -> None:
    """`| head -1`: no traceback, no complaint, and the code that the command would have had."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-P", "-m", "auditkit", *line.split()]
    done = subprocess.run(
        command, cwd=workspace, env=our_environment(), stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.returncode == code
    assert [
        text for text in done.stderr.splitlines() if not text.startswith(("error: ", "hint: ", "note: ", "checking "))
    ] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_output_that_is_lost_is_said() -> None:
    command = [sys.executable, "-P", "-m", "auditkit", "probe", "list"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, env=our_environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    told = "error: the output cannot be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (STORE_CONFLICT, told)


def test_closed_streams_are_no_error() -> None:
    """`>&- 2>&-`: Python has None for them."""
    command = ["sh", "-c", 'exec "$0" -P -m auditkit probe list >&- 2>&-', sys.executable]
    assert subprocess.run(command, env=our_environment(), check=False).returncode == OK
