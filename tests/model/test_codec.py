"""Every record has the keys that it names, and what is written is read again as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.codec import Record
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import ProbeResult, Run, TargetReading
from auditkit.model.runs.target import Target
from tests.compared_results import BASE, comparison
from tests.model.runs.test_run import RUN
from tests.test_schema import validator

WORDS = st.text(max_size=4)
CASES = st.dictionaries(WORDS, st.none() | st.booleans() | st.integers() | WORDS, max_size=2)
VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)


def tuples_of(one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(one, max_size=2).map(tuple)


MEASUREMENTS = st.builds(Measurement, value=VALUES, case=CASES) | st.builds(
    Measurement, value=st.sampled_from(["inf", "nan", "words"]), unit=st.just("text"), case=CASES
)
RESULTS = st.builds(
    ProbeResult,
    measurements=tuples_of(MEASUREMENTS),
    duration_s=st.integers(0, 10**6).map(lambda ms: ms / 1000),
    reason=st.none(),
    loaded=st.just(True),
    arm=st.just(""),
    arms=st.just(()),
    siblings=st.none(),
)
READINGS = st.builds(TargetReading, target=st.builds(Target, arguments=CASES))
RUNS = st.builds(Run, results=tuples_of(RESULTS), targets=tuples_of(READINGS), matrix=st.just(()))

FINDING = replace(RUN, id="20260304T050607Z-abcdef", environment=BASE, results=RUN.results[:1])


def through_json(record: Record) -> Any:
    return json.loads(json.dumps(record.to_json(), allow_nan=False))


@settings(max_examples=30)
@given(RUNS)
def test_any_run_is_read_as_it_was(made: Run) -> None:
    assert Run.from_json(through_json(made)) == made


@pytest.mark.parametrize(("name", "record"), [("run", FINDING), ("compare", comparison())])
def test_what_is_written_is_what_the_schema_says(name: str, record: Record) -> None:
    validator(name).validate(through_json(record))
