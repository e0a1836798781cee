"""The page of a folder of tickets: a board, how it emptied, severities by batch, and every ticket with its reviews."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from auditkit.model.enums import Evidence, Outcome, Severity
from auditkit.model.runs.measurement import Measured, Measurement
from auditkit.model.runs.run import ProbeResult
from auditkit.model.text import counted
from auditkit.model.tickets.ticket import BrokenTicket, EvidenceSummary, Status, Ticket
from auditkit.rendering.environment import render_page
from auditkit.rendering.evidence import measured_rows
from auditkit.rendering.html.page_style import page_style
from auditkit.rendering.html.pictures import Picture, pictures_of
from auditkit.rendering.html.prose import Part, parts_of
from auditkit.rendering.html.svg import Bars, Line, Steps
from auditkit.rules.reports.ticket_history import FolderHistory
from auditkit.rules.tickets.consensus import consensus_of

_GIT = "read from git's history of the folder"
_MOST_ROWS = 60


@dataclass(frozen=True)
class TicketCard:
    """One ticket as the page shows it."""

    ticket: Ticket
    pictures: tuple[Picture, ...]
    told: tuple[tuple[EvidenceSummary, tuple[tuple[str, ...], ...]], ...]
    consensus: str
    description: tuple[Part, ...]
    advice: tuple[Part, ...]
    resolution: tuple[Part, ...]


def board_page(tickets: Sequence[Ticket], broken: Sequence[BrokenTicket], name: str, history: FolderHistory) -> bytes:
    """The page of the folder `name`; what is in its `history` is drawn, where git has one."""
    ordered = sorted(tickets, key=lambda one: (one.is_finished, one.severity or "P9", str(one.id)))
    unfinished = sum(not one.is_finished for one in tickets)
    style, style_hash = page_style()
    statuses = [each for each in Status if any(one.status is each for one in tickets)]
    return render_page(
        "board.html.j2",
        name=name,
        style=style,
        style_hash=style_hash,
        verdict=f"{counted(unfinished, 'ticket')} of {len(tickets)} unfinished",
        counts=Counter(one.severity.value if one.severity else "none" for one in tickets if not one.is_finished),
        statuses=[*(each.value for each in statuses), *([""] if any(one.status is None for one in tickets) else [])],
        severities=[*(each.value for each in Severity), ""],
        tickets=ordered,
        pictures=[each for each in (_burn_down(history), _by_batch(tickets)) if each is not None],
        cards=[_card(one, history) for one in ordered],
        broken=broken,
    )


def _burn_down(history: FolderHistory) -> Picture | None:
    moments = history.moments
    if len(moments) < 2:
        return None
    dates = [datetime.datetime.fromisoformat(one.date) for one in moments]
    first = dates[0]
    days = list(itertools.accumulate(((date - first).total_seconds() / 86400 for date in dates), max))
    last, most = moments[-1], max(one.unfinished for one in moments)
    form = "%Y-%m-%d" if days[-1] > 2 else "%m-%d %H:%M"
    shown = moments if len(moments) <= _MOST_ROWS else [*moments[:: len(moments) // _MOST_ROWS + 1], last]
    return Picture(
        f"{last.unfinished} of {counted(last.all, 'ticket')} unfinished on {last.date[:10]}, {most} at most",
        "Tickets over time: the solid line those that are unfinished, the dotted one all.",
        _GIT, ("commit of", "unfinished [tickets]", "all [tickets]"),
        tuple((one.date[:16].replace("T", " "), str(one.unfinished), str(one.all)) for one in shown),
        Steps(
            days, (("open", [one.unfinished for one in moments]), ("all", [one.all for one in moments])),
            lambda day: (first + datetime.timedelta(days=day)).strftime(form), "tickets [count]",
        ),
    )  # fmt: skip


def _by_batch(tickets: Sequence[Ticket]) -> Picture | None:
    counts: dict[int, Counter[str]] = {}
    for one in tickets:
        counts.setdefault(one.batch, Counter())[one.severity.value if one.severity else "none"] += 1
    if not counts:
        return None
    rows = [(f"batch {batch}", sorted(counts[batch].items())) for batch in sorted(counts)]
    grave = {name: sum(count for level, count in parts if level in ("P0", "P1")) for name, parts in rows}
    worst = max(grave, key=lambda name: grave[name])
    none = f"no P0 or P1 in {counted(len(rows), 'batch', 'batches')}"
    return Picture(
        f"{worst} has most P0 and P1: {grave[worst]}" if grave[worst] else none,
        "Tickets of each batch by severity, one bar for each batch.",
        "counted from the tickets", ("batch", "severity", "tickets [count]"),
        tuple((name, level, str(count)) for name, parts in rows for level, count in parts),
        Bars(rows, "tickets [count]"),
    )  # fmt: skip


def _card(ticket: Ticket, history: FolderHistory) -> TicketCard:
    events = history.events.get(str(ticket.id), ())
    pictures = [picture for one in ticket.evidence if one.measurements for picture in pictures_of(_result(one))]
    if len(events) > 1:
        said = [(one.date[:10], one.what) for one in events]
        pictures.append(
            Picture(
                f"{ticket.id}: {said[-1][1]} on {said[-1][0]}", "What happened to the ticket, the oldest first.",
                _GIT, ("commit of", "what"), tuple(said), Line(said),
            )
        )  # fmt: skip
    agreed = consensus_of(ticket)
    words = filter(None, (agreed.kind.value, agreed.verdict and agreed.verdict.value, agreed.needs_answer))
    return TicketCard(
        ticket,
        tuple(pictures),
        tuple((one, measured_rows(map(_measurement, one.measurements))) for one in ticket.evidence),
        ", ".join(words) if ticket.reviews else "",
        parts_of(ticket.description),
        parts_of(ticket.recommended_fix),
        parts_of(ticket.resolution.text if ticket.resolution else ""),
    )


def _result(evidence: EvidenceSummary) -> ProbeResult:
    """What an evidence block says, as the probe's result that it was written from."""
    device = evidence.device.rpartition("(")[2].rstrip(")") or "cpu"
    kind = Evidence(evidence.evidence) if evidence.evidence in {*Evidence} else Evidence.MEASURED
    return ProbeResult(
        evidence.probe, evidence.version, evidence.target, Outcome.REPRODUCED, evidence.message, evidence.fingerprint,
        evidence=kind, device="simulated" if kind is Evidence.SIMULATED else device, law=evidence.law,
        measurements=tuple(map(_measurement, evidence.measurements)),
    )  # fmt: skip


def _measurement(one: Measured) -> Measurement:
    case = {key: _number(value) for key, value in one.case.items()}
    kind = Evidence(one.evidence) if one.evidence in {*Evidence} else Evidence.MEASURED
    return Measurement(one.name, one.text if one.value is None else one.value, one.unit, case, kind)


def _number(text: str) -> Any:
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return text
    return int(number) if number.is_integer() and abs(number) < 1e15 else number
