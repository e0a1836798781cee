"""What an audit says of all that reading found: short, grouped by reason, with nothing advised that was not tried."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from auditkit.model.enums import Reason
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.probing.checkout.checkout import open_checkout
from auditkit.probing.engine.sandbox import Setting
from auditkit.probing.run.found_candidates import summary_lines
from auditkit.probing.run.found_targets import find_targets
from tests.filing_helpers import put


def found(call: str, **fields: object) -> FoundCandidate:
    return FoundCandidate(call, "a.py", 3, **fields)  # type: ignore[arg-type]


UNFED = {"reason": Reason.CANNOT_FEED, "why_not": "it needs mpu"}
MANY = [
    found("a:one", fed=True, rung="package"),
    found("b:two", fed=True, rung="cut_out", placeholders=("tqdm", "apex"), filled={"max_norm": "1.0"}),
    found("torch.nn.utils:get_total_norm", fed=True, rung="package", places=("b.py:3 in f", "b.py:9", "c.py:1")),
    found("old:norm", excluded="archive/"),
    *(found(f"c:f{number}", **UNFED) for number in range(40)),
    found("d:g", reason=Reason.TIMEOUT, why_not="no result within 30 s"),
]


def test_forty_candidates_are_a_few_lines() -> None:
    assert list(summary_lines(MANY)) == [
        "44 collectors found, 3 checked (1 cut out of their file, with stubs for apex, tqdm)",
        "    torch.nn.utils.get_total_norm: called at 3 places (b.py:3, b.py:9, ...)",
        "    40 not checked, nothing is known to fit what they take: c:f0, c:f1, c:f2 and 37 more",
        "    1 not checked: d:g: no result within 30 s",
        "    1 left out (-v names each): 1: archive/",
    ]
    assert list(summary_lines([])) == []
    passed_over = [found(f"e:{name}", excluded="it updates parameters") for name in "ab"]
    line = "    3 left out (-v names each): 2: it updates parameters; 1: archive/"
    assert list(summary_lines([*passed_over, MANY[3]])) == [line]


@pytest.mark.process
def test_a_helper_says_through_whom_it_is_asked(tmp_path: Path) -> None:
    """It is no target of its own, and is not dropped in silence."""
    helper = "def _total(grads):\n    return torch.stack([g.norm() for g in grads]).norm().item()\n"
    caller = "def norm(parameters):\n    return _total([p.grad for p in parameters if p.grad is not None])\n"
    put(tmp_path, "stats.py", f"import torch\n\n\n{helper}\n\n{caller}")
    with open_checkout(tmp_path, sys.executable) as opened:
        found = find_targets(opened, Setting(tmp_path, sys.executable, (tmp_path,)))
    assert [target.call for target in found.targets] == ["stats:norm"]
    told = {each.call: each.why_not for each in found.candidates}
    assert told == {"stats:norm": "", "stats:_total": "checked through stats:norm, which calls it"}
