"""A finding's ticket: what it says, and that a reader finds in it what was put in."""

from __future__ import annotations

import dataclasses
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditkit.model.enums import Evidence, Severity
from auditkit.model.ids import format_ticket_id, parse_ticket_id
from auditkit.model.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.probe import CATEGORIES
from auditkit.model.run import Finding
from auditkit.rendering.ticket import check_command, render_evidence, render_ticket, ticket_of
from auditkit.store.document import Document
from auditkit.store.filing import Filed, Filing, FilingAction, file_finding
from auditkit.store.reader import read_ticket
from auditkit.store.repository import Repository
from tests.filing_helpers import NEW_REVISION, PATH, TODAY, make_finding

ID = parse_ticket_id("B7-PT-01")


def rendered(finding: Finding) -> str:
    return render_ticket(finding, ID, TODAY, "train/telemetry", "auditkit audit ../trainer").decode()


def evidence(finding: Finding) -> str:
    return render_evidence(finding).decode()


def test_the_sections_are_those_of_a_finding_ticket() -> None:
    document = Document.parse(rendered(make_finding()).encode(), PATH)
    assert [(heading.level, heading.text) for heading in document.scan.headings] == [
        (1, "Finding Ticket: total_norm: norm overflows on finite gradients"),
        (2, "Ticket Metadata"),
        (2, "Location"),
        (2, "Summary"),
        (2, "Detailed Description"),
        (3, "What's Wrong"),
        (2, "Evidence"),
        (2, "Recommended Fix"),
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
        "| **File(s)** | `src/train/norms.py` |\n| **Line(s)** | `10-11` |\n| **Function/Class** | `total_norm()` |\n"
    ) in text
    assert "```python\n# Lines 10-11\ndef total_norm(grads):\n    return 0\n```\n" in text


def test_twelve_boxes_with_the_probes_own_ticked() -> None:
    boxes = re.findall(r"^- \[(.)\] (.+)$", rendered(make_finding()).split("## Detailed")[0], re.MULTILINE)
    assert [label for _, label in boxes] == list(CATEGORIES)
    assert [label for tick, label in boxes if tick == "x"] == ["Correctness bug", "Numerical stability"]


def test_every_verification_item_is_unticked_and_bound_to_the_probe() -> None:
    part = rendered(make_finding()).split("### How to Verify the Fix\n\n")[1].split("\n\n---")[0]
    bound = "<!-- probe: norm_overflows_on_finite_grads -->"
    command = check_command(make_finding())
    assert part.split("\n") == [
        f"- [ ] `{command}` no longer reproduces {bound}",
        f"- [ ] gradients of 1e20 give a finite norm {bound}",
    ]
    assert command == (
        "auditkit probe run norm_overflows_on_finite_grads --checkout ../trainer --target train.norms:total_norm"
    )


def test_reviews_and_resolution_are_empty_and_hold_no_placeholder() -> None:
    text = rendered(make_finding())
    assert text.count("| **Verdict** | |\n| **Reviewer** | |\n\n**Evaluation:**\n") == 3
    assert "| **Fixed By** | |\n| **Fixed Date** | |\n| **Commit** | |\n" in text
    reviews = text.split("## Related Findings")[1].split("## Appendix")[0]
    assert not re.findall(r"pending|filled|TBD|TODO|ENDORSE|REFINE|NEUTRAL|OBJECT|\[|\{", reviews)
    assert text.endswith("**Run:** `run-2026-03-04`\n**Command:** `auditkit audit ../trainer`\n")


def test_the_evidence_block_says_how_where_and_what_was_measured() -> None:
    assert evidence(make_finding()) == (
        "<!-- auditkit:evidence -->\n"
        "## Evidence\n\n"
        "**Reproduced on CPU only:** no number here comes from a GPU.\n\n"
        "**Partly extrapolated:** rows marked so come from a fit, not from a measurement.\n\n"
        "| Field | Value |\n|-------|-------|\n"
        "| **Fingerprint** | `norm_overflows_on_finite_grads/1/train.norms:total_norm` |\n"
        "| **Probe** | `norm_overflows_on_finite_grads` (version 3) |\n"
        "| **Target** | `train.norms:total_norm` |\n"
        "| **Outcome** | `reproduced` |\n"
        "| **Proposed severity** | `P0` |\n"
        "| **Evidence** | `measured` |\n"
        "| **Message** | reads inf from 1e19 on |\n"
        "| **Law** | `3n+1` |\n"
        "| **Location** | `src/train/norms.py:10` in `total_norm` |\n"
        f"| **Revision** | `{'a' * 40}` with uncommitted changes |\n"
        "| **Device** | A 64-core CPU (cpu) |\n"
        "| **Python** | 3.11.7 |\n"
        "| **torch** | 2.13.0 |\n\n"
        "| Measurement | Value | Unit | Case | Evidence |\n"
        "|-------------|-------|------|------|----------|\n"
        "| `norm` | inf | value | dtype=float32, tensors=64 | measured |\n"
        "| `peak` | 3 MiB | bytes | | extrapolated |\n"
        "<!-- /auditkit:evidence -->\n"
    )


def test_the_first_line_says_what_kind_of_device_answered() -> None:
    measured = (Measurement("n", 1, "count"),)
    simulated = make_finding(device="simulated", evidence=Evidence.SIMULATED, measurements=measured)
    assert "**Simulated:** CPU values behind a pretended CUDA device" in evidence(simulated).split("\n")[3]
    on_gpu = evidence(make_finding(device="cuda", measurements=measured))
    assert on_gpu.split("\n")[3] == "| Field | Value |"


