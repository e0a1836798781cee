"""Links and numbers on the command line: both files change, or none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.errors import StoreConflictError
from auditkit.store.document import Document
from auditkit.store.repository import Entry, Repository
from auditkit.store.transactions import save_all
from tests.filing_helpers import put, ticket_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in (1, 2):
        put(tmp_path / "tickets", f"batch7/B7-PT-0{number}.md", ticket_text(f"B7-PT-0{number}"))
    return tmp_path / "tickets"


def run(folder: Path, *arguments: object) -> Any:
    return CliRunner().invoke(app, [*map(str, arguments), "--tickets", str(folder)])


def contents(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.md"))}


def test_both_sides_say_what_the_other_is(folder: Path) -> None:
    before = contents(folder)
    result = run(folder, "link", "B7-PT-01", "blocks", "b7-pt-02", "--note", "same helper")
    assert (result.exit_code, result.stdout) == (0, "B7-PT-01 blocks B7-PT-02\n")
    first, second = contents(folder).values()
    assert first.endswith("## Related Findings\n\n- blocks B7-PT-02: same helper\n")
    assert second.endswith("## Related Findings\n\n- blocked-by B7-PT-01: same helper\n")
    again = run(folder, "link", "B7-PT-02", "Blocked by", "B7-PT-01", "--json")
    assert json.loads(again.stdout)["changed"] is False
    assert run(folder, "link", "B7-PT-01", "blocks", "B7-PT-02", "--remove").stdout.endswith("not linked any more\n")
    # The section that the link made stays; everything above it is as it was.
    assert {name: text.split("\n\n---\n\n## Related")[0] + "\n" for name, text in contents(folder).items()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["B7-PT-01", "blocks", "B7-PT-01"], "cannot be linked to itself"),
        (["B7-PT-01", "blocks", "B7-PT-09"], "no ticket B7-PT-09"),
        (["B7-PT-01", "block", "B7-PT-02"], "did you mean block"),
    ],
)
def test_a_link_that_cannot_be_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    before = contents(folder)
    result = run(folder, "link", *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert contents(folder) == before


def test_where_one_of_several_writes_fails_the_others_are_undone(folder: Path) -> None:
    """The second file changes on disk after it was read, so the first one gets its old text back."""
    before = contents(folder)
    repository = Repository(folder)
    first, second = (repository.find(f"B7-PT-0{number}") for number in (1, 2))
    second.file.write_text(before["batch7/B7-PT-02.md"] + "theirs\n")

    def edited(entry: Entry) -> Document:
        return entry.document.set_field("Severity", "P0")

    with repository.writing(), pytest.raises(StoreConflictError, match="changed on disk"):
        save_all(repository, [(first, edited(first)), (second, edited(second))])
    after = contents(folder)
    assert after["batch7/B7-PT-01.md"] == before["batch7/B7-PT-01.md"]
    assert after["batch7/B7-PT-02.md"].endswith("theirs\n")
