"""A checkout whose gradients only torch's own function touches: it is asked, once, and its findings are torch's."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.audit.audit import AuditRequest, audit
from auditkit.config.config import Config
from auditkit.model.runs.run import Run
from auditkit.probing.run.run_options import RunOptions
from tests.filing_helpers import put
from tests.probing_helpers import OVERFLOW, SYNCS

pytestmark = pytest.mark.process

SCRIPT = """\
import torch
from missing_everywhere import model

def main(limit):
    torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

if __name__ == "__main__":
    main()
"""
CALL = "torch.nn.utils:clip_grad_norm_"


def asked(folder: Path, **more: object) -> Run:
    put(folder, "archive/train.py", SCRIPT)
    put(folder, "train.py", SCRIPT)
    options = RunOptions(Config(**more))  # type: ignore[arg-type]
    return audit(AuditRequest(str(folder), (options,), probes=(OVERFLOW, SYNCS), tickets=folder.parent / "tickets"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return asked(tmp_path_factory.mktemp("script") / "checkout")


def test_it_is_asked_once_with_all_places(run: Run) -> None:
    """Although the script can be imported by nobody. Calls in the archive are none of its places."""
    (reading,) = run.targets
    assert (reading.target.call, dict(reading.target.arguments)) == (CALL, {"max_norm": 1.0})
    assert reading.to_json()["places"] == ["train.py:5 in main", "train.py:6 in main"]
    assert Run.from_json(run.to_json()).targets == run.targets
    assert any("archive/ (archived, 1 file" in note for note in run.notes)
