"""Pages of docs whose console blocks are run again: each command, and what it prints now."""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

DAY = "2026-03-04"
"""The day that such a page was written on, in the place of today's."""

BLOCK = re.compile(r"^(`{3,})console\n(.*?)(?=^\1$)", re.DOTALL | re.MULTILINE)
HASH = re.compile(r"\b(?:[0-9a-f]{40}|[0-9a-f]{12})\b")
TORCH = re.compile(r"\btorch \d[\w.+]*")
ENGINE = re.compile(r"\bbubblewrap \d[\d.]+")
MACHINE = re.compile(r"(?<=, Python )[\d.]+, .*")
ROUNDING = re.compile(r"\(at most \S+ apart\)")
RUN = re.compile(r"\b\d{8}T\d{6}Z-\w{6}\b")


def environment() -> dict[str, str]:
    """This process's, with a fixed author, and no settings of git's users."""
    told = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "AUDITKIT_"))}
    author = {f"GIT_{who}_{what}": "A Person" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    dates = {f"GIT_{who}_DATE": "2025-10-01T05:06:07Z" for who in ("AUTHOR", "COMMITTER")}
    return {
        **told, **author, **dates, "NO_COLOR": "1", "COLUMNS": "100", "TERM": "dumb", "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }  # fmt: skip


def git(folder: Path, *arguments: str) -> None:
    """git, as the pages' commands run it."""
    subprocess.run(["git", *arguments], cwd=folder, check=True, env=environment(), capture_output=True)


def run_block(block: str, folder: Path) -> str:
    """The block again, each command followed by what it prints now, stdout before stderr."""
    shown = []
    for line in block.splitlines():
        if line.startswith("$ "):
            script = f'PATH="{Path(sys.executable).parent}:$PATH"\n{line.removeprefix("$ ")}\n'
            done = subprocess.run(
                ["bash", "-c", script], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300
            )
            printed = done.stdout + done.stderr
            shown.append(line + "\n" + printed.replace(datetime.date.today().isoformat(), DAY))
    return "".join(shown)


def check_page(page: Path, folder: Path, update: bool) -> None:
    """Run the page's blocks in `folder` and compare the output; hashes, run ids, rounding and machine may differ."""
    text = page.read_text(encoding="utf-8")
    blocks = [block for _, block in BLOCK.findall(text)]
    printed = [run_block(block, folder) for block in blocks]
    if update:
        answers = iter(printed)
        page.write_text(BLOCK.sub(lambda match: f"{match[1]}console\n{next(answers)}", text), encoding="utf-8")
        return
    assert [_steady(block) for block in blocks] == [_steady(block) for block in printed]


def _steady(block: str) -> str:
    block = ROUNDING.sub("ROUNDING", MACHINE.sub("MACHINE", block))
    block = ENGINE.sub("bubblewrap VERSION", block)
    return TORCH.sub("torch VERSION", HASH.sub("HASH", RUN.sub("RUN", block)))
