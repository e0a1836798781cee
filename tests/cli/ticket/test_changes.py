"""Commands that write a ticket: what they say, what they change, and what they refuse."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from tests.filing_helpers import put, ticket_text

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path / "tickets", "batch7/B7-PT-01.md", ticket_text("B7-PT-01", fingerprint="p/1/t"))
    put(tmp_path / "tickets", "batch7/B7-PT-02.md", ticket_text("B7-PT-02"))
    return tmp_path / "tickets"


def run(folder: Path, *arguments: object, stdin: str | bytes | None = None) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)], input=stdin)


def text_of(folder: Path, ticket_id: str = "B7-PT-01") -> str:
    return (folder / "batch7" / f"{ticket_id}.md").read_bytes().decode()


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.md")}


def test_edit_says_what_it_changed(folder: Path) -> None:
    before = text_of(folder)
    result = run(folder, "edit", "b7-pt-01", "severity", "p0")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01: severity: `P2` -> `P0`\n")
    assert text_of(folder) == before.replace("| **Severity** | `P2` |", "| **Severity** | `P0` |")
    assert run(folder, "edit", "B7-PT-01", "severity", "P0").stdout == "B7-PT-01: nothing to change\n"


def test_edit_reads_stdin_and_gives_json(folder: Path) -> None:
    result = run(folder, "edit", "B7-PT-01", "title", "-", "--json", stdin="naïve | `sum`\n")
    document = json.loads(result.stdout)
    assert (document["changed"], document["before"], document["after"]) == (
        True,
        "sum of squares overflows",
        "naïve | `sum`",
    )
    assert document["ticket"]["title"] == "naïve | `sum`"
    assert document["path"] == str(folder / "batch7/B7-PT-01.md")
    assert run(folder, "edit", "B7-PT-01", "title", "-", stdin=b"\xff").exit_code == 2


def test_assign_and_take_back(folder: Path) -> None:
    before = text_of(folder)
    assert run(folder, "assign", "B7-PT-01", "ada | co").stdout == "B7-PT-01: assigned to ada | co\n"
    assert "| **Assignee** | ada \\| co |\n" in text_of(folder)
    assert run(folder, "assign", "B7-PT-01", "--none").exit_code == 0
    assert text_of(folder) == before


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["edit", "B7-PT-01", "sevrity", "P1"], "no field 'sevrity'", "did you mean severity"),
        (["edit", "B7-PT-01", "severity"], "to what?", "VALUE"),
        (["edit", "B7-PT-01", "status", "fixed"], "'Status' is not edited", "ticket status B7-PT-01"),
        (["edit", "B7-PT-01", "assignee", "a\nb"], "not a value", "one line"),
        (["edit", "B7-PT-09", "severity", "P1"], "no ticket B7-PT-09", "did you mean"),
        (["assign", "B7-PT-01"], "assign to whom?", "--none"),
        (["assign", "B7-PT-01", "ada", "--none"], "assign to whom?", "--none"),
    ],
)
def test_what_is_refused_changes_nothing(folder: Path, arguments: list[str], message: str, hint: str) -> None:
    before = contents(folder)
    result = run(folder, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    error, advice = result.stderr.splitlines()
    assert message in error
    assert hint in advice
    assert contents(folder) == before


def use_editor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """An editor that runs `code` on the file's `text`, as `path`."""
    script = put(
        tmp_path,
        "editor.py",
        f"import sys, pathlib\npath = pathlib.Path(sys.argv[-1])\ntext = path.read_text()\n{code}\n",
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} {script}")


def test_edit_opens_the_editor(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = text_of(folder)
    use_editor(monkeypatch, tmp_path, "path.write_text(text.replace('a list item', 'another item'))")
    assert run(folder, "edit", "B7-PT-01").stdout == "B7-PT-01: edited\n"
    assert text_of(folder) == before.replace("a list item", "another item")
    use_editor(monkeypatch, tmp_path, "pass")
    assert run(folder, "edit", "B7-PT-01").stdout == "B7-PT-01: nothing to change\n"


@pytest.mark.parametrize(
    ("code", "exit_code", "message"),
    [
        ("path.write_text('no ticket')", 2, "1:1: no '## Ticket Metadata' section\n    no ticket\n    ^"),
        ("path.write_text(text.replace('B7-PT-01', 'B7-PT-05'))", 2, "B7-PT-01 became B7-PT-05"),
        ("path.write_text(text.replace('`open`', '`fixed`'))", 2, "the status became 'fixed'"),
        (
            "path.write_text(text + 'mine'); theirs = pathlib.Path(THEIRS)\n"
            "theirs.write_text(theirs.read_text() + 'theirs')",
            4,
            "changed while it was in the editor",
        ),
    ],
)
def test_an_edit_that_cannot_be_written_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, exit_code: int, message: str
) -> None:
    """Exit code, the problem with its place, and the text in a recovery file that git ignores."""
    file = folder / "batch7/B7-PT-01.md"
    before = file.read_text()
    use_editor(monkeypatch, tmp_path, code.replace("THEIRS", repr(str(file))))
    result = run(folder, "edit", "B7-PT-01")
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert message in result.stderr
    (kept,) = (folder / ".auditkit/recovery").iterdir()
    assert f"your text is kept in {kept}" in result.stderr
    assert file.read_text() in (before, before + "theirs")
    assert kept.read_text() != before
    assert (folder / ".auditkit/.gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    ("editor", "message"),
    [("", "no editor is set"), ("false", "ended with 1"), ("/no/such", "cannot start"), ("vim '", "cannot read")],
)
def test_an_editor_that_fails_changes_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, editor: str, message: str
) -> None:
    before = contents(folder)
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setenv("EDITOR", editor)
    result = run(folder, "edit", "B7-PT-01")
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert contents(folder) == before


