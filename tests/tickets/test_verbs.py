"""The verbs of `auditkit ticket` on a small folder in a repository."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from auditkit.model.ticket import Evidence, Status
from auditkit.tickets.lint import RULES, rule_name
from auditkit.tickets.store import TicketFolder
from tests.application import app
from tests.filing_helpers import put, ticket_text
from tests.verify_helpers import LOOP, LOOP_PRINT, NAIVE, RIGHT, git

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of kim with a function, its fix by kim, and three tickets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    git(tmp_path, "init", "-q", "--template=")
    git(tmp_path, "config", "user.name", "kim")
    put(tmp_path, "src/train/norms.py", NAIVE)
    commit(tmp_path, "defect")
    put(tmp_path, "src/train/norms.py", RIGHT)
    commit(tmp_path, "fix")
    at = {"location": "src/train/norms.py:5"}
    links = ("blocked-by B7-PT-03",)
    put(tmp_path, "tickets/B7-PT-01.md", ticket_text(fingerprint=LOOP_PRINT, **at))
    put(tmp_path, "tickets/B7-PT-02.md", ticket_text("B7-PT-02", severity="P1", links=links, **at))
    put(tmp_path, "tickets/B7-PT-03.md", ticket_text("B7-PT-03", severity="P3", assignee="ada", labels=("slow",), **at))
    return tmp_path


def commit(folder: Path, message: str) -> str:
    git(folder, "add", ".")
    git(folder, "commit", "-qm", message, "--author=kim <kim@x>")
    return git(folder, "rev-parse", "HEAD")


def run(*words: object) -> Result:
    return CliRunner().invoke(app, ["ticket", *map(str, words)])


def done(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*words: object) -> dict[str, Any]:
    return dict(json.loads(run(*words, "--json").stdout))


def text(place: Path, ticket: str = "B7-PT-01") -> str:
    return (place / "tickets" / f"{ticket}.md").read_text("utf-8")


def prove(place: Path, **changes: Any) -> None:
    """Write the proof that `verify` writes: red at the defect, green at the fix."""
    proof = {
        "base": git(place, "rev-parse", "HEAD~1"),
        "fix": git(place, "rev-parse", "HEAD"),
        "dirty": False,
        "findings": {LOOP_PRINT: {"state": "proven", "before": "reproduced", "after": "not_reproduced"}},
    }
    results = ({"fingerprint": LOOP_PRINT, "outcome": "reproduced", "probe": LOOP},)
    TicketFolder(place / "tickets").save_evidence(
        Evidence(ticket="B7-PT-01", results=results, proof={**proof, **changes})
    )


def test_a_list_shows_the_open_tickets_worst_first(place: Path) -> None:
    done("resolve", "B7-PT-01", "not-a-bug", "--note", "as meant")
    lines = done("list").splitlines()
    assert [line.split()[0] for line in lines] == ["id", "B7-PT-02", "B7-PT-03"]
    assert [line.split()[0] for line in done("list", "--all").splitlines()[1:]] == ["B7-PT-02", "B7-PT-03", "B7-PT-01"]
    assert done("list", "--where", "labels=slow", "--format", "csv").splitlines()[1].startswith("B7-PT-03,P3,open,ada,")
    assert [one["id"] for one in document("list", "--where", "severity!=P1")["tickets"]] == ["B7-PT-03"]
    assert done("list", "--severity", "P1", "--count-by", "assignee", "--format", "markdown").splitlines() == [
        "| count | assignee |", "|---|---|", "| 1 | (none) |",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "--where", "status=opne"), "did you mean open?"),
        (("list", "--where", "sevrity=P1"), "did you mean severity?"),
        (("edit", "B7-PT-01", "assigne=kim"), "did you mean assignee?"),
        (("edit", "B7-PT-01", "labels=a", "severity=P9"), "one of P0, P1, P2, P3, P4"),
        (("edit", "B7-PT-01", "status=fixed"), "auditkit ticket resolve B7-PT-01 fixed"),
        (("status", "B7-PT-01", "B7-PT-09", "in-review"), "did you mean"),
        (("status", "B7-PT-01", "fixed"), "auditkit ticket resolve B7-PT-01 fixed"),
        (("review", "B7-PT-01", "ENDORSE", "--role", "torch"), "auditkit.yaml names them"),
        (("resolve", "B7-PT-01", "wont-fix"), "--note TEXT"),
        (("resolve", "B7-PT-01", "duplicate"), "no duplicate link"),
    ],
)
def test_bad_input_is_named_and_nothing_is_written(place: Path, words: tuple[str, ...], told: str) -> None:
    before = {path: path.read_bytes() for path in (place / "tickets").glob("*.md")}
    result = run(*words)
    assert (result.exit_code, told in result.stderr) == (2, True), result.output
    assert {path: path.read_bytes() for path in (place / "tickets").glob("*.md")} == before


def test_next_is_what_is_worst_and_free_and_says_why(place: Path) -> None:
    assert document("next")["next"]["id"] == "B7-PT-01"
    assert document("next")["blocked"] == {"B7-PT-02": ["B7-PT-03"]}
    done("edit", "B7-PT-02", "links=")
    assert "nothing free is worse (the only one with P1)" in done("next")
    done("edit", "B7-PT-03", "assignee=kim", "status=in-review")
    assert "you started it: it is in-review" in done("next")


def test_fields_are_set_added_to_and_cleared_in_several_tickets(place: Path) -> None:
    done("edit", "B7-PT-1", "B7-PT-03", "labels+=amp,gpu", "labels-=slow", "assignee=")
    folder = TicketFolder(place / "tickets")
    assert [folder.read(name).ticket.labels for name in ("B7-PT-01", "B7-PT-03")] == [("amp", "gpu")] * 2
    assert folder.read("B7-PT-03").ticket.assignee == ""
    done("status", "--where", "labels=gpu", "investigating")
    assert [ticket.status for ticket in folder.listing().tickets] == [
        Status.INVESTIGATING, Status.OPEN, Status.INVESTIGATING,
    ]  # fmt: skip


def test_a_new_ticket_has_its_template_until_somebody_replaces_it(place: Path) -> None:
    told = done("new", "--title", "x: y", "--location", "src/train/norms.py:1", "--batch", "7", "--agent", "DRL")
    assert told.startswith("B7-DRL-01: P2 open, ")
    assert 'title: "x: y"' in text(place, "B7-DRL-01")
    assert "template-text-left" in run("lint", "B7-DRL-01").stdout


def test_a_review_names_the_reviewer_the_role_and_the_revision(place: Path) -> None:
    put(place, "auditkit.yaml", "reviews: {roles: [pytorch, drl], required: 2}\n")
    head = git(place, "rev-parse", "--short=12", "HEAD")
    done("review", "B7-PT-01", "refine", "--severity", "P3", "--role", "drl", "--as", "ada", "--note", "only with amp")
    assert f" at {head}: only with amp\n" in text(place)
    assert "- **REFINE** P3 · ada via kim (drl) · 20" in text(place)
    shown = done("show", "B7-PT-01")
    assert (text(place) in shown, "Consensus: incomplete: missing: pytorch" in shown) == (True, True)
    done("review", "B7-PT-01", "OBJECT", "--role", "pytorch")
    assert document("show", "B7-PT-01")["tickets"][0]["consensus"] == "disputed: kim of 2 objects"


def test_a_review_is_stale_once_the_function_has_changed(place: Path) -> None:
    """A comment and moved lines change nothing."""
    done("review", "B7-PT-01", "ENDORSE")
    put(place, "src/train/norms.py", "# a comment\n\n" + RIGHT)
    assert "stale-review" not in run("lint", "B7-PT-01").stdout
    put(place, "src/train/norms.py", NAIVE)
    assert "stale-review: total_norm has changed since kim reviewed" in run("lint", "B7-PT-01").stdout
    assert document("show", "B7-PT-01")["tickets"][0]["consensus"] == "none: no review, 1 stale; stale: kim"


def test_fixed_needs_a_proof_and_another_persons_review(place: Path) -> None:
    """Each missing thing is named with its command; with both the line says what was proven."""
    head = git(place, "rev-parse", "HEAD")
    words = ("resolve", "B7-PT-01", "fixed", "--commit", head[:9])
    refused = run(*words)
    assert refused.exit_code == 2
    assert "- no red-then-green verification: auditkit ticket verify B7-PT-01 " in refused.stderr
    assert "- no review by someone other than the author of the commit (kim): auditkit ticket review" in refused.stderr
    done("review", "B7-PT-01", "ENDORSE")
    prove(place)
    assert "no review by someone other" in run(*words).stderr
    assert "red-then-green" not in run(*words).stderr
    git(place, "config", "user.name", "lin")
    done("review", "B7-PT-01", "OBJECT")
    assert "no review by someone other" in run(*words).stderr
    done("review", "B7-PT-01", "ENDORSE")
    done(*words)
    assert "status: fixed" in text(place)
    assert f"- fixed in {head[:12]} by lin, " in text(place)
    assert "green at" in text(place).partition("## Resolution")[2]
    assert "1 of 1 findings" in " ".join(text(place).split())
    assert "fixed-but-reproduces" not in run("lint", "B7-PT-01").stdout


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"dirty": True}, "does not contain"),
        ({"fix": "HEAD~1"}, "does not contain"),
        ({"findings": {}}, "not red then green"),
        ({"findings": {LOOP_PRINT: {"state": "vacuous"}}}, "(vacuous)"),
    ],
)
def test_a_proof_of_something_else_is_none(place: Path, changes: dict[str, Any], told: str) -> None:
    prove(place, **changes)
    assert told in run("resolve", "B7-PT-01", "fixed", "--commit", "HEAD").stderr


def test_force_writes_down_what_is_missing(place: Path) -> None:
    done("resolve", "B7-PT-01", "fixed", "--commit", "HEAD", "--force")
    assert "forced: no red-then-green verification; no review" in " ".join(text(place).split())


def violated(place: Path) -> dict[str, Any]:
    """For each rule a change of the folder that violates it."""
    first = place / "tickets" / "B7-PT-01.md"

    def change(old: str, new: str) -> str:
        assert old in first.read_text(), old
        first.write_text(first.read_text().replace(old, new))
        return first.name

    unknown = "- **ENDORSE** P2 · ada · 2026-01-02 · at 1234567"
    head = git(place, "rev-parse", "HEAD")
    return {
        "schema": lambda: change("status: open", "status: opne"),
        "id-is-not-the-file-name": lambda: change("id: B7-PT-01", "id: B7-PT-04"),
        "duplicate-id": lambda: change("id: B7-PT-01", "id: B7-PT-02"),
        "path-missing": lambda: change("norms.py:5", "norm.py:5"),
        "line-past-end": lambda: change("norms.py:5", "norms.py:99"),
        "unknown-commit": lambda: change("none yet", unknown),
        "commit-not-in-revision": lambda: (
            git(place, "reset", "-q", "--soft", "HEAD~1"),
            change("status: open", "status: closed"),
            change("none yet\n", f"none yet\n\n## Resolution\n- closed in {head[:9]} by kim, 2026-01-02\n"),
        )[1],
        "fixed-but-reproduces": lambda: (prove(place, findings={}), change("status: open", "status: closed"))[1],
        "finished-without-resolution": lambda: change("status: open", "status: closed"),
        "ticked-but-reproduces": lambda: (prove(place, findings={}), change("- [ ] a test", f"- [x] probe: {LOOP}"))[1],
        "stale-review": lambda: (
            change("none yet", unknown.replace("1234567", head[:9])),
            put(place, "src/train/norms.py", NAIVE),
        )[0],
        "linked-id-missing": lambda: change("links: []", "links: [related B9-PT-01]"),
        "blocked-by-cycle": lambda: (
            change("links: []", "links: [blocked-by B7-PT-02]"),
            done("edit", "B7-PT-03", "links=blocked-by B7-PT-01"),
        )[0],
        "template-text-left": lambda: change(
            "none yet", "none yet\n\n## Notes\n(The smallest change that fixes it, or why there is none)"
        ),
        "conflict-marks": lambda: change("labels: []", "labels: []\nlabels: [a]"),
    }


@pytest.mark.parametrize("rule", [rule_name(rule) for rule in RULES])
def test_lint_names_each_violation_and_nothing_in_a_clean_folder(place: Path, rule: str) -> None:
    commit(place, "tickets")
    assert run("lint").stdout == ""
    name = violated(place)[rule]()
    result = run("lint")
    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if f"{name}:" in line and f": {rule}: " in line], result.stdout
    assert rule in {one["rule"] for one in document("lint")["findings"]}
