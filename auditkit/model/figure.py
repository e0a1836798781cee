"""A figure of a summary page: a number, where it stands, and the words that say what it counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A count or a percentage as somebody wrote it.

    `line` and `column` (1-based) are those of the number, `written` is the number with its sign of percent
    or `~`. `labels` say what it counts; all of them hold at once (a table's row and column). `subject` is
    the header of the labels' column ("Severity"), `unit` that of the number's column ("Mentions"), "" outside
    tables. `block` is the line where its table, bars or paragraph start, `headings` the ones above it.
    """

    line: int
    column: int
    written: str
    labels: tuple[str, ...]
    subject: str
    unit: str
    block: int
    headings: tuple[str, ...]

    @property
    def is_percent(self) -> bool:
        return self.written.endswith("%")

    @property
    def is_rough(self) -> bool:
        """Whether the page itself says "about"."""
        return self.written.startswith("~")

    @property
    def value(self) -> float:
        return float(self.written.strip("~% ").replace(",", ""))

    @property
    def tolerance(self) -> float:
        """How far the true value may be away: half of the last decimal of a percentage, 1 where it is rough."""
        if not self.is_percent:
            return 0.0
        decimals = len(self.written.strip("~% ").partition(".")[2])
        return 1.0 if self.is_rough else 0.5 * 10.0**-decimals
