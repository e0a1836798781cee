"""Tickets that attack whoever reads them: list, show and stats show them inert and touch nothing else.

Real processes, in pipes and on a terminal. A known-bad printer shows that the checks can fail.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.filing_helpers import put, ticket_text
from tests.project_files import Ended, auditkit
from tests.terminal import on_a_terminal

pytestmark = pytest.mark.process

ATTACK = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066 "
    "[red]red[/red] [link=file:///x]y[/link] <script>alert(1)</script> a|b"
)
HUGE = 10_000_000
# What moves a cursor, hides text or reorders it; a terminal's own output may hold colours besides.
_ACTIVE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ufeff]")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

REVIEW = f"""
## Cross-Review (DRL {ATTACK})

| Field | Value |
|-------|-------|
| **Verdict** | **OBJECT** {ATTACK} |

**Evaluation:** Downgrade to P4. {ATTACK}

## Related Findings

| Ticket ID | Relationship | Notes |
|-----------|--------------|-------|
| `../../../outside/B9-PT-09` | `blocks` | {ATTACK} |
"""


def active(text: str) -> list[str]:
    """Every character of `text` that a terminal would act on."""
    return _ACTIVE.findall(text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hostile `tickets` in it, and beside them what nobody may touch."""
    place = tmp_path_factory.mktemp("hostile")
    secret = put(place, "outside/B9-PT-09.md", ticket_text("B9-PT-09", title="SECRET"))
    tickets = place / "tickets"
    hostile = ticket_text("B1-PT-01", title=ATTACK, severity=f"`P1{ATTACK}`", status=f"`{ATTACK}`", extra=REVIEW)
    hostile = hostile.replace("`train/telemetry`", ATTACK.replace("|", "\\|"))
    put(tickets, "batch1/B1-PT-01.md", hostile.replace("Correctness bug", ATTACK))
    put(tickets, "batch1/B1-PT-02.md", ticket_text("B1-PT-02").encode() + b"\xff\xfe \x1b[2J")
    put(tickets, "batch1/B1-PT-03.md", ticket_text("B1-PT-03", title="x" * HUGE))
    put(tickets, "batch1/evil.md", ticket_text("../../outside/B9-PT-09"))
    put(tickets, "batch1/B1-PT-05\x1b[2J.md", ticket_text("B1-PT-05"))
    put(tickets, "SUMMARY.md", f"# Figures\n\n| Severity {ATTACK} | Count |\n|---|---|\n| P1 {ATTACK} | 3 |\n")
    (tickets / "batch1" / "B1-PT-06.md").symlink_to(place / "outside" / "gone.md")
    (tickets / "linked").symlink_to(secret.parent)
    os.mkfifo(tickets / "batch1" / "B1-PT-07.md")
    return place


def state(folder: Path) -> dict[str, str]:
    """What lies below `folder` beside the tickets' own side folder: names, targets of links, and contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if ".auditkit" in path.parts:
            continue
        if path.is_symlink():
            found[str(path)] = f"-> {os.readlink(path)}"
        elif path.is_file():
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            found[str(path)] = "special"
    return found


def command(place: Path, *words: str) -> Ended:
    return auditkit("ticket", *words, "--tickets", place / "tickets", cwd=place)


FORMS = [
    ("list",),
    ("list", "--json"),
    ("show", "B1-PT-01"),
    ("show", "B1-PT-01", "--json"),
    ("stats",),
    ("stats", "--markdown"),
    ("stats", "--json"),
    ("stats", "--against", "tickets/SUMMARY.md"),
]


@pytest.mark.parametrize("words", FORMS, ids=" ".join)
def test_hostile_tickets_are_inert_in_a_pipe(place: Path, words: tuple[str, ...]) -> None:
    before = state(place)
    ended = command(place, *words)
    assert active(ended.stdout) == []
    assert active(ended.stderr) == []
    assert "Traceback" not in ended.stderr
    assert "SECRET" not in ended.stdout
    assert state(place) == before
    if words[0] != "show":
        assert ended.code == 2
        assert {"B1-PT-02.md", "B1-PT-06.md", "B1-PT-07.md", "evil.md"} <= set(
            re.findall(r"[\w-]+\.md(?=:)", ended.stderr)
        )
    if "--json" in words:
        document = json.loads(ended.stdout)
        assert "[red]red[/red]" in json.dumps(document)


def test_what_is_hidden_becomes_visible(place: Path) -> None:
    shown = command(place, "show", "B1-PT-01").stdout
    for visible in (
        "\\x1b]0;owned\\x07\\x1b[2J",
        "\\x9b31m",
        "\\u202eevil",
        "[red]red[/red]",
        "<script>alert(1)</script>",
    ):
        assert visible in shown


@pytest.mark.parametrize("name", ["../outside/B9-PT-09", "B9-PT-09", "\x1b[2J"])
def test_an_id_never_reaches_outside(place: Path, name: str) -> None:
    ended = command(place, "show", name)
    assert (ended.code, ended.stdout) == (2, "")
    assert active(ended.stderr) == []
    assert "SECRET" not in ended.stderr


def test_markdown_for_a_summary_page_holds_no_html_and_no_new_columns(place: Path) -> None:
    lines = command(place, "stats", "--markdown").stdout.splitlines()
    rows = [line for line in lines if "script" in line]
    assert rows
    for row in rows:
        assert "<script" not in row.replace("\\<script", "")
        assert len(re.findall(r"(?<!\\)\|", row)) in (4, 5, 6)


@pytest.mark.parametrize("words", [("list",), ("stats",)], ids=" ".join)
def test_on_a_terminal_only_colours_are_escapes(place: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    put(tmp_path, "tickets/B1-PT-01.md", (place / "tickets" / "batch1" / "B1-PT-01.md").read_bytes())
    written = on_a_terminal(["ticket", *words], tmp_path, columns=200)
    assert _COLOUR.search(written)
    assert active(_COLOUR.sub("", written)) == []
    assert "[red]" in written


def test_a_naive_printer_is_caught(place: Path) -> None:
    """The known-bad control: what `print` would do with the same ticket."""
    file = place / "tickets" / "batch1" / "B1-PT-01.md"
    naive = subprocess.run(
        [sys.executable, "-c", f"print(open({str(file)!r}).read())"], capture_output=True, check=True
    )
    assert {"\x1b", "\x9b", "\u202e", "\x07"} <= set(active(naive.stdout.decode()))
