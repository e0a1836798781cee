"""`auditkit compare` and `auditkit report review`: what they print, refuse, and end with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError
from typer.testing import CliRunner

from auditkit.model.enums import Outcome, Severity
from tests.application import app
from tests.compared_history import make_history, state_of
from tests.compared_results import (
    BASE,
    HEAD,
    LAUNCHES,
    MEMORY,
    OVERFLOW,
    SYNCS,
    TARGET,
    after,
    before,
    comparison,
    result,
    run,
)  # fmt: skip
from tests.filing_helpers import put, ticket_text
from tests.project_files import Ended, auditkit
from tests.test_schema import document_of, validator


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """Two saved runs, base and head."""
    base, head = run(BASE, *before()), run(HEAD, *after())
    return (
        put(tmp_path, "base.json", json.dumps(base.to_json())),
        put(tmp_path, "head.json", json.dumps(head.to_json())),
    )


@pytest.fixture
def document(tmp_path: Path) -> Path:
    return put(tmp_path, "compare.json", json.dumps(comparison().to_json()))


def ask(*words: object) -> Ended:
    """The command in this process: it starts none itself."""
    ended = CliRunner().invoke(app, [str(word) for word in words])
    return Ended(ended.exit_code, ended.stdout, ended.stderr)


def compare_runs(*words: object) -> Ended:
    return ask("compare", "--runs", *words)


def test_two_saved_runs_are_compared(saved: tuple[Path, Path]) -> None:
    """Launches fixed, memory introduced, syncs unchanged; exit 1 for what is new, 0 below --fail-on."""
    found = document_of("compare", compare_runs(*saved, "--json"))
    (target,) = found["targets"]
    assert {one["probe"]: (one["change"], one["trend"]) for one in target["contrasts"]} == {
        SYNCS: ("still_sound", "same"),
        LAUNCHES: ("fixed", "better"),
        MEMORY: ("introduced", "worse"),
        OVERFLOW: ("still_reproduced", "same"),
    }
    assert found["summary"] == {
        "fixed": 1, "introduced": 1, "still_reproduced": 1, "still_sound": 1, "not_comparable": 0, "not_applicable": 0,
        "worsened": 0,
    }  # fmt: skip
    shown = compare_runs(*saved)
    assert (shown.code, compare_runs(*saved, "--fail-on", "P1").code) == (1, 0)
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "  fixed             P2  launches_grow_with_tensors          3n+1 -> 5  simulated\n" in shown.stdout
    assert "  still sound           syncs_grow_with_tensors             same: 1 -> 1  simulated\n" in shown.stdout
    assert "introduced        P2  peak_memory_grows_with_params       0.1 -> 2 bytes per gradient byte" in shown.stdout


def test_what_is_not_comparable_is_refused_unless_forced(saved: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing is shown of it; by force it is, and the difference with it."""
    head = put(tmp_path, "other.json", json.dumps(run(replace(HEAD, torch="2.15.0"), *after()).to_json()))
    refused = compare_runs(saved[0], head)
    assert (refused.code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: the two are not comparable: torch 2.13.0 against 2.15.0\nhint: ")
    forced = compare_runs(saved[0], head, "--force")
    assert "compared by force: torch 2.13.0 against 2.15.0\n" in forced.stdout
    assert "fixed             P2  launches_grow_with_tensors" in forced.stdout


def test_another_version_of_a_probe_is_not_comparable(saved: tuple[Path, Path], tmp_path: Path) -> None:
    """Row by row: the others are compared all the same. An error at the head ends with 3, and fixes nothing."""
    newer = [replace(one, probe_version=2) if one.probe == LAUNCHES else one for one in after()]
    head = put(tmp_path, "newer.json", json.dumps(run(HEAD, *newer).to_json()))
    found = document_of("compare", compare_runs(saved[0], head, "--json"))["summary"]
    assert (found["fixed"], found["not_comparable"]) == (0, 1)
    forced = document_of("compare", compare_runs(saved[0], head, "--json", "--force"))["summary"]
    assert (forced["fixed"], forced["not_comparable"]) == (1, 0)
    broken = put(tmp_path, "broken.json", json.dumps(run(HEAD, result(OVERFLOW, Outcome.ERROR)).to_json()))
    ended = compare_runs(saved[0], broken, "--force")
    assert (ended.code, "fixed" in ended.stdout) == (3, False)


def test_added_and_removed_targets_of_saved_runs(saved: tuple[Path, Path], tmp_path: Path) -> None:
    """By name alone; a finding of the new one is introduced, and the one that is gone fixes nothing."""
    moved = result(OVERFLOW, Outcome.REPRODUCED, target="trainer.norms:total_norm", severity=Severity.P1)
    head = put(tmp_path, "moved.json", json.dumps(run(HEAD, moved).to_json()))
    found = document_of("compare", compare_runs(saved[0], head, "--json"))
    assert {target["base"] or target["head"]: target["state"] for target in found["targets"]} == {
        TARGET: "removed",
        "trainer.norms:total_norm": "added",
    }
    assert (found["summary"]["fixed"], found["summary"]["introduced"]) == (0, 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["compare"], "error: name a checkout and two revisions of it"),
        (["compare", "--runs", "nothing.json", "nothing.json"], "error: nothing.json: No such file or directory"),
        (["compare", "--runs", "bad.json", "bad.json"], "error: bad.json:1:1: not JSON: "),
        (["compare", "--runs", "list.json", "list.json"], "error: list.json is no saved run: it is no JSON object"),
        (["compare", "--runs", "list.json", "list.json", "list.json"], "error: --runs takes two files"),
        (["compare", ".", "v1", "v2", "--device", "tpu"], "error: no such device: 'tpu'"),
        (["report", "review", "--from", "list.json"], "error: list.json is no saved comparison: it is no JSON object"),
        (["report", "review", "--from", "list.json", "."], "error: --from is a finished comparison"),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "bad.json", "no json")
    put(tmp_path, "list.json", "[]")
    ended = ask(*words)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(said), ended.stderr


