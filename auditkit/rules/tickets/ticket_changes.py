"""What became of a ticket between two of its texts, in the words of its fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditkit.model.tickets.ticket import Resolution, Ticket

_FIELDS = ("severity", "status", "batch", "agent", "domains", "assignee", "labels", "due", "created")
_CITED = ("files", "lines_written", "function")
_PROSE = {"summary": "summary", "categories": "categories", "description": "description",
          "recommended_fix": "recommended fix"}  # fmt: skip
_MOST_OF_TITLE = 60


def ticket_changes(before: Ticket, after: Ticket) -> list[str]:
    """Each field that changed, such as `status open -> in-review` or `review by drl: ENDORSE`; none for other text."""
    return list(_changes(before, after))


def _changes(before: Ticket, after: Ticket) -> Iterator[str]:
    if before.id != after.id:
        yield f"id {before.id} -> {after.id}"
    if before.title != after.title:
        yield f"title '{_short(before.title)}' -> '{_short(after.title)}'"
    for name in _FIELDS:
        old, new = _said(before, name), _said(after, name)
        if old != new:
            yield f"{name} {old or 'none'} -> {new or 'none'}"
    yield from _further(before, after)
    if any(getattr(before, name) != getattr(after, name) for name in _CITED):
        yield f"location {_location(before)} -> {_location(after)}"
    yield from _reviews(before, after)
    yield from _new(_comments(before), _comments(after), "comment by {}", "a comment by {} taken out")
    yield from _new(_relations(before), _relations(after), "{}", "no longer {}")
    yield from _verification(before, after)
    yield from _resolution(before.resolution, after.resolution)
    yield from _evidence(before, after)
    yield from (told for name, told in _PROSE.items() if getattr(before, name) != getattr(after, name))
    if [(one.file, one.section) for one in before.reports] != [(one.file, one.section) for one in after.reports]:
        yield "report reference"
    if before.path.parent != after.path.parent:
        yield f"moved to {after.path.parent.name or '.'}/"


def _said(ticket: Ticket, name: str) -> str:
    if name in ("severity", "status"):
        known = getattr(ticket, name)
        return str(known) if known is not None else str(getattr(ticket, f"{name}_written"))
    value = getattr(ticket, name)
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _short(title: str) -> str:
    return title if len(title) <= _MOST_OF_TITLE else f"{title[: _MOST_OF_TITLE - 1]}…"


def _further(before: Ticket, after: Ticket) -> Iterator[str]:
    old, new = ({row.label: row.text for row in ticket.further} for ticket in (before, after))
    for label in dict.fromkeys([*old, *new]):
        if old.get(label, "") != new.get(label, ""):
            yield f"{label} {old.get(label) or 'none'} -> {new.get(label) or 'none'}"


def _location(ticket: Ticket) -> str:
    files = ", ".join(ticket.files) or "no file"
    return _short(f"{files} {ticket.lines_written.replace('`', '')}".strip())


def _reviews(before: Ticket, after: Ticket) -> Iterator[str]:
    old, new = _verdicts(before), _verdicts(after)
    for who, verdict in new.items():
        if who not in old:
            yield f"review by {who}: {verdict}"
        elif old[who] != verdict:
            yield f"review by {who}: {old[who]} -> {verdict}"
    yield from (f"the review by {who} taken out" for who in old if who not in new)


def _verdicts(ticket: Ticket) -> dict[str, str]:
    return {
        review.reviewer or review.reviewer_written or "somebody": review.verdict or review.verdict_written
        for review in ticket.reviews
    }


def _comments(ticket: Ticket) -> list[tuple[str, str]]:
    return [(comment.author or "somebody", f"{comment.date} {comment.text}") for comment in ticket.comments]


def _relations(ticket: Ticket) -> list[tuple[str, str]]:
    return [(f"{one.kind or one.kind_written or 'related'} {one.id}", "") for one in ticket.related if one.id]


def _new(before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]], came: str, went: str) -> Iterator[str]:
    yield from (came.format(name) for name, more in after if (name, more) not in before)
    yield from (went.format(name) for name, more in before if (name, more) not in after)


def _verification(before: Ticket, after: Ticket) -> Iterator[str]:
    old, new = before.verification, after.verification
    ticked = [sum(item.is_done for item in items) for items in (old, new)]
    if ticked[0] != ticked[1]:
        yield f"verified {ticked[0]} -> {ticked[1]} of {len(new)}"
    if [(item.text, item.probe, item.condition) for item in old] != [
        (item.text, item.probe, item.condition) for item in new
    ]:
        yield "verification items"


def _resolution(before: Resolution | None, after: Resolution | None) -> Iterator[str]:
    if before == after:
        return
    parts: Mapping[str, tuple[set[str], list[str]]] = {
        "commit {}": (set(before.commits) if before else set(), list(after.commits) if after else []),
        "test {}": (set(before.tests) if before else set(), list(after.tests) if after else []),
        "signed off by {}": (
            {one.text for one in before.sign_offs} if before else set(),
            [one.text for one in after.sign_offs] if after else [],
        ),
    }
    names = {one.text: one.agent or "somebody" for one in (after.sign_offs if after else ())}
    told = False
    for form, (known, now) in parts.items():
        for one in dict.fromkeys(now):
            if one not in known:
                told = True
                yield form.format(names.get(one, one))
    if after is None:
        yield "the resolution taken out"
    elif not told and (before is None or before.text != after.text):
        yield "resolution"


def _evidence(before: Ticket, after: Ticket) -> Iterator[str]:
    old, new = ({block.fingerprint: block for block in ticket.evidence} for ticket in (before, after))
    for name, block in new.items():
        if name not in old:
            yield f"evidence of {block.probe or name}: {block.outcome or 'found'}"
        elif old[name].outcome != block.outcome:
            yield f"evidence of {block.probe or name}: {old[name].outcome} -> {block.outcome}"
        elif [one.measurements for one in (old[name], block)] != [block.measurements] * 2:
            yield f"evidence of {block.probe or name} measured again"
    yield from (f"evidence of {old[name].probe or name} taken out" for name in old if name not in new)
