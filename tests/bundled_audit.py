"""`auditkit audit` on the bundled specimen: 150 s of processor time, run once for all tests that look at it."""

from __future__ import annotations

import functools
import pickle
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from auditkit.model.runs.run import Run
from tests.project_files import Ended, run_program
from tests.sharing import once

# The command as it is, whose run is stored besides; its fixes have the time that a busy machine takes for them.
DRIVER = """
import dataclasses, pickle, sys
from auditkit.cli.main import main
from auditkit.audit import audit as workflow

ask, path = workflow.audit, sys.argv.pop()

def audit(request, progress=None):
    run = ask(dataclasses.replace(request, fix_time_s=800.0), progress)
    with open(path, "wb") as file:
        pickle.dump(run, file)
    return run

workflow.audit = audit
sys.argv[0] = "auditkit"
main()
"""


class BundledAudit(NamedTuple):
    """How the command ended, its run, and the tickets that it filed, by id."""

    ended: Ended
    run: Run
    tickets: dict[str, str]


@functools.cache
def bundled_audit() -> BundledAudit:
    """The audit in an empty folder, in a process of its own with real workers."""
    return once("bundled-audit", _audit)


def _audit() -> BundledAudit:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "empty"
        folder.mkdir()
        stored = Path(name) / "run"
        ended = run_program([sys.executable, "-c", DRIVER, "audit", str(stored)], cwd=folder, time_limit_s=1800.0)
        tickets = (folder / "auditkit-demo" / "tickets").rglob("B*.md")
        texts = {path.stem: path.read_text(encoding="utf-8") for path in tickets}
        return BundledAudit(ended, pickle.loads(stored.read_bytes()), texts)
