"""`auditkit compare`: what it prints, refuses, and ends with; its review."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
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
    result,
    run,
)  # fmt: skip
from tests.filing_helpers import put
from tests.project_files import Ended, auditkit
from tests.test_schema import document_of


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """Two saved runs, base and head."""
    base, head = run(BASE, *before()), run(HEAD, *after())
    return (
        put(tmp_path, "base.json", json.dumps(base.to_json())),
        put(tmp_path, "head.json", json.dumps(head.to_json())),
    )


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
    assert (compare_runs(*saved).code, compare_runs(*saved, "--fail-on", "P1").code) == (1, 0)


def test_what_is_not_comparable_is_refused(saved: tuple[Path, Path], tmp_path: Path) -> None:
    head = put(tmp_path, "other.json", json.dumps(run(replace(HEAD, torch="2.15.0"), *after()).to_json()))
    refused = compare_runs(saved[0], head)
    assert (refused.code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: the two are not comparable: torch 2.13.0 against 2.15.0\nhint: ")


def test_another_version_of_a_probe_is_not_comparable(saved: tuple[Path, Path], tmp_path: Path) -> None:
    """Row by row: the others are compared all the same. An error at the head ends with 3, and fixes nothing."""
    newer = [replace(one, probe_version=2) if one.probe == LAUNCHES else one for one in after()]
    head = put(tmp_path, "newer.json", json.dumps(run(HEAD, *newer).to_json()))
    found = document_of("compare", compare_runs(saved[0], head, "--json"))["summary"]
    assert (found["fixed"], found["not_comparable"]) == (0, 1)
    broken = put(tmp_path, "broken.json", json.dumps(run(HEAD, result(OVERFLOW, Outcome.ERROR)).to_json()))
    ended = compare_runs(saved[0], broken)
    assert (ended.code, "### P1 fixed" in ended.stdout) == (3, False)


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
        (
            ["compare", "--runs", "list.json", "list.json"],
            "error: list.json is not a saved run: schema_version is",
        ),
        (["compare", "--runs", "list.json", "list.json", "list.json"], "error: --runs takes two files"),
        (["compare", ".", "v1", "v2", "--device", "tpu"], "error: no such device: 'tpu'"),
        (["compare", "--runs", "run.json", "run.json", "--plan", "x"], "error: x cannot be read: "),
    ],
    ids=" ".join,
)
def test_bad_input_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "bad.json", "no json")
    put(tmp_path, "list.json", "[]")
    put(tmp_path, "run.json", json.dumps(run(BASE, *before()).to_json()))
    ended = ask(*words)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith(said), ended.stderr


@pytest.mark.process
def test_a_live_comparison_is_valid_and_writes_nothing(tmp_path: Path) -> None:
    """Source alone, so that no worker is needed: commits and files are in the document."""
    repository = make_history(tmp_path / "trainer")
    before_it = state_of(repository)
    words = ("compare", repository, "overflowing", "widened", "--target", TARGET, "--probe", "public_function_untested")
    found = document_of("compare", auditkit(*words, "--json"))
    assert [commit["message"].partition("\n")[0] for commit in found["changes"]["commits"]] == [
        "fix: prevent overflow of the total norm"
    ]
    assert (found["targets"][0]["state"], found["base"]["device"]) == ("changed", "source")
    assert state_of(repository) == before_it


def test_a_review_is_written_from_two_runs(saved: tuple[Path, Path], tmp_path: Path) -> None:
    """Markdown on stdout or in a file, HTML by its name; exit 1 where it needs work, 0 where it is approved."""
    plan = put(tmp_path, "plan.md", f"- [ ] {LAUNCHES}: fixed\n")
    words = (*saved, "--format", "markdown", "--plan", plan)
    shown = compare_runs(*words)
    assert shown.code == 1
    assert f"- **met** {LAUNCHES}: fixed" in shown.stdout
    page = tmp_path / "review.html"
    written = compare_runs(*saved, "--output", page)
    assert (written.code, written.stdout, written.stderr) == (1, "", f"wrote {page}\n")
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert compare_runs(saved[0], saved[0], "--format", "markdown").code == 0
    empty = compare_runs(*saved, "--format", "markdown", "--plan", put(tmp_path, "empty.md", "no box\n"))
    assert (empty.code, "has no checkbox" in empty.stderr) == (2, True)


@pytest.mark.process
def test_the_tests_of_a_checkout_run_at_both_revisions(tmp_path: Path) -> None:
    repository = make_history(tmp_path / "trainer")
    words = ("compare", repository, "overflowing", "widened", "--target", TARGET, "--probe", "public_function_untested")
    command = "grep -q large_gradients tests/*.py"
    shown = auditkit(*words, "--format", "markdown", "--tests", command).stdout
    assert "base: failed with exit code 2; head: passed" in " ".join(shown.split())
