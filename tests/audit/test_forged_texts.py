"""Names, comments, output and messages that a terminal or a ticket's reader might take for something else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditkit.tickets.document import parse_document
from tests.probing_helpers import OVERFLOW, SYNCS, TARGETS
from tests.project_files import auditkit

pytestmark = pytest.mark.process

ALIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def run(folder: Path, *words: str) -> str:
    """What a command prints on both streams, neither of which is a terminal."""
    done = auditkit(*words, cwd=folder)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    text = (TARGETS / "escapes" / "forger.py").read_text("utf-8")
    assert ALIVE.search(text), "the control: they are alive in the checkout"
    (folder / "forger.py").write_text(text, "utf-8")
    (folder / "odd\x1b[31m\u202e\n# Forged.py").write_text(text, "utf-8")
    (tmp_path / "tickets").mkdir()
    return folder


def test_nothing_of_them_is_alive_in_a_ticket_or_on_a_terminal(checkout: Path) -> None:
    place = checkout.parent
    words = ("--fix-time=0", f"--probe={SYNCS}", "-v")
    told = run(place, "audit", "checkout", "--tickets", "tickets", *words)
    told += run(place, "probe", "run", OVERFLOW, "--checkout=checkout", "--target=forger:raising_norm",
                "--contract=grad_norm", "--takes=parameters")  # fmt: skip
    (ticket,) = (place / "tickets").rglob("*.md")
    told += run(place, "ticket", "show", ticket.stem, "--tickets=tickets")
    text = ticket.read_text("utf-8")
    assert ALIVE.findall(told) == ALIVE.findall(text) == []
    assert "\\x1b[31m" in told
    assert not re.search(r"(?m)^#+ (Forged|Resolution \\x1b)", text)
    first = parse_document(text.encode(), ticket)
    run(place, "audit", "checkout", "--tickets", "tickets", *words)
    again = parse_document(ticket.read_bytes(), first.path)
    assert len(list((place / "tickets").rglob("*.md"))) == 1
    assert again.data == first.data
