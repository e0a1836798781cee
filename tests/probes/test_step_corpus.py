"""Everyday training steps, broken and correct: every verdict was written before any probe ran on them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from auditkit.model.enums import Contract
from auditkit.model.runs.target import Target
from tests.probes.in_process import ask_all
from tests.probing_helpers import STEPS, TARGETS
from tests.sharing import one_of

CORPUS = TARGETS / "step_corpus"
VERDICTS: dict[str, dict[str, Any]] = yaml.safe_load((CORPUS / "verdicts.yaml").read_text(encoding="utf-8"))


@pytest.mark.acceptance
@pytest.mark.parametrize("name", one_of(2, VERDICTS))
def test_the_probes_report_what_the_verdict_says_and_nothing_else(name: str) -> None:
    answers = ask_all(Target(f"everyday:{name}", contract=Contract.TRAIN_STEP), STEPS, CORPUS)
    red = {probe: answer.severity for probe, answer in answers.items() if answer.outcome == "reproduced"}
    assert red == VERDICTS[name]["red"], {probe: answer.message for probe, answer in answers.items() if probe in red}
    assert {answer.outcome for answer in answers.values()} <= {"reproduced", "not_reproduced", "not_applicable"}
