"""What became of a folder of tickets over time: the data of its burn-down and of each ticket's line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Moment:
    """How many tickets there were after a commit, and how many of them unfinished; `date` is ISO, with the time."""

    date: str
    unfinished: int
    all: int


@dataclass(frozen=True)
class TicketEvent:
    """What a commit did to a ticket, in words such as `status open → fixed`."""

    date: str
    what: str


@dataclass(frozen=True)
class FolderHistory:
    """The commits of a folder, and the events of each ticket by its id; both empty outside of git."""

    moments: tuple[Moment, ...] = ()
    events: Mapping[str, tuple[TicketEvent, ...]] = field(default_factory=dict)