@pytest.mark.process
def test_a_live_comparison_is_valid_and_writes_nothing(tmp_path: Path) -> None:
    """Source alone, so that no worker is needed: commits, files and tests are in the document."""
    repository = make_history(tmp_path / "trainer")
    before_it = state_of(repository)
    words = ("compare", repository, "overflowing", "widened", "--target", TARGET, "--probe", "public_function_untested")
    found = document_of("compare", auditkit(*words, "--json"))
    assert [commit["message"].partition("\n")[0] for commit in found["changes"]["commits"]] == [
        "fix: prevent overflow of the total norm"
    ]
    assert [test["name"] for test in found["changes"]["tests"]] == ["TestNorm::test_large_gradients_have_a_norm"]
    assert (found["targets"][0]["state"], found["base"]["device"]) == ("changed", "source")
    assert "1 commit, 2 files (+15 -15), 1 test added\n" in auditkit(*words).stdout
    assert state_of(repository) == before_it


def test_a_review_is_written_from_a_comparison(document: Path, tmp_path: Path) -> None:
    """Valid JSON, Markdown on stdout or in a file that nothing is lost by; exit 1 where it needs work."""
    words = ("report", "review", "--from", document, "--require", f"{LAUNCHES}: fixed", "--reviewer", "Kim")
    found = document_of("report_review", ask(*words, "--json"))
    assert (found["assessment"], found["reviewer"]) == ("NEEDS WORK", "Kim")
    assert (found["requirements"][0]["state"], found["requirements"][0]["origin"]) == ("CONFIRMED", "required")
    page = tmp_path / "review.md"
    written = ask(*words, "--output", page)
    assert (written.code, written.stdout, written.stderr) == (1, "", f"wrote {page}\n")
    assert page.read_text("utf-8") == ask(*words).stdout
    again = ask(*words, "--output", page)
    assert (again.code, again.stderr.partition("\n")[0]) == (2, f"error: {page} exists already; nothing was written")
    approved = put(tmp_path, "approved.json", json.dumps(comparison(head=before(), source=(), message="x").to_json()))
    assert ask("report", "review", "--from", approved).code == 0


def test_a_tickets_boxes_are_requirements(document: Path, tmp_path: Path) -> None:
    """The findings that it is bound to must be gone; the plan names it."""
    for number, probe in enumerate((LAUNCHES, OVERFLOW), 1):
        text = ticket_text(f"B7-PT-0{number}", fingerprint=f"{probe}/1/{TARGET}", title="a | title")
        put(tmp_path, f"tickets/B7-PT-0{number}.md", text)
    words = ("report", "review", "--from", document, "--tickets", tmp_path / "tickets", "--json", "--ticket")
    met, missed = (document_of("report_review", ask(*words, f"B7-PT-0{number}")) for number in (1, 2))
    assert met["plan"] == "ticket B7-PT-01: a | title"
    first = [each["requirements"][0] for each in (met, missed)]
    states = [(one["origin"], one["state"]) for one in first]
    assert states == [("ticket B7-PT-01", "CONFIRMED"), ("ticket B7-PT-02", "REFUTED")]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("targets", 0, "state"), "lost"),
        (("targets", 0, "contrasts", 0, "change"), "gone"),
        (("summary", "passed"), 1),
        (("base", "revision"), "HEAD"),
        (("schema_version",), 2),
    ],
    ids=str,
)
def test_a_wrong_comparison_is_refused(place: tuple[Any, ...], value: object) -> None:
    """The schema can fail."""
    found: Any = json.loads(json.dumps(comparison().to_json()))
    validator("compare").validate(found)
    inner = found
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(ValidationError):
        validator("compare").validate(found)
