"""The pages that are counted from a folder of tickets: one for a batch, one for all."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import agent_code, agent_name
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.batch_report import render_batch_report
from auditkit.rendering.summary_report import render_summary_report
from auditkit.rules.reports.batch import BatchReport, batch_report, batches_of
from auditkit.rules.reports.summary import SummaryReport, summary_report
from auditkit.store.folder.repository import Repository

__all__ = ["Page", "batch_page", "summary_page"]


@dataclass(frozen=True)
class Page:
    """A page of all tickets or of a batch, as data and as Markdown, and the files that are in no count."""

    report: SummaryReport | BatchReport
    document: bytes
    broken: tuple[BrokenTicket, ...]


def summary_page(repository: Repository) -> Page:
    """Count every ticket of `repository`."""
    listing = repository.listing()
    report = summary_report(listing.tickets, datetime.date.today().isoformat())
    document = render_summary_report(report, repository.folder.resolve().name, listing.broken)
    return Page(report, document, listing.broken)


def batch_page(repository: Repository, batch: int | None = None, agent: str | None = None) -> Page:
    """The page of `batch`, of the latest one without it; of one agent's tickets where `agent` names one.

    Raises BadInputError where there is no such ticket.
    """
    listing = repository.listing()
    batches = batches_of(listing.tickets)
    if not batches:
        raise BadInputError(f"no ticket in {repository.folder}", "name the folder: --tickets DIR")
    number = batches[-1] if batch is None else batch
    if number not in batches:
        raise BadInputError(f"no ticket of batch {number}", f"there are {', '.join(map(str, batches))}")
    name = agent_name(agent_code(agent)) if agent else ""
    report = batch_report(listing.tickets, number, datetime.date.today().isoformat(), name)
    if not report.tickets:
        found = sorted({agent_name(agent_code(one.agent)) for one in listing.tickets if one.batch == number})
        raise BadInputError(f"no ticket of {name} in batch {number}", f"there are tickets of {', '.join(found)}")
    document = render_batch_report(report, repository.folder.resolve().name, listing.broken)
    return Page(report, document, listing.broken)
