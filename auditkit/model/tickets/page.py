"""Pages as text with their parts: a ticket's, which rules about the writing look at, and the figures of any."""

from __future__ import annotations

from dataclasses import dataclass

from auditkit.model.tickets.claim import Claim
from auditkit.model.tickets.ticket import Ticket


@dataclass(frozen=True)
class Section:
    """A heading and its lines: `line` is that of the heading, the text runs to `end_line` (both 1-based,
    the end not included)."""

    level: int
    title: str
    line: int
    end_line: int


@dataclass(frozen=True)
class Cell:
    """A row of a Field and Value table: where its value stands (1-based line and column)."""

    label: str
    text: str
    written: str
    line: int
    column: int


@dataclass(frozen=True)
class CodeBlock:
    """A fence: its language, the line of the fence itself, its text, and the headings it stands below.

    `h2` and `h3` are "" where there is none.
    """

    language: str
    line: int
    text: str
    h2: str
    h3: str
    is_evidence: bool = False


@dataclass(frozen=True)
class Page:
    """One ticket, and its file as a person sees it.

    `lines` are the file's lines without their ends; `visible` says of each whether it is outside fences
    and comments. `metadata` and `location` are the rows of these two tables.
    """

    ticket: Ticket
    lines: tuple[str, ...]
    visible: tuple[bool, ...]
    ends_with_newline: bool
    sections: tuple[Section, ...]
    code_blocks: tuple[CodeBlock, ...]
    metadata: tuple[Cell, ...]
    location: tuple[Cell, ...]
    claims: tuple[Claim, ...] = ()

    def cell(self, label: str) -> Cell | None:
        """The first metadata row with that label, whatever the case."""
        return _labelled(self.metadata, label)

    def place(self, label: str) -> Cell | None:
        """The first Location row with that label, whatever the case."""
        return _labelled(self.location, label)

    def section(self, title: str, level: int = 2) -> Section | None:
        """The first section of that title and level, whatever the case."""
        wanted = title.casefold()
        return next((part for part in self.sections if part.level == level and part.title.casefold() == wanted), None)

    def text_of(self, section: Section, is_visible: bool = False) -> str:
        """The text below a heading; with `is_visible` fences and comments are left out."""
        numbers = range(section.line, section.end_line - 1)
        return "\n".join(self.lines[number] for number in numbers if not is_visible or self.visible[number])


def _labelled(cells: tuple[Cell, ...], label: str) -> Cell | None:
    wanted = label.casefold()
    return next((cell for cell in cells if cell.label.casefold() == wanted), None)


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