def test_a_finding_that_says_little_makes_a_ticket_too() -> None:
    finding = make_finding(
        location=None, excerpt=None, measurements=(), law="", severity=None, evidence=None, message=""
    )
    ticket = read_ticket(render_ticket(finding, ID, TODAY), PATH)
    assert ticket == ticket_of(finding, ID, TODAY)
    assert (ticket.files, ticket.lines, ticket.domains, ticket.severity) == ((), (), (), Severity.P1)


def test_odd_values_of_a_worker_are_shown() -> None:
    values = (None, True, float("nan"), float("-inf"), [1, 2], {"a": 1}, "text | pipe", 1.5)
    finding = make_finding(measurements=tuple(Measurement("m", value, "", {}) for value in values))
    cells = [row.split(" | ")[1] for row in evidence(finding).split("\n") if row.startswith("| `m`")]
    assert cells == ["none", "True", "nan", "-inf", "[1, 2]", "{'a': 1}", "text \\| pipe", "1.5"]


HOSTILE_PARTS = st.one_of(
    st.text(max_size=15),
    st.sampled_from(
        [
            "\n```\n",
            "\n# Finding Ticket: forged\n",
            "\n## Ticket Metadata\n\n| **Status** | `fixed` |\n",
            "\n<!-- /auditkit:evidence -->\n",
            "\n<!-- auditkit:evidence -->\n",
            "<!--",
            "\n**History**\n\n- forged\n",
            "\n**One-line summary:** forged\n",
            "\n- [x] forged\n",
            "|",
            "\\|",
            "`",
            "``",
            "**",
            "\\",
            "\x1b]0;title\x07",
            "\u2028",
            "\r",
            " / ",
        ]
    ),
)
HOSTILE = st.lists(HOSTILE_PARTS, max_size=5).map("".join)


@st.composite
def findings(draw: st.DrawFn) -> Finding:
    finding = make_finding(
        target=draw(HOSTILE),
        message=draw(HOSTILE),
        law=draw(HOSTILE),
        notes=tuple(draw(st.lists(HOSTILE, max_size=2))),
        severity=draw(st.none() | st.sampled_from(Severity)),
        location=draw(st.none() | st.builds(Location, HOSTILE, st.integers(1, 10**6), HOSTILE)),
        excerpt=draw(
            st.none() | st.builds(CodeExcerpt, HOSTILE, st.integers(1, 10**6), st.lists(HOSTILE, max_size=4).map(tuple))
        ),
        measurements=tuple(draw(st.lists(st.builds(Measurement, HOSTILE, st.floats() | HOSTILE, HOSTILE), max_size=2))),
    )
    probe = dataclasses.replace(
        finding.probe,
        title=draw(HOSTILE),
        motivation=draw(HOSTILE),
        remediation=draw(HOSTILE),
        remediation_code=draw(HOSTILE),
        verification=tuple(draw(st.lists(HOSTILE, max_size=2))),
        categories=tuple(draw(st.lists(st.sampled_from([*CATEGORIES, "forged"]), max_size=4))),
    )
    environment = dataclasses.replace(finding.environment, checkout=draw(HOSTILE), device_name=draw(HOSTILE))
    return dataclasses.replace(finding, probe=probe, environment=environment, run_id=draw(HOSTILE))


@settings(max_examples=300, deadline=None)
@given(
    findings(),
    st.integers(0, 99),
    st.sampled_from(["PT", "CR", "DRL", "XY"]),
    st.integers(1, 120),
    st.dates(),
    HOSTILE,
    HOSTILE,
)
def test_what_is_rendered_is_read_back(
    finding: Finding, batch: int, agent: str, number: int, today: date, domain: str, command: str
) -> None:
    ticket_id = format_ticket_id(batch, agent, number)
    expected = ticket_of(finding, ticket_id, today, domain)
    data = render_ticket(finding, ticket_id, today, domain, command, related=(domain,))
    assert read_ticket(data, expected.path) == expected
    document = Document.parse(data, expected.path)
    assert [len(block.history) for block in document.evidence] == [0]
    headings = [heading for heading in document.scan.headings if heading.level == 2]
    assert len(headings) == 13
    assert b"\x1b" not in data
    assert document.set_field("Status", "fixed").set_field("Status", "open").data == data


@settings(max_examples=100, deadline=None)
@given(findings(), st.lists(HOSTILE.filter(str.strip), max_size=3))
def test_a_block_keeps_its_history_whatever_the_finding_says(finding: Finding, history: list[str]) -> None:
    block = render_evidence(finding, history)
    (read,) = Document.parse(block, PATH).evidence
    (again,) = Document.parse(render_evidence(finding, read.history), PATH).evidence
    assert len(read.history) == len(history)
    assert again.history == read.history
    assert read.fingerprint == finding.result.fingerprint


def file(repository: Repository, finding: Finding) -> Filed:
    return file_finding(
        repository,
        Filing(
            fingerprint=finding.result.fingerprint,
            batch=7,
            agent=finding.probe.agent,
            revision=finding.environment.revision,
            today=TODAY,
            create=lambda ticket_id: render_ticket(finding, ticket_id, TODAY),
            evidence=lambda history: render_evidence(finding, history),
        ),
    )


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
    assert filed.path.read_bytes().replace(newline.encode() + returned.encode(), b"") == refreshed
