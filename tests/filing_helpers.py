"""Tickets and findings of our own invention, for the tests of several parts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path, PurePath
from typing import Any

from auditkit.errors import BadInputError
from auditkit.model.enums import Contract, Evidence, Outcome, Severity
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Environment, Finding, ProbeResult, fingerprint
from auditkit.rendering.evidence import render_banner
from auditkit.store.folder.filing import Filed, Forms, file_findings
from auditkit.store.folder.repository import Repository

ROOT = Path(__file__).resolve().parent.parent
TODAY = date(2026, 3, 4)
MEASURED = "| `norm` | inf | value | n=4 | measured |"
OLD_REVISION = "a" * 40
NEW_REVISION = "b" * 40


def corpus_folder() -> Path | None:
    """The folder of real tickets, where this machine has one: not part of the project."""
    named = os.environ.get("AUDITKIT_CORPUS")
    folder = Path(named) if named else ROOT.parent / "shared" / "corpus"
    return folder if (folder / "expected.json").is_file() else None


def ticket_text(
    ticket_id: str = "B7-PT-01",
    status: str = "`open`",
    severity: str = "`P2`",
    title: str = "sum of squares overflows",
    fingerprint: str = "",
    extra: str = "",
    row: str = MEASURED,
) -> str:
    """A hand-written ticket with fences, pipes and rules that a careless reader would trip over."""
    block = evidence_block(fingerprint, row) + "\n" if fingerprint else ""
    return f"""# Finding Ticket: {title}

---

## Ticket Metadata

| Field | Value |
|-------|-------|
| **Ticket ID** | `{ticket_id}` |
| **Severity** | {severity} |
| **Status** | {status} |
| **Batch** | 7 |
| **Agent** | `pytorch` |
| **Domain** | `train/telemetry` |
| **Assignee** | |
| **Created** | 2026-01-02 |
| **Updated** | 2026-01-02 |

---

## Location

| Field | Value |
|-------|-------|
| **File(s)** | `src/train/norms.py`, `src/train/loop.py` |
| **Line(s)** | norms.py: `10-12`, loop.py: `7`, `9` |
| **Function/Class** | `total_norm()` |

---

## Summary

**One-line summary:** squares of `x | y` overflow.

**Category:**
- [x] Correctness bug
- [ ] Race condition / concurrency
- [X] Numerical stability

## Detailed Description

```python
# Lines 10-12
## Ticket Metadata
| **Status** | `fixed` |
<!-- auditkit:evidence -->
```

- a list item with its own fence:

    ```
    # not a heading
    ```

{block}
## Verification

- [ ] a test
{extra}"""


def evidence_block(fingerprint: str, row: str = MEASURED) -> str:
    """The smallest block that the store knows what to do with."""
    return f"""<!-- auditkit:evidence -->
## Evidence

| Field | Value |
|-------|-------|
| **Fingerprint** | `{fingerprint}` |
| **Message** | told |

| Measurement | Value | Unit | Case | Evidence |
|-------------|-------|------|------|----------|
{row}
<!-- /auditkit:evidence -->"""


def with_history(block: str, history: Sequence[str]) -> bytes:
    """`block` with history lines where the template puts them."""
    if not history:
        return block.encode()
    lines = "".join(f"- {line}\n" for line in history)
    end = "<!-- /auditkit:evidence -->"
    return block.replace(end, f"\n**History**\n\n{lines}{end}").encode()


def plain_findings(*fingerprints: str, revision: str = NEW_REVISION, severity: Severity = Severity.P2) -> list[Finding]:
    """Findings of one cause."""
    findings = [make_finding(fingerprint=fingerprint, severity=severity) for fingerprint in fingerprints]
    return [replace(each, environment=replace(each.environment, revision=revision)) for each in findings]


def plain_forms(row: str = MEASURED) -> Forms:
    """Tickets that are `ticket_text` with a block for each finding, without templates."""

    def block(finding: Finding) -> str:
        return evidence_block(finding.result.fingerprint, row)

    def ticket(findings: Sequence[Finding], ticket_id: str) -> bytes:
        first, blocks = block(findings[0]), "\n\n".join(map(block, findings))
        text = ticket_text(ticket_id, fingerprint=findings[0].result.fingerprint, row=row)
        return text.replace(first, blocks).encode()

    def evidence(finding: Finding, history: Sequence[str], _: Sequence[str]) -> bytes:
        return with_history(block(finding), history)

    return Forms(7, TODAY, ticket, evidence, render_banner, relation=lambda *_: "", agent="PT")


def file_plain(
    repository: Repository,
    fingerprint: str,
    row: str = MEASURED,
    revision: str = NEW_REVISION,
) -> Filed:
    """File a finding of its own cause. Raises BadInputError where its ticket cannot be read."""
    findings = plain_findings(fingerprint, revision=revision)
    filed = file_findings(repository, [findings], plain_forms(row))[fingerprint]
    if isinstance(filed, BadInputError):
        raise filed
    return filed


def put(folder: Path, name: str, text: str | bytes) -> Path:
    """Write a file below `folder`, line ends as given."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def make_finding(**changes: Any) -> Finding:
    """A finding in which every field says something; `changes` replace fields of its result."""
    probe = ProbeInfo(
        id="norm_overflows_on_finite_grads",
        version=3,
        title="norm overflows on finite gradients",
        contracts=(Contract.GRAD_NORM,),
        categories=("Correctness bug", "Numerical stability"),
        agent="PT",
        severity=Severity.P1,
        lifecycle="stable",
        instrument="values",
        motivation="Squaring in float32 overflows\nfrom 1.84e19 on.",
        method="bisection",
        limits="none",
        remediation="Scale by the largest magnitude first.",
        remediation_code="def norm(grads):\n    return scaled(grads)\n",
        verification=("gradients of 1e20 give a finite norm",),
        statement_does="gives the first value that is not finite",
    )
    fields: dict[str, Any] = {
        "probe": probe.id,
        "probe_version": probe.version,
        "target": "train.norms:total_norm",
        "outcome": Outcome.REPRODUCED,
        "message": "reads inf from 1e19 on",
        "fingerprint": fingerprint(probe.id, "train.norms:total_norm"),
        "severity": Severity.P0,
        "evidence": Evidence.MEASURED,
        "device": "cpu",
        "law": "3n+1",
        "location": Location("src/train/norms.py", 10, "total_norm"),
        "excerpt": CodeExcerpt("src/train/norms.py", 10, ("def total_norm(grads):", "    return 0")),
        "measurements": (
            Measurement("norm", float("inf"), "value", {"dtype": "float32", "tensors": 64}),
            Measurement("peak", 3 * 1024**2, "bytes", {}, Evidence.EXTRAPOLATED),
        ),
    }
    environment = Environment(
        checkout="../trainer",
        revision=OLD_REVISION,
        dirty=True,
        python="3.11.7",
        torch="2.13.0",
        device="cpu",
        device_name="A 64-core CPU",
    )
    return Finding(probe, ProbeResult(**(fields | changes)), environment, "run-2026-03-04")


PATH = PurePath("batch7/B7-PT-01.md")
