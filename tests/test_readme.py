"""The README's examples break as it says, and it shows how the bundled audit begins and ends; docs/demo.md has all."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.project_files import auditkit, run_program

pytestmark = pytest.mark.acceptance

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DEMO = ROOT / "docs" / "demo.md"
LEFT_OUT = "\n[...]\n"


def _block(page: Path, marker: str) -> str:
    """The fenced block behind `<!-- marker -->`."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {re.escape(marker)} -->\n(`{{3,}})\w*\n(.*?)\n\1\n", text, re.DOTALL)
    assert found is not None, f"{page.name} has no block marked {marker}"
    return found[2]


def _without_what_differs(text: str) -> str:
    """Torch's version, the date, the run id, and the machine's names replaced: they differ between machines."""
    text = re.sub(r"torch \d[^\s,|]*", "torch X", text)
    text = re.sub(r" on [^|\n]*, Python \d[^\s,|]*", " on X", text)
    text = re.sub(r"(\*\*torch\*\* \| ).*?( \|)", r"\1X\2", text)
    text = re.sub(r"(\*\*(?:Python|Device|Sandbox|Created|Updated)\*\* \| ).*?( \|)", r"\1X\2", text)
    text = re.sub(r"auditkit audit\b.*`", "auditkit audit`", text)
    return re.sub(r"\d{8}T\d{6}Z-\w{6}", "RUN", text)


@pytest.mark.slow
def test_the_pages_show_the_output_of_the_bundled_audit(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """docs/demo.md is what the command prints in an empty folder; the README, how that begins and ends."""
    command = [sys.executable, "-P", "-m", "auditkit", "audit", "--fix-time", "800"]
    audit = run_program(command, cwd=tmp_path, time_limit_s=1800.0)
    assert audit.code == 1
    # On its way it says what it checks and what it found, and nothing else.
    assert [
        line
        for line in audit.stderr.splitlines()
        if not re.match(r"checking |trying |note: fixes that were run: for 9 of 10 ", line)
    ] == []
    _compare(DEMO, "output: auditkit audit", audit.stdout.rstrip("\n"), request)
    begin, end = _block(README, "output: auditkit audit").split(LEFT_OUT)
    printed = audit.stdout.rstrip("\n").split("\n")
    kept = printed[: len(begin.split("\n"))], printed[-len(end.split("\n")) :]
    _compare(README, "output: auditkit audit", LEFT_OUT.join("\n".join(lines) for lines in kept), request)


def test_the_readme_begins_with_what_breaks_one_command_and_25_lines_of_its_output() -> None:
    """What it is, how such code breaks, and how it looks come first; a whole ticket does not come at all."""
    text = README.read_text(encoding="utf-8")
    assert text.index("<!-- breaks -->") < 700
    assert text.index("<!-- breaks -->") < text.index("<!-- run-line -->") < 2500
    assert len(_block(README, "output: auditkit audit").split("\n")) <= 25
    assert "output: ticket" not in text
    assert len(text.splitlines()) <= 120


def test_the_examples_of_the_readme_break_as_it_says(tmp_path: Path) -> None:
    """Each function's row names a probe, and that probe reproduces on it."""
    code = _block(README, "breaks")
    package = tmp_path / "trainer"
    package.mkdir()
    (package / "norms.py").write_text(f"import torch\n\n\n{code}\n", encoding="utf-8")
    # Only of a package that shards is it asked what sharding does to its norms.
    (package / "__init__.py").write_text("from torch.distributed.fsdp import fully_shard\n", encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", README.read_text("utf-8"), re.MULTILINE)
    assert [function for function, _ in rows] == re.findall(r"^def (\w+)", code, re.MULTILINE)
    for function, probe in rows:
        ended = auditkit(
            "probe", "run", probe, "--checkout", tmp_path, "--target", f"trainer.norms:{function}", "--json"
        )
        (result,) = json.loads(ended.stdout)["results"]
        assert (result["probe"], result["outcome"]) == (probe, "reproduced"), result["message"]


def test_a_changed_line_is_noticed() -> None:
    """The comparison above can fail: one changed figure is enough."""
    shown = _block(DEMO, "output: auditkit audit")
    assert _without_what_differs(shown.replace("3.25x", "3.26x")) != _without_what_differs(shown)


def _compare(page: Path, marker: str, printed: str, request: pytest.FixtureRequest) -> None:
    shown = _block(page, marker)
    if request.config.getoption("--update-golden", default=False):
        page.write_text(page.read_text(encoding="utf-8").replace(shown, printed), encoding="utf-8")
        return
    assert _without_what_differs(shown) == _without_what_differs(printed)
