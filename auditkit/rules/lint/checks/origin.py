"""Rules about where a finding belongs and when it was made: domains and dates, TK016 to TK020."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from auditkit.model.tickets.page import Page
from auditkit.rules.lint.positions import at_cell, at_row, at_text
from auditkit.rules.lint.rule import Level, LintContext, Problem, rule

_DATE_ROWS = ("Created", "Updated")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


@rule("TK016a", Level.WARN, "The domain's root is not one of the project's")
def domain_root(page: Page, context: LintContext) -> Iterator[Problem]:
    """The first part of each Domain is one of `lint: domains` in auditkit.yaml; without these any will do.

    Why: A domain that nobody else uses is missing from every summary by domain.
    Bad: | **Domain** | `trainig` |
    Good: | **Domain** | `training` |
    Mend: Write a root of the project, or add this one to the configuration.
    """
    known = context.settings.domains
    for domain in page.ticket.domains:
        if known and domain.split("/")[0] not in known:
            yield _at_domain(page, domain, f"domain '{domain}' is not below one of {', '.join(known)}")


@rule("TK016b", Level.INFO, "More than one domain")
def one_domain(page: Page, context: LintContext) -> Iterator[Problem]:
    """The Domain names one part of the code.

    Why: A ticket with two is counted twice, or once at random; often it is two findings.
    Bad: | **Domain** | `training` / `telemetry` |
    Good: | **Domain** | `telemetry` |
    Mend: Keep the one that the fix belongs to, or split the ticket.
    """
    if len(page.ticket.domains) > 1:
        yield at_row(page, "Domain", f"{len(page.ticket.domains)} domains: {', '.join(page.ticket.domains)}")


@rule("TK016c", Level.INFO, "A domain with a sub-path")
def domain_path(page: Page, context: LintContext) -> Iterator[Problem]:
    """A Domain is a root of `lint: domains` alone, nothing below it; without these any path will do.

    Why: Where the project counts by root, `training/loop` and `training` are two rows of one domain.
    Bad: | **Domain** | `training/loop` |
    Good: | **Domain** | `training` |
    Mend: Name the root, or add the path to `lint: domains`.
    """
    known = context.settings.domains
    for domain in page.ticket.domains:
        if known and "/" in domain and domain not in known:
            yield _at_domain(page, domain, f"domain '{domain}' has a sub-path")


@rule("TK017", Level.ERROR, "A date is not an ISO date")
def iso_dates(page: Page, context: LintContext) -> Iterator[Problem]:
    """Created, Updated and Due are days of the calendar as YYYY-MM-DD.

    Why: Age and order of tickets are computed from them.
    Bad: | **Created** | 4 March 2026 |
    Good: | **Created** | 2026-03-04 |
    Mend: Write the date as YYYY-MM-DD.
    """
    for label in (*_DATE_ROWS, "Due"):
        cell = page.cell(label)
        if cell is not None and cell.text and read_date(cell.text) is None:
            yield at_cell(cell, f"{label} '{cell.text}' is not a date as YYYY-MM-DD")


@rule("TK018", Level.ERROR, "Updated before it was created")
def updated_after_created(page: Page, context: LintContext) -> Iterator[Problem]:
    """Updated is not earlier than Created.

    Why: One of the two is wrong; nothing can say which.
    Bad: Created 2026-03-04, Updated 2026-03-01
    Good: Created 2026-03-01, Updated 2026-03-04
    Mend: Look into the file's history for the right day.
    """
    created, updated = read_date(page.ticket.created), read_date(page.ticket.updated)
    if created and updated and updated < created:
        yield at_row(page, "Updated", f"updated {updated}, before it was created {created}")


@rule("TK019", Level.WARN, "Created before the repository's first commit")
def created_after_first_commit(page: Page, context: LintContext) -> Iterator[Problem]:
    """Created is not earlier than the first commit of the repository, or than `lint: first_commit`.

    Without a checkout, a repository that is younger than half of ten tickets or more says nothing of their dates:
    they were copied into it.
    Why: Nobody reviews code that is not there yet: the year is usually last year's.
    Bad: Created 2024-12-27 in a repository that began on 2025-11-26
    Good: Created 2025-12-27 in a repository that began on 2025-11-26
    Mend: Correct the year.
    """
    created, first = read_date(page.ticket.created), context.settings.first_commit
    if created and first and created < first:
        yield at_row(page, "Created", f"created {created}, before the first commit of the repository {first}")


@rule("TK020", Level.WARN, "The resolution is dated after Updated")
def updated_after_resolution(page: Page, context: LintContext) -> Iterator[Problem]:
    """No date in the sections that tell how the ticket ended is later than Updated.

    The dates of sign-offs may be: who signs a finished ticket off changes no status.
    Why: Updated is the day of the last change of status; a later resolution says that it was forgotten.
    Bad: Updated 2026-03-04, and below Resolution: Fixed Date 2026-03-09
    Good: Updated 2026-03-09, and below Resolution: Fixed Date 2026-03-09
    Mend: Set Updated to the day on which the ticket was finished.
    """
    updated, resolution = read_date(page.ticket.updated), page.ticket.resolution
    if updated is None or resolution is None:
        return
    signed = {one.date for one in resolution.sign_offs}
    dates = [read_date(text) for text in resolution.dates if text not in signed]
    later = [date for date in dates if date and date > updated]
    if later:
        yield at_row(page, "Updated", f"updated {updated}, but the resolution speaks of {max(later)}")


def read_date(text: str) -> datetime.date | None:
    """The day that YYYY-MM-DD means, None for anything else."""
    if _ISO.fullmatch(text) is None:
        return None
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def _at_domain(page: Page, domain: str, message: str) -> Problem:
    cell = page.cell("Domain")
    return at_text(page, cell.line, domain, message) if cell else Problem(message)
