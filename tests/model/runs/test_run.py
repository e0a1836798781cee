"""A run read again from its own document: nothing is lost, and what is no run says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from auditkit.model.enums import Contract, Outcome, Reason, Takes
from auditkit.model.runs.cause import Sibling, Siblings, Statement
from auditkit.model.runs.measurement import Location, Measurement
from auditkit.model.runs.met_by import MetBy
from auditkit.model.runs.run import ProbeResult, Run, TargetReading
from auditkit.model.runs.target import Target
from tests.filing_helpers import make_finding

MET_BY = MetBy("run", ("trainer/loop.py:88",), 1.0, 148, ("float32",), ("cuda:0",), ("strided",), "24 November")
FINDING = make_finding(
    met_by=MET_BY,
    statement=Statement("src/train/norms.py", 10, 12),
    siblings=Siblings(pattern="x.norm()", places=(Sibling(Location("src/train/loop.py", 4, "step")),)),
    measurements=(Measurement("norm", float("-inf"), "value", {"tensors": 4}), Measurement("note", "inf", "text")),
    notes=("seen twice",),
    ticket="B7-PT-01",
    ticket_action="created",
)
ERROR = ProbeResult(
    "mutates_gradients", 1, "train.norms:total_norm", Outcome.ERROR, "no torch", "mutates_gradients/1/x",
    reason=Reason.NO_TORCH, loaded=False,
)  # fmt: skip
TARGET = Target("train.norms:total_norm", "total-norm", Contract.GRAD_NORM, Takes.MODULE, arguments={"n": 1})
RUN = Run(
    "run-1",
    FINDING.environment,
    (FINDING.result, ERROR),
    (TargetReading(TARGET, {"norm": ""}, "float", found=True),),
    ("a note",),
)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "schema_version is None, not 1"),
        ({"schema_version": 2}, "schema_version is 2, not 1"),
        ({"schema_version": 1}, "a part of it is missing or of the wrong type: 'run'"),
        (
            {**RUN.to_json(), "results": [{"probe": "x"}]},
            "a part of it is missing or of the wrong type: 'measurements'",
        ),
        (
            {**RUN.to_json(), "results": [{**ERROR.to_json(), "outcome": "passed"}]},
            "Invalid enum value 'passed' - at `\\$.results",
        ),
    ],
)
def test_what_is_no_run_says_why(document: object, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Run.from_json(document)


@pytest.mark.parametrize(
    ("met_by", "sentence"),
    [
        (MET_BY, "in the run of 24 November: once a step from trainer/loop.py:88, 148 float32 tensors on cuda:0"),
        (replace(MET_BY, calls_per_step=0.02, tensors=None), "in the run of 24 November: once in 50 steps from"
         " trainer/loop.py:88"),
        (MetBy("run", calls_per_step=0.0, tensors=1, dtypes=("float16", "float32"), layouts=("sparse_coo",)),
         "in the run: called outside of the steps, 1 float16 and float32 sparse_coo tensor"),
        (MetBy("read", ("a.py:1", "a.py:2", "b.py:3")), "called from a.py:1, a.py:2 and 1 more"),
        (MetBy("read"), "no caller in this checkout"),
    ],
)  # fmt: skip
def test_a_reader_learns_who_meets_a_finding(met_by: MetBy, sentence: str) -> None:
    assert met_by.sentence() == sentence
