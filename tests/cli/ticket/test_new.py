"""New tickets on the command line: by options, in the editor, and from a probe's run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from auditkit.cli.ticket import app
from auditkit.errors import BadInputError
from auditkit.store.folder.repository import Repository
from auditkit.workflows.tickets.new_ticket import new_ticket_in_editor
from tests.cli.ticket.test_changes import use_editor
from tests.filing_helpers import put, ticket_text

pytestmark = pytest.mark.process

SUM_OF_SQUARES = """
def grad_norm(parameters):
    return sum(float((p.grad ** 2).sum()) for p in parameters if p.grad is not None) ** 0.5
"""
SOUND = """
import torch

def grad_norm(parameters):
    grads = [p.grad.double().flatten() for p in parameters if p.grad is not None]
    return float(torch.linalg.vector_norm(torch.cat(grads))) if grads else 0.0
"""


def run(folder: Path, *arguments: object, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["new", *map(str, arguments), "--tickets", str(folder)], input=stdin)


def test_a_ticket_from_options(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "tickets"
    words = ("--title", "norm | overflows", "--severity", "p1", "--file", "src/a.py", "--file", "src/b.py")
    more = ("--lines", "3-5, 9", "--function", "norm()", "--agent", "pytorch", "--batch", 7, "--domain", "a/b")
    last = ("--category", "correctness bug", "--description", "-", "--fix", "Scale.", "--verify", "1e20 is finite")
    result = run(folder, *words, *more, *last, "--json", stdin="# Why\n```python\nx = 1\n```\n")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["id"], document["path"]) == (0, "B7-PT-01", str(folder / "batch7/B7-PT-01.md"))
    ticket = document["ticket"]
    assert (ticket["title"], ticket["severity"], ticket["files"]) == (
        "norm | overflows",
        "P1",
        ["src/a.py", "src/b.py"],
    )
    assert [(span["first"], span["last"]) for span in ticket["lines"]] == [(3, 5), (9, 9)]
    assert (ticket["domains"], ticket["categories"]) == (["a/b"], ["Correctness bug"])
    assert "\\# Why\n\n```python\nx = 1\n```\n" in Path(document["path"]).read_text()
    assert run(folder, "--title", "more", "--agent", "PT", "--batch", 7).stdout.startswith("B7-PT-02: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "what is wrong?"),
        (["--title", "x"], "who reports it?"),
        (["--title", " ", "--agent", "drl"], "a ticket needs a title"),
        (["--title", "x", "--agent", "drl", "--severity", "P9"], "no such severity: 'P9'"),
        (["--title", "x", "--agent", "drl", "--lines", "9-3"], "not lines: '9-3'"),
        (["--title", "x", "--agent", "drl", "--category", "corectness bug"], "did you mean Correctness bug"),
        (["--title", "x", "--agent", "no agent"], "make no ticket id"),
    ],
)
def test_what_makes_no_ticket_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    result = run(tmp_path / "tickets", *options)
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert not (tmp_path / "tickets").exists()


def test_a_ticket_from_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left as it is writes nothing; a number that was taken meanwhile becomes the next one."""
    repository = Repository(tmp_path / "tickets")
    use_editor(monkeypatch, tmp_path, "pass")
    assert new_ticket_in_editor(repository, 7, "PT") is None
    theirs = str(put(tmp_path, "theirs.md", ticket_text("B7-PT-01")))
    taken = repository.folder / "batch7/B7-PT-01.md"
    code = (
        "path.write_text(text.replace('[Title]', 'a title'))\n"
        f"taken = pathlib.Path({str(taken)!r})\ntaken.parent.mkdir(parents=True)\n"
        f"taken.write_bytes(pathlib.Path({theirs!r}).read_bytes())"
    )
    use_editor(monkeypatch, tmp_path, code)
    made = new_ticket_in_editor(repository, 7, "PT")
    assert made is not None
    assert (made.ticket.id, made.ticket.title) == ("B7-PT-02", "a title")
    use_editor(monkeypatch, tmp_path, "path.write_text(text + 'x')")
    with pytest.raises(BadInputError, match="still has no title"):
        new_ticket_in_editor(repository, 7, "PT")
    assert len(list((repository.folder / ".auditkit/recovery").iterdir())) == 1


def test_a_ticket_from_a_probe_or_none(tmp_path: Path) -> None:
    """What reproduces is filed and exits 0; what does not is said, and exits 0 too."""
    checkout, folder = tmp_path / "checkout", tmp_path / "tickets"
    put(checkout, "stats.py", SUM_OF_SQUARES)
    words = ("--probe", "norm_overflows_on_finite_grads", "--checkout", checkout, "--target", "stats:grad_norm")
    more = ("--takes", "parameters", "--contract", "grad_norm", "--device", "cpu", "--batch", 7)
    result = run(folder, *words, *more, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["id"]) == (0, "B7-PT-01"), result.stderr
    assert [one["action"] for one in document["filed"]] == ["created"]
    assert Repository(folder).find("B7-PT-01").ticket.fingerprints == (document["filed"][0]["fingerprint"],)
    put(checkout, "stats.py", SOUND)
    result = run(tmp_path / "none", *words, *more)
    assert (result.exit_code, list((tmp_path / "none").rglob("*.md"))) == (0, [])
    assert result.stdout == "norm_overflows_on_finite_grads is not reproduced, so nothing is filed\n"
