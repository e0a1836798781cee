"""A small repository with a defect, a fix that is none and one that is, for the tests of verification."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from auditkit.model.tickets.ticket import Ticket
from auditkit.store.folder.repository import Repository
from auditkit.workflows.proof.verify import Verification, VerifyRequest, verify

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
TICKET = """# Finding Ticket: The norm is read in a loop

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `B7-PT-01` |
| **Severity** | `P1` |
| **Status** | `open` |
| **Batch** | 7 |
| **Agent** | `pytorch` |
| **Domain** | `train` |
| **Assignee** | |
| **Created** | 2026-03-04 |
| **Updated** | 2026-03-04 |

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `/home/dana/trainer/src/train/norms.py` |
| **Line(s)** | `4-8` |
| **Function/Class** | `total_norm()` |

## Recommended Fix

Do it at once.

## Verification

- [ ] by hand
- [ ] one
- [ ] two
"""


@dataclass(frozen=True)
class Story:
    """The repository and its commits in their order; `tickets` lies outside of it."""

    folder: Path
    tickets: Path
    broken: str
    wrong: str
    right: str

    @property
    def file(self) -> Path:
        return self.folder / "src" / "train" / "norms.py"

    def put_ticket(self, *boxes: str, more: str = "") -> None:
        """The hand-written ticket, with the text of some of its boxes replaced."""
        text = TICKET
        for box, told in zip(("one", "two"), boxes, strict=False):
            text = text.replace(f"- [ ] {box}\n", f"- [ ] {told}\n")
        self.tickets.mkdir(exist_ok=True)
        (self.tickets / "B7-PT-01.md").write_text(text + more, encoding="utf-8")

    def text(self) -> str:
        return (self.tickets / "B7-PT-01.md").read_text(encoding="utf-8")

    def ticket(self) -> Ticket:
        return Repository(self.tickets).find("B7-PT-01").ticket

    def verify(self, at: str = "", base: str = "", **more: object) -> Verification:
        request = VerifyRequest(str(self.folder), at=at, base=base, **more)  # type: ignore[arg-type]
        return verify(Repository(self.tickets), "B7-PT-01", request)


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


def tell_story(folder: Path) -> Story:
    """The repository in `folder / "trainer"`, with its last commit checked out."""
    template, commits = _repository()
    repository = Path(shutil.copytree(template.name, folder / "trainer"))
    return Story(repository, folder / "tickets", *commits)


@functools.cache
def _repository() -> tuple[tempfile.TemporaryDirectory[str], list[str]]:
    """Made once, because each of its commits takes several processes: the broken, the wrong and the right one."""
    folder = tempfile.TemporaryDirectory(prefix="story-")
    git(Path(folder.name), "init", "-q", "--template=")
    return folder, [commit(Path(folder.name), text) for text in (NAIVE, WRONG, RIGHT)]
