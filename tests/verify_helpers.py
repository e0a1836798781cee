"""A small function with a defect, a fix that is none and one that is, and commits of it."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

LOOP = "sync_in_loop"
LOOP_PRINT = f"{LOOP}/1/train.norms:total_norm"
NAIVE = """import torch


def total_norm(grads):
    total = 0.0
    for grad in grads:
        total += (grad.float() * grad.float()).sum().item()
    return total**0.5
"""
WRONG = """import torch


def total_norm(grads):
    total = 0.0
    for norm in torch._foreach_norm(list(grads), 2):
        total += norm.item() ** 2
    return total**0.5
"""
RIGHT = """import torch


def total_norm(grads):
    norms = torch._foreach_norm(list(grads), 2, dtype=torch.float64)
    return torch.linalg.vector_norm(torch.stack(norms)).item()
"""


def git(folder: Path, *arguments: str) -> str:
    """What git prints, without a user's settings."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    author = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-c", "init.defaultBranch=main", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **quiet, **author}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    """A commit in which src/train/norms.py holds `text`."""
    file = folder / "src" / "train" / "norms.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "work")
    return git(folder, "rev-parse", "HEAD")


def state_of(*folders: Path) -> dict[str, str]:
    """Return every path below some folders, .git included, with its mode, and a file's time and hash."""
    found = {}
    for path in (path for folder in folders for path in folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        time_ns = "" if path.is_dir() else status.st_mtime_ns
        found[str(path)] = f"{status.st_mode} {time_ns} {hashlib.sha256(data).hexdigest()}"
    return found
