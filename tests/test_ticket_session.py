"""docs/tickets.md shows a folder of tickets at work: its commands are run here, and print what the page says."""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tickets.md"
OLD_AUDIT = ROOT / "tests" / "data" / "old_audit"
DAY = "2026-03-04"
"""The day that the page was written on, in the place of today's."""

_BLOCK = re.compile(r"(?<=^```console\n)(.*?)(?=^```$)", re.DOTALL | re.MULTILINE)
_HASH = re.compile(r"\b[0-9a-f]{40}\b")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository of a small training project, with the folder of an old audit beside it."""
    repository = tmp_path / "project"
    sources = {"norms.py": 60, "clipping.py": 60, "loop.py": 120, "stats.py": 20, "log.py": 60}
    for name, count in sources.items():
        path = repository / "src" / "train" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line_{number} = {number}\n" for number in range(1, count + 1)), encoding="utf-8")
    shutil.copytree(OLD_AUDIT, repository / "old_audit")
    titles = [re.search(r"# Finding Ticket: (.*)", file.read_text("utf-8")) for file in OLD_AUDIT.rglob("B*.md")]
    report = "# Audit of November 2025\n" + "".join(f"\n## {title[1]}\n" for title in titles if title)
    (repository / "audits").mkdir()
    (repository / "audits" / "2025-11.md").write_text(report, encoding="utf-8")
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "the code that was audited"]):
        _git(repository, *command)
    return repository


def _environment() -> dict[str, str]:
    told = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "AUDITKIT_"))}
    author = {f"GIT_{who}_{what}": "A Person" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {f"GIT_{who}_DATE": "2025-10-01T05:06:07Z" for who in ("AUTHOR", "COMMITTER")}
    return {
        **told, **author, **dates, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }  # fmt: skip


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, env=_environment(), capture_output=True)


def _run(block: str, folder: Path) -> str:
    """The block again, each command followed by what it prints now, stdout before stderr."""
    shown = []
    for line in block.splitlines():
        if line.startswith("$ "):
            script = f'auditkit() {{ "{sys.executable}" -m auditkit "$@"; }}\n{line.removeprefix("$ ")}\n'
            done = subprocess.run(
                ["bash", "-c", script], cwd=folder, env=_environment(), capture_output=True, text=True, timeout=120
            )
            printed = done.stdout + done.stderr
            shown.append(line + "\n" + printed.replace(datetime.date.today().isoformat(), DAY))
    return "".join(shown)


def test_the_page_shows_what_its_commands_print(project: Path, request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    blocks = _BLOCK.findall(page)
    assert len(blocks) >= 8
    printed = [_run(block, project) for block in blocks]
    if request.config.getoption("--update-golden"):
        answers = iter(printed)
        PAGE.write_text(_BLOCK.sub(lambda _: next(answers), page), encoding="utf-8")
        return
    assert [_HASH.sub("HASH", block) for block in blocks] == [_HASH.sub("HASH", block) for block in printed]