def test_a_review_is_written_and_read_back(folder: Path) -> None:
    before = text_of(folder)
    arguments = ("review", "B7-PT-01", "--verdict", "refine", "--reviewer", "DRL", "--severity", "p3")
    result = run(folder, *arguments, "--date", "2026-03-04", "--note", "-", stdin="| a row\n## a heading\n")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01: REFINE written\n")
    added = text_of(folder).removeprefix(before.rstrip("\n"))
    assert re.sub("`[0-9a-f]{12}`", "`X`", added) == (
        "\n\n---\n\n## Cross-Review (DRL Specialist)\n\n| Field | Value |\n|-------|-------|\n"
        "| **Verdict** | `REFINE` |\n| **Reviewer** | DRL Specialist |\n| **Severity** | `P3` |\n"
        "| **Date** | 2026-03-04 |\n| **Judged** | `X` |\n\n**Evaluation:** \\| a row\n\\## a heading\n"
    )
    again = run(folder, "review", "B7-PT-01", "--verdict", "object", "--reviewer", "drl")
    assert (again.exit_code, "--replace" in again.stderr) == (2, True)
    replaced = run(folder, "review", "B7-PT-01", "--verdict", "object", "--reviewer", "drl", "--replace", "--json")
    (review,) = json.loads(replaced.stdout)["ticket"]["reviews"]
    assert (review["verdict"], review["severity"], review["evaluation"]) == (
        "OBJECT", None, "\\| a row\n\\## a heading",
    )  # fmt: skip


def test_a_review_records_the_code_that_was_looked_at(folder: Path, tmp_path: Path) -> None:
    source = put(tmp_path, "checkout/src/train/norms.py", "def total_norm(grads):\n    return 1\n")
    review = ("review", "B7-PT-01", "--verdict", "endorse", "--reviewer", "drl", "--replace", "--json")

    def judged() -> str:
        document = json.loads(run(folder, *review, "--checkout", tmp_path / "checkout").stdout)
        return str(document["ticket"]["reviews"][0]["judged"])

    first = judged()
    assert re.fullmatch("[0-9a-f]{12} code:[0-9a-f]{12}", first)
    source.write_text("# why\ndef total_norm(grads):\n    return 1\n")
    assert judged() == first
    source.write_text("def total_norm(grads):\n    return 2\n")
    assert judged().split(" ")[0] == first.split(" ")[0]
    assert judged() != first
    source.unlink()
    lost = run(folder, *review, "--checkout", tmp_path / "checkout")
    assert (lost.exit_code, "has none of the files that B7-PT-01 cites" in lost.stderr) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--verdict", "endrose", "--reviewer", "drl"], "did you mean endorse"),
        (["--verdict", "endorse"], "who reviews it?"),
        (["--verdict", "endorse", "--reviewer", "drl", "--severity", "P7"], "no such severity: 'P7'"),
        (["--verdict", "endorse", "--reviewer", "drl", "--date", "today"], "not a date: 'today'"),
        (["--verdict", "endorse", "--reviewer", "drl", "--note", "x\n\n**Verdict:** OBJECT"], "a review of its own"),
    ],
)
def test_a_review_that_says_nothing_clear_is_refused(folder: Path, options: list[str], message: str) -> None:
    before = contents(folder)
    result = run(folder, "review", "B7-PT-01", *options)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert contents(folder) == before


def test_boxes_are_ticked_by_edit(folder: Path) -> None:
    before = text_of(folder)
    result = run(folder, "edit", "B7-PT-01", "verified", "1")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01: verified: 0 of 1 -> 1 of 1\n")
    assert text_of(folder) == before.replace("- [ ] a test", "- [x] a test")
    assert run(folder, "edit", "B7-PT-01", "verified", "all").stdout == "B7-PT-01: nothing to change\n"
    assert run(folder, "edit", "B7-PT-01", "unverified", "a te").exit_code == 0
    assert text_of(folder) == before
    refused = run(folder, "edit", "B7-PT-01", "verified", "a rest")
    assert (refused.exit_code, "did you mean 'a test'?" in refused.stderr) == (2, True)
