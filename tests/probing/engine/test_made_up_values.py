"""What we make up for a target is never held against it."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditkit.model.enums import Outcome, Reason
from tests.probing_helpers import GRAPHS, MISSING, run_probes
from tests.source_helpers import write

pytestmark = pytest.mark.process

TRAINER = """
class Trainer:
    def __init__(self, loader, schedule, tokenizer):
        self.loader, self.schedule, self.tokenizer = loader, schedule, tokenizer

    def norm(self):
        return sum((self.frobnicator if p.grad is None else p.grad).norm() for p in self.params)

    def own_norm(self):
        return sum(p.grad.norm() for p in self.params)
"""


def test_a_value_that_we_lack_is_no_defect_of_the_target(tmp_path: Path) -> None:
    """The control: what the target raises of itself for a parameter without a gradient is one."""
    write(tmp_path, {"trainer.py": TRAINER})
    theirs = run_probes(tmp_path, "trainer:Trainer.own_norm", [MISSING], time_limit_s=20.0).results[0]
    assert theirs.outcome is Outcome.REPRODUCED
    missing, graphs = run_probes(tmp_path, "trainer:Trainer.norm", [MISSING, GRAPHS], time_limit_s=20.0).results
    assert (missing.outcome, missing.reason) == (Outcome.ERROR, Reason.CANNOT_FEED)
    assert "self.frobnicator: no value is known" in missing.message
    assert graphs.outcome is Outcome.NOT_APPLICABLE
    assert "are stubs" in graphs.message
