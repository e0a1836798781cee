"""What a run's findings are beside the tickets that were there before: known, new, or gone."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.codec import Record


@dataclass(frozen=True)
class Tracked(Record, keys="fingerprint ticket why"):
    """A fingerprint, the ticket that has it ("" for none), and what is to be said of the two."""

    fingerprint: str
    ticket: str = ""
    why: str = ""


@dataclass(frozen=True)
class Baseline(Record):
    """Findings by their tickets: `known` have an open or an accepted one, `new` have none, or a closed one.

    `gone` are findings of open tickets that were checked and do not reproduce, `unasked` those that this run did not
    check. `minor` counts findings without a ticket that are not worth one. `tickets` is their folder,
    `against` the commit that they were read at, "" for the files as they lie.
    """

    tickets: str
    against: str = ""
    known: tuple[Tracked, ...] = ()
    new: tuple[Tracked, ...] = ()
    gone: tuple[Tracked, ...] = ()
    unasked: tuple[Tracked, ...] = ()
    minor: int = 0

    def in_words(self) -> str:
        """`3 known, 1 new, 0 gone`, and what else there is."""
        more = f", {len(self.unasked)} not checked" if self.unasked else ""
        more += f"; {self.minor} minor without a ticket" if self.minor else ""
        return f"{len(self.known)} known, {len(self.new)} new, {len(self.gone)} gone{more}"
