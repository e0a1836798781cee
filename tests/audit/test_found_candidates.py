"""What an audit says of all that reading found: short, grouped by reason, with nothing advised that was not tried."""

from __future__ import annotations

from auditkit.model.enums import Reason
from auditkit.model.runs.candidates import FoundCandidate
from auditkit.probing.run.found_candidates import summary_lines


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
