"""Small sweeps for tests: repositories, jobs that ask one quick probe, and what is left of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from auditkit.model.enums import DeviceChoice
from auditkit.sweep.jobs import EnvironmentSpec, Job, Resources, line_of
from tests.filing_helpers import put
from tests.project_files import ROOT
from tests.verify_helpers import LOOP, NAIVE, git


def repository(folder: Path, *names: str) -> Path:
    """A git repository with one collector that reads the device in a loop, and a commit for each name, tagged so."""
    put(folder, "train/norms.py", NAIVE)
    git(folder, "init", "-q", "--template=")
    for name in names or ("v1",):
        put(folder, "train/version.py", f"VERSION = {name!r}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", name)
        git(folder, "tag", name)
    return folder


def commit_of(folder: Path, revision: str = "HEAD") -> str:
    return git(folder, "rev-parse", revision).strip()


def job(folder: Path, name: str = "", revision: str = "", **more: Any) -> Job:
    """A job that reads the source alone: it starts no worker, and takes half a second."""
    fields: dict[str, Any] = {
        "name": name or folder.name,
        "repository": str(folder),
        "revision": revision or commit_of(folder),
        "probes": (LOOP,),
        "environment": EnvironmentSpec(),
        "device": DeviceChoice.CPU,
        "resources": Resources(100),
    }
    return Job("", **{**fields, **more})


def plan(path: Path, jobs: Sequence[Job]) -> Path:
    path.write_text("".join(f"{line_of(one)}\n" for one in jobs), encoding="utf-8")
    return path


def command(*words: object) -> list[str]:
    return [sys.executable, "-P", "-m", "auditkit", *map(str, words)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def auditkit(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), cwd=cwd, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def wait_for(happened: Callable[[], Any], limit_s: float = 30.0) -> Any:
    """What `happened` says as soon as that is something."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        found = happened()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError("it did not happen")


def processes_of(folder: Path, key: str = "") -> list[int]:
    """The processes of the folder's jobs, or of one job."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if b"sweep.execution" in words and f'{folder}"'.encode() in words and key.encode() in words:
                found.append(int(name))
    return found


def begun_by(folder: Path, key: str) -> int:
    """The process of a job, 0 if there is none."""
    return next(iter(processes_of(folder, key)), 0)


def results(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_bytes()) for path in sorted((folder / "results").glob("*.json"))}
