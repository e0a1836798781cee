"""No new ticket says what its evidence does not: the specimen's, and those of two public repositories.

The latter need AUDITKIT_ESPER_REPO, a clone of tachyon-beep/esper-lite, with AUDITKIT_ESPER_PYTHON, an interpreter with
its packages, and AUDITKIT_SWIN_REPO, a clone of microsoft/Swin-Transformer.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auditkit.model.runs.cause import Statement
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.run import Finding
from auditkit.rendering.markdown import visible
from auditkit.rendering.ticket import MOST_VISIBLE, render_ticket
from auditkit.workflows.audit.audit import specimen_dir
from tests.bundled_audit import bundled_audit
from tests.evidence.ticket_facts import contradictions
from tests.filing_helpers import TODAY, make_finding
from tests.rendering.test_ticket import ID

REPOSITORIES = {
    "esper": (os.environ.get("AUDITKIT_ESPER_REPO", ""), "6de1b57", os.environ.get("AUDITKIT_ESPER_PYTHON", "")),
    "Swin": (os.environ.get("AUDITKIT_SWIN_REPO", ""), "HEAD", sys.executable),
}


def finding() -> Finding:
    made = make_finding(
        message="synchronisations per call: n for n tensors (256 at 256)",
        statement=Statement("src/train/norms.py", 11, 11),
        measurements=tuple(Measurement("sync_count", n, "count", {"tensors": n}) for n in (4, 256)),
    )
    return replace(made, probe=replace(made.probe, id="syncs_grow_with_tensors"))


def ticket(*findings: Finding) -> str:
    return render_ticket(findings or (finding(),), ID, TODAY).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "src/train/norms.py"
    place.parent.mkdir(parents=True)
    place.write_text("# nothing\n" * 9 + "def total_norm(grads):\n    return 0\n", encoding="utf-8")
    return tmp_path


def test_a_sound_ticket_has_no_contradiction(folder: Path) -> None:
    assert contradictions(ticket(), folder) == []


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(256 at 256).", "(257 at 300).", ["no figure of the evidence: 300"]),
        ("Line 11, `return 0`", "Line 11, `return 1`", ["no such line: src/train/norms.py:11 is not return 1"]),
        ("Line 11, `return 0`", "Line 12", ["no such line: src/train/norms.py:12"]),
        ("\n### Example", "\nWith this none of the probes reproduces.\n\n### Example",
         ["nothing was run: With this none of the probes reproduces."]),
        ("## Related Findings\n", "## Related Findings\n\nSynchronisations per call: n for n tensors (256 at 256).\n\n",
         ["twice: Synchronisations per call: n for n tensors (256 at 256)"]),
    ],
    ids=["a figure", "a line's code", "a line", "a promise", "a sentence twice"],
)  # fmt: skip
def test_a_false_sentence_is_found(old: str, new: str, told: list[str], folder: Path) -> None:
    """The control: each kind of falsehood, in a ticket that is sound but for it."""
    text = ticket()
    assert old in text
    assert contradictions(text.replace(old, new, 1), folder) == told


def test_what_was_run_may_be_said(folder: Path) -> None:
    """And what was not is found: another law at the base, a line that the change leaves, one that is not there."""
    rows = (FixRow("norm_overflows_on_finite_grads", "P2, n for 256 tensors", "not reproduced"),)
    difference = "--- a/src/train/norms.py\n+++ b/src/train/norms.py\n@@ -10,2 +10,2 @@\n def total_norm(grads):\n"
    difference += "-    return 0\n+    return 1\n"
    fix = Fix("m:f", "src/train/norms.py", "f", difference, ("line 11: read once",), (), rows, "cpu", "2.13.0")
    text = ticket(replace(finding(), fix=fix))
    assert contradictions(text, folder) == []
    for old, new, told in (
        ("n for 256 tensors", "n for 300 tensors", "no figure of the evidence: 300"),
        ("- line 11: read", "- line 9: read", "no such change: src/train/norms.py:9 stays as it is"),
        ("-    return 0", "-    return 2", "no such change: src/train/norms.py:11 is not return 2"),
    ):
        assert contradictions(text.replace(old, new), folder) == [told]


def test_folded_lines_and_what_markdown_hides_are_not_counted() -> None:
    text = "a\n\n<!-- b -->\n| - | - |\n<details>\n<summary>c</summary>\n\nd\n\n</details>\ne\n"
    assert len(visible(text)) == 3
    assert len(visible(ticket())) < MOST_VISIBLE


@pytest.mark.acceptance
def test_the_tickets_of_the_specimen() -> None:
    found = {name: contradictions(text, specimen_dir()) for name, text in bundled_audit().tickets.items()}
    assert {name: told for name, told in found.items() if told} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", REPOSITORIES)
def test_the_tickets_of_a_public_repository(name: str, tmp_path: Path) -> None:
    repository, revision, python = REPOSITORIES[name]
    if not (repository and python):
        pytest.skip(f"no clone of {name} is named")
    subprocess.run(
        f'git -C "{repository}" archive {revision} | tar x -C "{tmp_path}"', shell=True, check=True, timeout=60
    )
    tickets = tmp_path / "tickets-of-the-audit"
    words = [sys.executable, "-m", "auditkit", "audit", f"{repository}@{revision}", "--python", python]
    ended = subprocess.run([*words, "--tickets", str(tickets)], capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    texts = {path.stem: path.read_text(encoding="utf-8") for path in tickets.rglob("B*.md")}
    found = {ticket_id: contradictions(text, tmp_path) for ticket_id, text in texts.items()}
    assert texts
    assert {ticket_id: told for ticket_id, told in found.items() if told} == {}
