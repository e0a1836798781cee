"""Tickets and findings of our own invention, for the tests of several parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditkit.model.enums import Contract, Evidence, Outcome, Severity
from auditkit.model.runs.measurement import CodeExcerpt, Location, Measurement
from auditkit.model.runs.probe import ProbeInfo
from auditkit.model.runs.run import Environment, Finding, ProbeResult, fingerprint
from auditkit.model.ticket import Box, Status, Ticket, id_parts
from auditkit.tickets.document import new_document

ROOT = Path(__file__).resolve().parent.parent
OLD_REVISION = "a" * 40


def ticket_text(
    ticket_id: str = "B7-PT-01",
    status: str = "open",
    severity: str = "P2",
    title: str = "sum of squares overflows",
    fingerprint: str = "",
    **fields: Any,
) -> str:
    """The text of a small valid ticket; `fields` are further keys of its front matter."""
    ticket = Ticket(
        **{
            "id": ticket_id,
            "title": title,
            "severity": Severity(severity),
            "status": Status(status),
            "location": "src/train/norms.py:10",
            "function": "total_norm",
            "findings": (fingerprint,) if fingerprint else (),
            "batch": id_parts(ticket_id)[0],
            "agent": "pytorch",
            "created": "2026-01-02",
            "boxes": (Box("a test"),),
            **fields,
        }
    )
    return new_document(ticket, [("", "Squares of `x | y` overflow.")], Path(f"{ticket_id}.md")).text


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
