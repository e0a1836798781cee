"""The README shows how the bundled audit begins and ends; docs/demo.md its whole output, and one of its tickets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.bundled_audit import bundled_audit

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DEMO = ROOT / "docs" / "demo.md"
LEFT_OUT = "\n[...]\n"
TICKET = "B1-PT-01"


def _block(page: Path, marker: str) -> str:
    """The fenced block behind `<!-- marker -->`."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(marker)} -->\n(`{{3,}})\w*\n(.*?)\n\1\n", text, re.DOTALL)
    assert found is not None, f"{page.name} has no block marked {marker}"
    return found[2]


def _without_what_differs(text: str) -> str:
    """Torch's version, the date, the run id, and the machine's names replaced: they differ between machines."""
    text = re.sub(r"torch \d[^\s,|]*", "torch X", text)
    text = re.sub(r"(\*\*torch\*\* \| ).*?( \|)", r"\1X\2", text)
    text = re.sub(r"(\*\*(?:Python|Device|Created|Updated)\*\* \| ).*?( \|)", r"\1X\2", text)
    text = re.sub(r"auditkit audit\b.*`", "auditkit audit`", text)
    return re.sub(r"\d{8}T\d{6}Z-\w{6}", "RUN", text)


@pytest.fixture(scope="module")
def demo() -> tuple[str, str]:
    """What `auditkit audit` prints in an empty folder, and the ticket that the page shows."""
    audit = bundled_audit()
    assert audit.ended.code == 1
    # On its way it says what it asks and what it found, and nothing else.
    assert [line for line in audit.ended.stderr.splitlines() if not re.match(r"asking |P\d  ", line)] == []
    return audit.ended.stdout.rstrip("\n"), audit.tickets[TICKET].rstrip("\n")


def test_the_page_shows_the_whole_output_of_the_bundled_audit(demo: tuple[str, str], request: pytest.FixtureRequest):
    """docs/demo.md is what the command prints, to the last line."""
    _compare(DEMO, "output: auditkit audit", demo[0], request)


def test_the_readme_shows_how_the_bundled_audit_begins_and_ends(demo: tuple[str, str], request: pytest.FixtureRequest):
    """As many lines as the README has before and after the mark of what is left out."""
    begin, end = _block(README, "output: auditkit audit").split(LEFT_OUT)
    printed = demo[0].split("\n")
    kept = printed[: len(begin.split("\n"))], printed[-len(end.split("\n")) :]
    _compare(README, "output: auditkit audit", LEFT_OUT.join("\n".join(lines) for lines in kept), request)


def test_the_page_shows_a_rendered_ticket(demo: tuple[str, str], request: pytest.FixtureRequest):
    """The ticket in docs/demo.md is one that the bundled audit files."""
    _compare(DEMO, "output: ticket", demo[1], request)


def test_the_readme_begins_with_one_command_and_25_lines_of_its_output() -> None:
    """What it is, why, and how it looks stand on the first screen; a whole ticket does not."""
    text = README.read_text(encoding="utf-8")
    assert text.index("<!-- run-line -->") < 1200
    assert len(_block(README, "output: auditkit audit").split("\n")) <= 25
    assert "output: ticket" not in text


def test_a_changed_line_is_noticed(demo: tuple[str, str]):
    """The comparison above can fail: one changed figure is enough."""
    shown = _block(DEMO, "output: auditkit audit")
    assert _without_what_differs(shown.replace("3.25x", "3.26x")) != _without_what_differs(demo[0])


def _compare(page: Path, marker: str, printed: str, request: pytest.FixtureRequest) -> None:
    shown = _block(page, marker)
    if request.config.getoption("--update-golden", default=False):
        page.write_text(page.read_text(encoding="utf-8").replace(shown, printed), encoding="utf-8")
        return
    assert _without_what_differs(shown) == _without_what_differs(printed)
