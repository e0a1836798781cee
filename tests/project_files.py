"""The files of the project, and how our own tests start its commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("auditkit", "probes", "templates", "tickets", "tests", "docs", "benchmarks", ".ci")
_TEXT = {".py", ".md", ".j2", ".json", ".toml", ".txt", ".yaml", ".yml", ".svg", ""}


def project_files() -> list[Path]:
    """Every text file that belongs to the project: no caches, no build output, no virtual environment."""
    # In a worktree of git .git is a file, with the path of the repository.
    top = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(path for path in top + below if path.suffix in _TEXT and "__pycache__" not in path.parts)


@dataclass(frozen=True)
class Ended:
    """How a command ended, and all that it printed."""

    code: int
    stdout: str
    stderr: str


def auditkit(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit_s: float = 300.0,
) -> Ended:
    """`python -m auditkit ARGUMENTS...` in a process of its own, with its output in pipes."""
    return run_program(
        [sys.executable, "-m", "auditkit", *map(str, arguments)],
        cwd=cwd,
        environment=environment,
        time_limit_s=time_limit_s,
    )


def run_program(
    command: Sequence[str],
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    time_limit_s: float = 300.0,
) -> Ended:
    """Any command, with our own checkout first among the places that Python imports from."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**our_environment(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=time_limit_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def our_environment() -> dict[str, str]:
    """This process's environment, with our checkout importable and no colours."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
