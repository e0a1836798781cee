"""The figures of a folder of tickets, and the check of a summary page against them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from auditkit.errors import BadInputError
from auditkit.model.tickets.ids import agent_name
from auditkit.model.tickets.ticket import BrokenTicket
from auditkit.rendering.summary_report import render_statistics
from auditkit.rules.counting.figures import PageCheck, check_figures
from auditkit.rules.counting.statistics import UNKNOWN, Counted, Facet, Statistics, roots_of, statistics_of
from auditkit.store.folder.repository import Repository
from auditkit.store.listing import rows as at
from auditkit.store.listing.index import read_index
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
    tickets, broken = _counted(repository)
    return FolderStatistics(statistics_of(tickets, facets), broken)


def check_page(repository: Repository, file: Path) -> tuple[PageCheck, tuple[BrokenTicket, ...]]:
    """Compare the figures of the summary page `file` with the tickets; also the files that are broken.

    Raises BadInputError where the page cannot be read.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BadInputError(f"cannot read {file}: {error.strerror}", "name a summary page: --against FILE") from error
    tickets, broken = _counted(repository)
    return check_figures(read_figures(data), tickets, file.name), broken


def _counted(repository: Repository) -> tuple[list[Counted], tuple[BrokenTicket, ...]]:
    """What every ticket counts as, by the index, and the files that are broken."""
    index = read_index(str(repository.folder))
    values: dict[Facet, Iterable[tuple[str, ...]]] = {
        Facet.SEVERITY: [(value or UNKNOWN,) for value in index.column(at.SEVERITY)],
        Facet.STATUS: [(value or UNKNOWN,) for value in index.column(at.STATUS)],
        Facet.AGENT: [(agent_name(code),) for code in index.column(at.AGENT_CODE)],
        Facet.BATCH: [(str(batch),) for batch in index.column(at.BATCH)],
        Facet.DOMAIN: map(roots_of, index.column(at.DOMAINS)),
        Facet.CATEGORY: [tuple(dict.fromkeys(boxes)) for boxes in index.column(at.CATEGORIES)],
        Facet.VERDICT: [tuple(vote or UNKNOWN for vote in votes) for votes in index.column(at.VOTES)],
        Facet.CONSENSUS: [(kind,) for kind in index.column(at.AGREEMENT)],
    }
    rows = zip(*values.values(), strict=True)
    return [dict(zip(values, row, strict=True)) for row in rows], tuple(map(at.broken_of, index.broken))


def parse_facet(text: str) -> Facet:
    """The facet that `text` names; raises ValueError."""
    try:
        return Facet(text.strip().casefold())
    except ValueError:
        raise ValueError(f"no such field: '{text}'") from None
