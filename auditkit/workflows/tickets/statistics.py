"""The figures of a folder of tickets, and the check of a summary page against them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.summary_report import render_statistics
from auditkit.rules.counting.figures import PageCheck, check_figures
from auditkit.rules.counting.statistics import Facet, Statistics, statistics_of
from auditkit.store.folder.repository import Repository
from auditkit.store.reading.summary import read_figures

__all__ = [
    "Facet", "FolderStatistics", "PageCheck", "check_page", "folder_statistics", "parse_facet", "render_statistics",
]  # fmt: skip


@dataclass(frozen=True)
class FolderStatistics:
    """The figures of the tickets that can be read, and the files that cannot."""

    statistics: Statistics
    broken: tuple[BrokenTicket, ...]


def folder_statistics(repository: Repository, facets: Iterable[Facet] = tuple(Facet)) -> FolderStatistics:
    """Count the tickets of `repository` by each of `facets`."""
    listing = repository.listing()
    return FolderStatistics(statistics_of(listing.tickets, facets), listing.broken)


def check_page(repository: Repository, file: Path) -> tuple[PageCheck, tuple[BrokenTicket, ...]]:
    """Compare the figures of the summary page `file` with the tickets; also the files that are broken.

    Raises BadInputError where the page cannot be read.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {file}: {error.strerror}", "name a summary page: --against FILE") from error
    listing = repository.listing()
    return check_figures(read_figures(data), listing.tickets, file.name), listing.broken


def parse_facet(text: str) -> Facet:
    """The facet that `text` names; raises ValueError."""
    try:
        return Facet(text.strip().casefold())
    except ValueError:
        raise ValueError(f"no such field: '{text}'") from None
