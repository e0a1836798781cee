"""What TAB offers, in the words that bash, zsh and fish ask with; and that asking is quick and says nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from auditkit.probing.hosts.catalog import load_catalog
from tests.filing_helpers import put, ticket_text
from tests.project_files import ROOT, auditkit, our_environment

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two tickets, in `tickets` and elsewhere."""
    put(tmp_path / "tickets", "B7-PT-01.md", ticket_text("B7-PT-01"))
    put(tmp_path / "old", "B1-DRL-02.md", ticket_text("B1-DRL-02"))
    return tmp_path


def offered(line: str, cwd: Path) -> list[str]:
    """What bash is offered for the last word of a command line."""
    words = line.split(" ")
    asked = {"_AUDITKIT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    ended = auditkit(cwd=cwd, environment=asked)
    assert (ended.code, ended.stderr) == (0, "")
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("auditkit ticket s", ["show", "status"]),
        ("auditkit ticket show ", ["B7-PT-01"]),
        ("auditkit ticket verify --tickets old B", ["B1-DRL-02"]),
        ("auditkit ticket show --tickets nowhere ", []),
        ("auditkit ticket list --status in", ["investigating", "in-review"]),
        ("auditkit ticket list --severity P", ["P0", "P1", "P2", "P3", "P4"]),
        ("auditkit probe show norm_u", ["norm_underflows_to_zero"]),
    ],
)
def test_values_are_completed(line: str, expected: list[str], folder: Path) -> None:
    assert sorted(offered(line, folder)) == sorted(expected)


@pytest.mark.parametrize(
    ("shell", "answer"),
    [
        ("zsh", """_arguments '*: :(("norm_underflows_to_zero":"{title}"))'\n"""),
        ("fish", "norm_underflows_to_zero\t{title}\n"),
    ],
)
def test_zsh_and_fish_get_titles_too(shell: str, answer: str, folder: Path) -> None:
    line = "auditkit probe show norm_u"
    asked = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ended = auditkit(cwd=folder, environment={"_AUDITKIT_COMPLETE": f"complete_{shell}", **asked})
    title = load_catalog()["norm_underflows_to_zero"].title
    assert (ended.code, ended.stdout) == (0, answer.format(title=title))


def test_it_is_installed_for_the_shell_that_asks(tmp_path: Path) -> None:
    """A bash that reads its ~/.bashrc then completes `auditkit`, however it was started."""
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "auditkit"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m auditkit "$@"\n')
    command.chmod(0o755)
    surroundings = {**our_environment(), "HOME": str(tmp_path), "PATH": f"{command.parent}:/usr/bin:/bin"}
    script = (
        f"{sys.executable} -m auditkit --install-completion; source ~/.bashrc\n"
        "COMP_WORDS=(auditkit tic); COMP_CWORD=1; _auditkit_completion auditkit; echo $COMPREPLY"
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", script], cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    assert (ended.stderr, ended.stdout.splitlines()[-1]) == ("", "ticket")
