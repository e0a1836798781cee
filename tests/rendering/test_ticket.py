"""A finding's ticket: what it says, and that a reader finds in it what was put in."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Severity
from auditkit.model.runs.cause import Statement
from auditkit.model.runs.fix import Fix, FixRow
from auditkit.model.runs.measurement import Measurement
from auditkit.model.runs.probe import CATEGORIES
from auditkit.model.runs.run import Finding
from auditkit.model.tickets.ids import TicketId, format_ticket_id, parse_ticket_id
from auditkit.model.tickets.ticket import Ticket
from auditkit.rendering.evidence import render_banner, render_evidence
from auditkit.rendering.ticket import check_command, render_ticket, ticket_of
from auditkit.store.folder.filing import Filed, FilingAction, Forms, file_findings
from auditkit.store.folder.repository import Repository
from auditkit.store.markdown.document import Document
from auditkit.store.reading.reader import read_ticket
from tests.filing_helpers import NEW_REVISION, PATH, TODAY, make_finding
from tests.rendering.hostile import HOSTILE, groups

ID = parse_ticket_id("B7-PT-01")


def rendered(*findings: Finding) -> str:
    return render_ticket(findings, ID, TODAY, "train/telemetry", "auditkit audit ../trainer").decode()


def test_the_sections_are_those_of_a_finding_ticket() -> None:
    document = Document.parse(rendered(make_finding()).encode(), PATH)
    assert [(heading.level, heading.text) for heading in document.scan.headings] == [
        (1, "Finding Ticket: total_norm: norm overflows on finite gradients"),
        (2, "Ticket Metadata"),
        (2, "Location"),
        (2, "Summary"),
        (2, "Detailed Description"),
        (3, "What's Wrong"),
        (2, "Evidence: norm overflows on finite gradients"),
        (2, "Recommended Fix"),
        (3, "Example (not run here)"),
        (2, "Verification"),
        (3, "How to Verify the Fix"),
        (2, "Related Findings"),
        (2, "Cross-Review (DRL Specialist)"),
        (2, "Cross-Review (PyTorch Specialist)"),
        (2, "Cross-Review (Code Review Specialist)"),
        (2, "Resolution"),
        (2, "Appendix"),
        (3, "Original Report Reference"),
    ]


def test_the_metadata_and_location_rows_are_the_seeds() -> None:
    text = rendered(make_finding())
    assert (
        "| Field | Value |\n|-------|-------|\n"
        "| **Ticket ID** | `B7-PT-01` |\n"
        "| **Severity** | `P0` |\n"
        "| **Status** | `open` |\n"
        "| **Batch** | 7 |\n"
        "| **Agent** | `pytorch` |\n"
        "| **Domain** | `train/telemetry` |\n"
        "| **Assignee** | |\n"
        "| **Created** | 2026-03-04 |\n"
        "| **Updated** | 2026-03-04 |\n"
    ) in text
    assert (
        "| **File(s)** | `src/train/norms.py` |\n| **Line(s)** | `10` |\n| **Function/Class** | `total_norm()` |\n"
    ) in text
    assert "```python\n# Lines 10-11\ndef total_norm(grads):\n    return 0\n```\n" in text


def test_twelve_boxes_with_the_probes_own_ticked() -> None:
    boxes = re.findall(r"^- \[(.)\] (.+)$", rendered(make_finding()).split("## Detailed")[0], re.MULTILINE)
    assert sorted(label for _, label in boxes) == sorted(CATEGORIES)
    assert [tick for tick, _ in boxes] == ["x", "x", *" " * 10]
    assert [label for tick, label in boxes if tick == "x"] == ["Correctness bug", "Numerical stability"]


def test_every_verification_item_is_unticked_and_bound_to_the_probe() -> None:
    part = rendered(make_finding()).split("### How to Verify the Fix\n\n")[1].split("\n\n---")[0]
    bound = "<!-- probe: norm_overflows_on_finite_grads -->"
    command = check_command(make_finding())
    assert part.split("\n") == [
        f"- [ ] `{command}` no longer reproduces {bound}",
        f"- [ ] gradients of 1e20 give a finite norm {bound}",
    ]
    assert command == ("auditkit probe run norm_overflows_on_finite_grads --checkout . --target train.norms:total_norm")


def test_reviews_and_resolution_are_empty_and_hold_no_placeholder() -> None:
    text = rendered(make_finding())
    assert text.count("| **Verdict** | |\n| **Reviewer** | |\n") == 3
    assert "| **Fixed By** | |\n| **Fixed Date** | |\n| **Commit** | |\n" in text
    reviews = text.split("## Related Findings")[1].split("## Appendix")[0]
    assert not re.findall(r"pending|filled|TBD|TODO|ENDORSE|REFINE|NEUTRAL|OBJECT|\[|\{", reviews)
    assert text.endswith("**Run:** `run-2026-03-04`\n**Command:** `auditkit audit ../trainer`\n")


def test_a_finding_that_says_little_makes_a_ticket_too() -> None:
    finding = make_finding(
        location=None, excerpt=None, measurements=(), law="", severity=None, evidence=None, message=""
    )
    ticket = read_ticket(render_ticket([finding], ID, TODAY), PATH)
    assert without_forms(ticket) == ticket_of([finding], ID, TODAY)
    assert (ticket.files, ticket.lines, ticket.domains, ticket.severity) == ((), (), (), Severity.P1)


def without_forms(ticket: Ticket) -> Ticket:
    """The ticket without the parts that wait for people: boxes to tick, a resolution to fill in, relations."""
    assert ticket.resolution is not None
    assert (ticket.resolution.sections, ticket.resolution.sign_offs, ticket.reviews) == (("Resolution",), (), ())
    return dataclasses.replace(
        ticket, verification=(), resolution=None, related=(), description="", recommended_fix="", evidence=()
    )


@settings(max_examples=50, deadline=None)
@given(
    groups(),
    st.integers(0, 99),
    st.sampled_from(["PT", "CR", "DRL", "XY"]),
    st.integers(1, 120),
    st.dates(),
    HOSTILE,
    HOSTILE,
)
def test_what_is_rendered_is_read_back(
    group: list[Finding], batch: int, agent: str, number: int, today: date, domain: str, command: str
) -> None:
    """Whatever the findings say, and however many share the ticket."""
    ticket_id = format_ticket_id(batch, agent, number)
    expected = ticket_of(group, ticket_id, today, domain)
    data = render_ticket(group, ticket_id, today, domain, command, related=(domain,))
    read = read_ticket(data, expected.path)
    assert without_forms(read) == expected
    assert [block.fingerprint for block in read.evidence] == list(expected.fingerprints)
    assert {block.outcome for block in read.evidence} == {"reproduced"}
    judging = {one.probe.id for one in group if one.result.fingerprint not in read.may_stay}
    assert {item.probe for item in read.verification} == judging
    assert not any(item.is_done for item in read.verification)
    document = Document.parse(data, expected.path)
    assert document.banner is not None
    assert [len(block.history) for block in document.evidence] == [0] * (1 + len(group))
    headings = [heading for heading in document.scan.headings if heading.level == 2]
    assert len(headings) == 12 + len({finding.probe.id for finding in group})
    assert b"\x1b" not in data
    assert document.set_field("Status", "fixed").set_field("Status", "open").data == data


def file(repository: Repository, *findings: Finding) -> Filed:
    """File findings of one cause; what was done for the first of them."""

    def ticket(wanted: Sequence[Finding], ticket_id: TicketId) -> bytes:
        return render_ticket(wanted, ticket_id, TODAY)

    forms = Forms(7, TODAY, ticket, render_evidence, render_banner, relation=lambda *_: "")
    filed = file_findings(repository, [findings], forms)[findings[0].result.fingerprint]
    assert isinstance(filed, Filed)
    return filed


@pytest.mark.process
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_finding_is_filed_refreshed_left_alone_and_reopened(tmp_path: Path, newline: str) -> None:
    repository, finding = Repository(tmp_path), make_finding()
    filed = file(repository, finding)
    assert (filed.action, filed.path) == (FilingAction.CREATED, tmp_path / "batch7" / "B7-PT-01.md")
    edited = filed.path.read_text().replace("- [ ] gradients", "- [x] gradients") + "by hand, no line end"
    filed.path.write_bytes(edited.replace("\n", newline).encode())
    assert file(repository, finding).action is FilingAction.UNCHANGED
    later = dataclasses.replace(finding, environment=dataclasses.replace(finding.environment, revision=NEW_REVISION))
    assert file(repository, later).action is FilingAction.REFRESHED
    refreshed = edited.replace("a" * 40, NEW_REVISION).replace("\n", newline).encode()
    assert filed.path.read_bytes() == refreshed
    filed.path.write_bytes(refreshed.replace(b"**Status** | `open`", b"**Status** | `fixed`"))
    assert file(repository, later).action is FilingAction.REOPENED
    assert file(repository, later).action is FilingAction.UNCHANGED
    returned = (
        f"**History**\n\n- 2026-03-04: returned at revision {NEW_REVISION}; the status was fixed and is open again\n"
    ).replace("\n", newline)
    changes = f"\n\n### Status Changes\n\n- 2026-03-04: fixed to open: {finding.result.fingerprint} "
    changes = f"{changes}returned at revision {NEW_REVISION}".replace("\n", newline)
    again = filed.path.read_bytes().replace(newline.encode() + returned.encode(), b"").replace(changes.encode(), b"")
    assert again == refreshed.replace(b"- [x] gradients", b"- [ ] gradients")


def of_probe(probe: str, target: str = "train.norms:total_norm", severity: Severity = Severity.P0) -> Finding:
    finding = make_finding(
        probe=probe, target=target, fingerprint=f"{probe}/1/{target}", severity=severity, message=f"{probe} said so"
    )
    changed = dataclasses.replace(
        finding.probe, id=probe, title=f"Title of {probe}", remediation=f"Mend {probe}.", categories=(CATEGORIES[3],)
    )
    return dataclasses.replace(finding, probe=changed)


def test_findings_of_one_cause_share_a_ticket() -> None:
    """The worst gives title and severity; every probe has its reason, its fix and its check."""
    text = rendered(of_probe("one"), of_probe("two", severity=Severity.P3), of_probe("six", severity=Severity.P4))
    assert text.startswith(
        "# Finding Ticket: total_norm: Title of one\n\n<!-- auditkit:evidence -->\n**Reproduced on CPU only:** "
    )
    assert "**One-line summary:** One said so. The same statement makes two (P3) and six (P4) reproduce.\n" in text
    assert (
        "- **`P3` Title of two**: two said so\n\n<details>\n<summary>Minor (P4): 1 more</summary>\n\n"
        "- **`P4` Title of six**: six said so\n\n</details>\n\n"
    ) in text
    assert "\n- `one`: Mend one.\n- `two`: Mend two.\n\n### Example (not run here)\n" in text
    assert re.findall(r"no longer reproduces <!-- probe: (\w+) -->", text) == ["one", "two"]
    assert re.findall(r"^## Evidence: (.*)$", text, re.MULTILINE) == ["Title of one", "Title of two", "Title of six"]


def test_targets_that_lead_to_one_statement_are_listed_and_stand_together() -> None:
    """Blocks of one probe follow each other, the second one short."""
    text = rendered(of_probe("one"), of_probe("two"), of_probe("one", "train.norms:other"))
    assert text.startswith("# Finding Ticket: total_norm: Title of one\n")
    assert "2 targets lead to it: `train.norms:total_norm`, `train.norms:other`.\n" in text
    headings = re.findall(r"^(?:## Evidence|### The same).*$", text, re.MULTILINE)
    assert headings == ["## Evidence: Title of one", "### The same through `other`", "## Evidence: Title of two"]


def test_modules_of_one_reading_share_a_ticket() -> None:
    """The title counts them, the summary names the first; the one command that asks again is written once."""

    def read(module: str) -> Finding:
        finding = of_probe("one", module, Severity.P4)
        result = dataclasses.replace(finding.result, device="source")
        return dataclasses.replace(finding, probe=dataclasses.replace(finding.probe, scope="source"), result=result)

    text = rendered(read("train.a"), read("train.b"), read("train.c"))
    assert text.startswith(
        "# Finding Ticket: 3 modules: Title of one\n\n<!-- auditkit:evidence -->\n**Read from the source:** nothing"
    )
    assert "**One-line summary:** train.a: One said so. Other modules with it: 2.\n" in text
    assert "3 modules have it: `train.a`, `train.b`, `train.c`.\n" in text
    told = "`auditkit probe run one --checkout .` no longer names `train.a`, `train.b`, `train.c` <!--"
    assert text.count(told) == 1
    assert "- [ ] `train.a`, `train.b`, `train.c`: gradients of 1e20 give a finite norm <!--" in text
    assert text.count("\n### The same in `train.") == 2
    assert "No fix stands here: not tried: this was read from the source.\n" in text


FIX = Fix(
    "train.norms:total_norm", "src/train/norms.py", "total_norm",
    "--- a/norms.py\n+++ b/norms.py\n@@ -1 +1 @@\n-a\n+b\n",
    ("line 11: the squares are summed in float64",), ("one/1/train.norms:total_norm",),
    (FixRow("one", "P0 reproduced (3n+1)", "not reproduced"),), "cpu", "2.13.0",
)  # fmt: skip


def fix_of(text: str) -> str:
    return text.partition("## Recommended Fix\n\n")[2].partition("\n---\n")[0]


def test_a_fix_that_was_run_is_shown_with_its_proof_and_no_other_advice() -> None:
    assert fix_of(rendered(dataclasses.replace(of_probe("one"), fix=FIX))) == (
        "- line 11: the squares are summed in float64\n\n"
        "```diff\n--- a/norms.py\n+++ b/norms.py\n@@ -1 +1 @@\n-a\n+b\n```\n\n"
        "| Probe | base | patched |\n|-------|------|---------|\n"
        "| `one` | P0 reproduced (3n+1) | not reproduced |\n\n"
        "Run through `train.norms:total_norm` on cpu with torch 2.13.0; "
        "`auditkit ticket fix B7-PT-01 --apply` makes the change.\n"
    )


def test_a_long_change_is_folded_and_stays_whole() -> None:
    """Only where the ticket would not be read to its end; what `git apply` takes is all there."""
    longest = dataclasses.replace(FIX, difference=FIX.difference + "+more\n" * 90)
    told = fix_of(rendered(dataclasses.replace(of_probe("one"), fix=longest)))
    shown, _, folded = told.partition(
        "<details>\n<summary>The change and what its probes answer</summary>\n\n```diff\n"
    )
    assert shown == "- line 11: the squares are summed in float64\n\n"
    assert folded.startswith(longest.difference + "```\n\n| Probe | base | patched |")
    assert told.endswith("</details>\n\nRun through `train.norms:total_norm` on cpu with torch 2.13.0; "
                         "`auditkit ticket fix B7-PT-01 --apply` makes the change.\n")  # fmt: skip


def test_what_no_fix_mends_is_named() -> None:
    """One of two probes: what was run stands first, and nothing is said to mend the other."""
    told = fix_of(rendered(dataclasses.replace(of_probe("one"), fix=FIX), of_probe("two")))
    assert "\nNo fix stands here for `two`: not tried.\n\n- `two`: Mend two.\n" in told
    assert "- `one`: Mend" not in told


def test_without_a_fix_the_first_line_says_so() -> None:
    first, _, rest = fix_of(rendered(make_finding())).partition("\n")
    assert first == "No fix stands here: not tried."
    assert "none of the probes" not in rest
    tried = dataclasses.replace(make_finding(), no_fix="the change trades memory for syncs")
    assert fix_of(rendered(tried)).startswith("No fix stands here: the change trades memory for syncs.\n")


def test_minor_findings_may_stay_and_have_no_box() -> None:
    """The boxes are those of the graver findings; a ticket of minor ones alone asks that they go."""
    grave, minor = of_probe("one"), of_probe("two", severity=Severity.P4)
    other = of_probe("one", "train.norms:layer_norms", Severity.P4)
    text = rendered(grave, minor, other)
    assert "\nMinor (P4), and may stay: `two`, `one` through `layer_norms`.\n" in text
    ticket = read_ticket(text.encode(), PATH)
    assert {item.probe for item in ticket.verification} == {"one"}
    assert not any("layer_norms" in item.text for item in ticket.verification)
    assert ticket.may_stay == {minor.result.fingerprint, other.result.fingerprint}
    alone = read_ticket(rendered(minor).encode(), PATH)
    assert ({item.probe for item in alone.verification}, alone.may_stay) == ({"two"}, frozenset())


def test_what_is_wrong_names_the_statement_and_what_its_lines_cost() -> None:
    """The statement's code and what it does, and the message in the summary alone."""
    costs = tuple(
        Measurement("live_at_peak", value, "ratio", {"line": f"src/train/norms.py:{line}", "tensors": 10})
        for line, value in ((11, 2.0), (10, 1.0))
    )
    finding = make_finding(statement=Statement("src/train/norms.py", 11, 11), measurements=costs)
    text = rendered(finding).partition("### What's Wrong\n\n")[2].partition("\n---\n")[0]
    assert text.startswith(
        "Line 11, `return 0`, gives the first value that is not finite.\n\n```python\n# Lines 10-11\n"
    )
    assert "- line 11, `return 0`: 2x of the gradients' bytes at the peak (tensors=10)\n- line 10, `def " in text
    assert finding.result.message not in text
    wordless = dataclasses.replace(finding, probe=dataclasses.replace(finding.probe, statement_does=""))
    assert "Line 11, `return 0`, is the first to go wrong.\n" in rendered(wordless)
