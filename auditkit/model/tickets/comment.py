"""A word that somebody said about a ticket, between its reviews and its resolution."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.codec import Record


@dataclass(frozen=True)
class Comment(Record):
    """Who said what, and when: `date` is ISO, with the minute where it is known; `line` that of its heading."""

    author: str
    date: str
    text: str
    line: int
