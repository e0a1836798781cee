"""A project's own agents, from auditkit.yaml: commands that write take them, and what they write is read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.model.tickets.review import read_reviewer, reviewer_of
from tests.filing_helpers import put, ticket_text

pytestmark = pytest.mark.process

AGENTS = "agents: {SEC: security, OPS: Site-Ops}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose auditkit.yaml stands above the tickets, not where the commands are typed."""
    put(tmp_path, "auditkit.yaml", AGENTS)
    text = ticket_text("B7-SEC-01").replace("`pytorch`", "`security`").replace("- [ ] a test", "- [x] a test")
    put(tmp_path, "tickets/batch7/B7-SEC-01.md", text)
    return tmp_path / "tickets"


def run(folder: Path, *arguments: object) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)])


def ticket(folder: Path, ticket_id: str = "B7-SEC-01") -> dict[str, Any]:
    from auditkit.store.folder.repository import Repository

    return Repository(folder).find(ticket_id).ticket.to_json()


def text_of(folder: Path, ticket_id: str = "B7-SEC-01") -> str:
    (file,) = folder.rglob(f"{ticket_id}.md")
    return file.read_text()


@pytest.mark.parametrize("named", ["SEC", "security", "Security"])
def test_a_review_by_a_projects_agent_is_read_as_that_agents(folder: Path, named: str) -> None:
    words = ("review", "B7-SEC-01", "--verdict", "endorse", "--reviewer", named)
    assert run(folder, *words).exit_code == 0
    assert "## Cross-Review (security)\n\n" in text_of(folder)
    assert "| **Reviewer** | `security` |" in text_of(folder)
    assert [review["reviewer"] for review in ticket(folder)["reviews"]] == ["security"]
    again = run(folder, *words)
    assert (again.exit_code, "security has reviewed it already" in again.stderr) == (2, True)
    assert run(folder, *words, "--verdict", "object", "--replace").exit_code == 0
    assert [review["verdict"] for review in ticket(folder)["reviews"]] == ["OBJECT"]


def test_a_reviewer_of_the_project_is_identified_and_a_stranger_is_not(folder: Path) -> None:
    for reviewer in ("security", "mallory"):
        assert run(folder, "review", "B7-SEC-01", "--verdict", "endorse", "--reviewer", reviewer).exit_code == 0
    assert [review["reviewer"] for review in ticket(folder)["reviews"]] == ["security", "mallory"]
    config = folder.parent / "auditkit.yaml"
    words = ("lint", "--select", "TK061,TK062", "--json", "--config")
    found = json.loads(run(folder, *words, config).stdout)["findings"]
    assert [(one["rule"], one["message"]) for one in found] == [
        ("TK061", "1 of 3 reviewers identified: security"),
        ("TK062", "no reviewer can be told from 'mallory'"),
    ]
    config.write_text("batch: 7\n")
    found = json.loads(run(folder, *words, config).stdout)["findings"]
    assert [one["rule"] for one in found] == ["TK061", "TK062", "TK062"]


@pytest.mark.parametrize("row", ["security", "SEC"])
def test_a_sign_off_by_a_projects_agent_counts(folder: Path, row: str) -> None:
    """Whether the Agent row has the name or the code; and TK054 knows the signer, too."""
    (file,) = folder.rglob("*.md")
    file.write_text(file.read_text().replace("`security`", f"`{row}`"))
    assert run(folder, "sign-off", "B7-SEC-01", "--agent", "sec").exit_code == 0
    assert "**Sign-off:** Approved by `security` on 20" in text_of(folder)
    (signed,) = ticket(folder)["resolution"]["sign_offs"]
    assert signed["agent"] == "security"
    words = ("resolve", "B7-SEC-01", "--as", "fixed", "--text", "Done.", "--commit", "abcdef1")
    assert "no sign-off" not in run(folder, *words).stderr


def test_a_sign_off_by_somebody_else_does_not_count(folder: Path) -> None:
    assert run(folder, "sign-off", "B7-SEC-01", "--agent", "ops").exit_code == 0
    assert "Approved by `Site-Ops`" in text_of(folder)
    words = ("resolve", "B7-SEC-01", "--as", "fixed", "--text", "Done.", "--commit", "abcdef1")
    assert "no sign-off by security" in run(folder, *words).stderr


def test_renumber_and_edit_know_the_agents(folder: Path) -> None:
    assert run(folder, "edit", "B7-SEC-01", "agent", "SEC").exit_code == 0
    refused = run(folder, "edit", "B7-SEC-01", "agent", "pytorch")
    assert (refused.exit_code, "the agent of B7-SEC-01 is security" in refused.stderr) == (2, True)
    assert run(folder, "edit", "B7-SEC-01", "agent", "security").exit_code == 0
    assert run(folder, "renumber", "B7-SEC-01", "B7-OPS-01").exit_code == 0
    assert ticket(folder, "B7-OPS-01")["agent"] == "Site-Ops"


def test_new_knows_the_agents(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    made = json.loads(run(folder, "new", "--title", "x", "--batch", "7", "--agent", "security", "--json").stdout)
    assert (made["id"], made["ticket"]["agent"]) == ("B7-SEC-02", "security")


@pytest.mark.parametrize(
    ("who", "title", "agent"),
    [
        ("`security`", "", "security"),
        ("`security`", "PyTorch Specialist", "security"),
        ("security", "", "security"),
        ("specialist", "PyTorch Specialist", "pytorch"),
        ("`code-review`", "", "codereview"),
        ("**security**", "", "security"),
        ("Ada", "", ""),
        ("Security Team", "", ""),
        ("the security team", "", ""),
        ("`src/a.py`", "", ""),
        ("cross-review-agent", "", ""),
        ("`cross-review-agent`", "", ""),
        ("`Cross-Review-Agent`", "DRL", "drl"),
        ("", "security", ""),
        ("", "", ""),
    ],
)
def test_a_reviewer_is_a_name_and_not_prose(who: str, title: str, agent: str) -> None:
    assert reviewer_of(who, title) == agent
    assert read_reviewer("security") == ""


def test_every_command_reads_the_configuration_above_the_tickets(folder: Path) -> None:
    """Its agent, its agents' names and its checkout are those of one file, wherever the command is typed."""
    (folder.parent / "auditkit.yaml").write_text(f"agent: ops\nbatch: 9\n{AGENTS}")
    assert run(folder, "review", "B7-SEC-01", "--verdict", "endorse").exit_code == 0
    assert "## Cross-Review (Site-Ops)\n" in text_of(folder)
    made = json.loads(run(folder, "new", "--title", "x", "--json").stdout)
    assert (made["id"], made["ticket"]["agent"]) == ("B9-OPS-01", "Site-Ops")
    listed = json.loads(run(folder, "list", "--agent", "site ops", "--json").stdout)
    assert [one["id"] for one in listed["tickets"]] == ["B9-OPS-01"]
