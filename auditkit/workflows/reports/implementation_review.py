"""An implementation review: a comparison, what was required of the change, and what follows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import auditkit
from auditkit.errors import BadInputError
from auditkit.model.revisions.comparison import Comparison
from auditkit.model.revisions.implementation_review import Assessment, ImplementationReview
from auditkit.model.runs.probe import ProbeInfo
from auditkit.probing.hosts.catalog import probe_named
from auditkit.rendering.review import render_review
from auditkit.rules.comparison.commit_claims import claims_of_commits
from auditkit.rules.comparison.implementation_review import review_of
from auditkit.rules.comparison.requirements import (
    SAME_ANSWERS,
    Wanted,
    judge_all,
    outcomes_as_requirements,
    parse_requirement,
)
from auditkit.store.config.config import Config
from auditkit.tickets.document import Document
from auditkit.tickets.store import TicketFolder
from auditkit.workflows.configuration import catalog_of

__all__ = ["Assessment", "ReviewRequest", "render_review", "review"]


@dataclass(frozen=True)
class ReviewRequest:
    """A finished comparison and what was required: texts of `parse_requirement`, a ticket by id.

    `reviewer` and `plan` are as the user wrote them; "" for auditkit's own name, and for no plan.
    """

    comparison: Comparison
    required: tuple[str, ...] = ()
    ticket: str | None = None
    tickets: Path | None = None
    reviewer: str = ""
    plan: str = ""
    config: Config = field(default_factory=Config)


def review(request: ReviewRequest) -> ImplementationReview:
    """The review. Raises BadInputError for a requirement that cannot be read, and for a ticket that is not there."""
    catalog = catalog_of(request.config)
    wanted = list(_required(request.required, catalog))
    entry = None
    if request.ticket is not None:
        entry = TicketFolder(request.tickets or Path("tickets")).read(request.ticket)
        wanted += _of_ticket(entry)
    requirements = list(judge_all(wanted, request.comparison))
    requirements += claims_of_commits(request.comparison.changes.commits, request.comparison)
    return review_of(
        request.comparison,
        requirements or outcomes_as_requirements(request.comparison),
        catalog,
        reviewer=request.reviewer or f"auditkit {auditkit.__version__}",
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        plan=request.plan or (f"ticket {entry.ticket.id}: {entry.ticket.title}" if entry else ""),
    )


def _required(texts: Sequence[str], catalog: dict[str, ProbeInfo]) -> Iterator[Wanted]:
    for text in texts:
        try:
            wanted = parse_requirement(text)
        except ValueError as error:
            raise BadInputError(f"--require '{text}': {error}", "--require 'syncs_grow_with_tensors: fixed'") from None
        if wanted.probe != SAME_ANSWERS:
            probe_named(catalog, wanted.probe)
        yield wanted


def _of_ticket(document: Document) -> Iterator[Wanted]:
    """Require that the findings of the ticket no longer reproduce; without any, the probes of its boxes."""
    ticket = document.ticket
    probes = [name.partition("/")[0] for name in ticket.findings] or [box.probe for box in ticket.boxes if box.probe]
    for probe in dict.fromkeys(probes):
        yield parse_requirement(f"{probe}: not_reproduced", f"ticket {ticket.id}")
