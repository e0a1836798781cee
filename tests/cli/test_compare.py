"""`auditkit compare`: what it prints, refuses, and ends with; its review."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from auditkit.model.schemas import schema
from tests.compared_history import make_history
from tests.compared_results import TARGET, comparison
from tests.filing_helpers import put
from tests.project_files import Ended, auditkit
from tests.test_schema import document_of
from tests.verify_helpers import state_of

UNTESTED = "public_function_untested"


def test_the_document_of_a_comparison_is_valid() -> None:
    """Launches fixed, memory introduced, syncs unchanged."""
    document = comparison().to_json()
    Draft202012Validator(schema("compare")).validate(document)
    assert document["summary"] == {
        "fixed": 1, "introduced": 2, "still_reproduced": 1, "still_sound": 1, "not_comparable": 0, "not_applicable": 0,
        "worsened": 0,
    }  # fmt: skip


@pytest.mark.process
def test_a_comparison_writes_nothing_into_the_repository(tmp_path: Path) -> None:
    """Source alone, so that no worker is needed: JSON, the review with its tests and its plan, and HTML by a name."""
    repository = make_history(tmp_path / "trainer")
    before_it = state_of(repository)

    def compared(*more: object) -> Ended:
        return auditkit("compare", repository, "overflowing", "widened", "--target", TARGET, "--probe", UNTESTED, *more)

    found = document_of("compare", compared("--json"))
    assert [commit["message"].partition("\n")[0] for commit in found["changes"]["commits"]] == [
        "fix: prevent overflow of the total norm"
    ]
    assert (found["targets"][0]["state"], found["base"]["device"]) == ("changed", "source")
    plan = put(tmp_path, "plan.md", f"- [ ] {UNTESTED}: fixed\n- [ ] rename it\n")
    reviewed = compared("--plan", plan, "--tests", "grep -q large_gradients tests/*.py")
    text = " ".join(reviewed.stdout.split())
    assert reviewed.code == 1
    assert "base: failed with exit code 2; head: passed" in text
    assert "- **not measurable** rename it: a requirement is one of" in text
    assert "- **met** the tests pass: " in text
    page = tmp_path / "review.html"
    assert compared("--output", page).stderr == f"wrote {page}\n"
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    empty = compared("--plan", put(tmp_path, "empty.md", "no box\n"))
    assert (empty.code, "has no checkbox" in empty.stderr) == (2, True)
    assert state_of(repository) == before_it
