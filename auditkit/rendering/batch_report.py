"""The page of one batch as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from auditkit.model.enums import Severity
from auditkit.model.text import inert_line
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.environment import render
from auditkit.rendering.summary_report import horizon_levels, meaning
from auditkit.rules.counting.statistics import Facet
from auditkit.rules.reports.batch import BatchReport, first_step
from auditkit.rules.reports.words import SEVERITY_LABELS
from auditkit.rules.tickets.consensus import Consensus, consensus_of


def render_batch_report(report: BatchReport, folder: str, broken: Sequence[BrokenTicket] = ()) -> bytes:
    """The whole page of the batch, of the tickets of `folder`; `broken` are files that are in no count."""
    agents = (inert_line(one.label) for one in report.statistics.by[Facet.AGENT])
    return render(
        "batch_report.md.j2",
        filters={
            "short_file": _short_file,
            "meaning": meaning,
            "levels": horizon_levels,
            "votes": _votes,
            "first_step": first_step,
        },
        report=report,
        statistics=report.statistics,
        agents=", ".join(agents) or "none",
        words={level: label.value for level, label in SEVERITY_LABELS.items()},
        has_key_findings=any(report.key_findings.values()),
        status=lambda ticket: ticket.status.value if ticket.status else ticket.status_written or "unknown",
        consensus=lambda ticket: consensus_of(ticket).kind.value if ticket.reviews else "not reviewed",
        Facet=Facet,
        folder=folder,
        broken=tuple(broken),
    )


def _short_file(file: str) -> str:
    """The last two parts of a path, which tell files of one audit apart."""
    return "/".join(PurePosixPath(file).parts[-2:])


def _votes(consensus: Consensus) -> str:
    """`drl ENDORSE, pytorch OBJECT (wants P3)`."""
    return ", ".join(_vote(vote.reviewer, vote.verdict, vote.wanted) for vote in consensus.votes)


def _vote(reviewer: str, verdict: object, wanted: Sequence[Severity]) -> str:
    levels = f" (wants {' or '.join(level.value for level in wanted)})" if wanted else ""
    return f"{reviewer or 'unnamed'} {verdict or 'no known verdict'}{levels}"
