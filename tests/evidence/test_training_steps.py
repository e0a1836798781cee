"""The page about public trainers is what its stored answers say, and they are those on record."""

from __future__ import annotations

from benchmarks.evidence import fill, page_of, results_of
from benchmarks.training_steps import PAGE, SUBJECTS, page


def test_the_page_is_written_from_its_answers_and_they_are_those_on_record() -> None:
    stored = results_of(PAGE)
    blocks, others = page(stored["rows"])
    text = page_of(PAGE).read_text(encoding="utf-8")
    assert fill(text, PAGE, blocks) == text
    assert others == []


def test_an_answer_that_is_not_on_record_is_told() -> None:
    stored = results_of(PAGE)
    rows = stored["rows"]
    sound = next(index for index, each in enumerate(SUBJECTS) if not each.red)
    found = {"outcome": "reproduced", "probe": "a_probe", "severity": "P1", "message": "", "location": None}
    rows[sound]["results"][0] = found
    assert page(rows)[1] == [f"{SUBJECTS[sound].name}: a_probe"]
