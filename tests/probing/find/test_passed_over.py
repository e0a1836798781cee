"""Words in a function decide nothing: what it does makes it a candidate, or is the reason for which it is left out."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditkit.probing.find.search import Discovery, discover


def read(root: Path, source: str) -> Discovery:
    (root / "m.py").write_text("import torch\n" + textwrap.dedent(source))
    return discover(root)


def functions(found: Discovery) -> list[str]:
    return [each.call for each in found.candidates if "#" not in each.call]


UPDATES = {
    "p.data.add_(p.grad / norm, alpha=-self.rate)": "it updates parameters",
    "self.average[p].lerp_(p.grad, 0.1)": "it updates parameters",
    "self.inner.step()": "it trains: it calls backward or an optimizer",
}


@pytest.mark.parametrize("update", UPDATES)
def test_what_is_left_out_has_a_reason(update: str, tmp_path: Path) -> None:
    """An update rule and a training step are no collectors, whatever they are called, and discovery says so."""
    source = f"""
    class Rule:
        def apply(self, parameters):
            worst = 0.0
            for p in parameters:
                norm = p.grad.norm()
                worst = max(worst, norm)
                {update}
            return worst
    """
    found = read(tmp_path, source)
    assert functions(found) == []
    reasons = [(each.call, each.excluded) for each in found.passed_over]
    is_block = any("#" in each.call for each in found.candidates)
    assert reasons == ([] if is_block else [("m:Rule.apply", UPDATES[update])])
