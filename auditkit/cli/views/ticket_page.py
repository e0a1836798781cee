"""A ticket as a terminal shows it: what decides first, then its text without rows and boxes that say nothing."""

from __future__ import annotations

import re

from auditkit.cli.views.terminal import (
    BOLD,
    CYAN,
    DIM,
    SEVERITIES,
    STATUSES,
    WARNING,
    page,
    screen_width,
    styled,
    wrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from auditkit.store.listing.index import Index

    Numbered = tuple[int, str]

_WORDS = {**SEVERITIES, **STATUSES}
_FENCE = ("```", "~~~")
_OPEN_BOX = re.compile(r"\s*[-*+] \[ \]")
_ENTRY = re.compile(r"\s*(?:[-*+|>]|\d+[.)]) ")
_NOTHING = frozenset({"", "-", "–", "—"})
_GAP = "  "


def print_page(text: str, notes: Mapping[int, str], head: Sequence[str]) -> None:
    """Print a ticket's text, inert, below its head, with a note behind some lines; long ones through a pager."""
    from auditkit.model.text import inert

    lines = _styled_lines(folded(inert(text.removesuffix("\n")).split("\n")), notes)
    page("\n".join([*head, *([""] if head else []), *lines]))


def head_of(index: Index, number: int) -> list[str]:
    """What decides about a ticket: severity and status, whose it is, what reviewers say, and what blocks it."""
    from auditkit.cli.views.columns import table_of
    from auditkit.store.listing import rows as at

    names = (
        "id",
        "severity",
        "status",
        "assignee",
        "agent",
        "age",
        "consensus",
        "waits",
        "blocked-by",
        "path",
        "title",
    )
    cell = {name: column[0] for name, column in table_of(index, [number], names).items()}
    ticket_id = cell["id"]
    reviews = at.shown(*(f"{verdict or '?'} by {who}" for who, verdict in index.column(at.REVIEWS)[number]))
    blocks = [other for other, blockers in index.blocked.items() if ticket_id in blockers]
    state = [styled(cell[name], _WORDS.get(cell[name], "")) for name in ("severity", "status")]
    folder = index.column(at.FOLDER)[number]
    told = {
        "": _GAP.join([*state, *([f"{cell['age']} old"] if cell["age"] else []), cell["agent"]]),
        "assignee": cell["assignee"],
        "reviews": f"{cell['consensus']}: {', '.join(reviews)}" if reviews else "none",
        "waits for an answer": cell["waits"],
        "blocked by": cell["blocked-by"],
        "blocks": ", ".join(blocks),
        "contradiction": f"unfinished, but in {folder}/" if folder else "",
        "file": cell["path"],
    }
    width = screen_width()
    warned = ("waits for an answer", "blocked by", "contradiction")
    lines = [styled(line, BOLD) for line in wrapped(f"{ticket_id}  {cell['title']}", width)]
    for name, said in told.items():
        if said and not name:
            lines.append(said)
        elif said:
            style = WARNING if name in warned else ""
            lines += [styled(line, style) for line in hanging(f"{name}: {said}", width)]
    return lines


def folded(lines: Sequence[str]) -> Iterator[Numbered]:
    """The lines with their numbers, without rows of tables that say nothing, categories that nobody ticked, and second
    blank lines.
    """
    left_out, empty = 0, _empty_rows(lines)
    is_summary = was_blank = False
    for number, line, is_code in _with_code(lines):
        if not is_code and line.startswith("#"):
            is_summary = line.lstrip("#").strip().casefold() == "summary" if line.startswith("## ") else is_summary
        if not is_code and is_summary and _OPEN_BOX.match(line):
            left_out += 1
            continue
        if left_out and not (is_summary and line.lstrip().startswith(("- [", "* [", "+ ["))):
            yield 0, f"({left_out} not ticked)"
            left_out, was_blank = 0, False
        if not is_code and (number in empty or (was_blank and not line.strip())):
            continue
        was_blank = not is_code and not line.strip()
        yield number, line
    if left_out:
        yield 0, f"({left_out} not ticked)"


def _with_code(lines: Sequence[str]) -> Iterator[tuple[int, str, bool]]:
    """Each line with its number, and whether it is code or a fence around some."""
    is_code = False
    for number, line in enumerate(lines, start=1):
        is_fence = line.lstrip().startswith(_FENCE)
        is_code ^= is_fence
        yield number, line, is_code or is_fence


def _empty_rows(lines: Sequence[str]) -> set[int]:
    """The numbers of rows in which no cell but the first says anything; with their heads where a table has no other."""
    found: set[int] = set()
    start = 0
    for end, line in enumerate([*lines, ""]):
        if line.startswith("|"):
            continue
        if end - start >= 2 and not set(lines[start + 1]) - set("|:- "):
            empty = {row + 1 for row in range(start + 2, end) if _says_nothing(lines[row])}
            found |= empty if len(empty) < end - start - 2 else set(range(start + 1, end + 1))
        start = end + 1
    return found


def _says_nothing(row: str) -> bool:
    cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
    return all(cell in _NOTHING for cell in (cells[1:] or cells))


def hanging(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` columns, broken at blanks, the further ones two columns further in."""
    first, *others = wrapped(text, width)
    return [first, *(f"{_GAP}{line}" for line in wrapped(" ".join(others), max(width - len(_GAP), 1)) if others)]


def _styled_lines(lines: Iterator[Numbered], notes: Mapping[int, str]) -> Iterator[str]:
    width, is_code = screen_width(), False
    for number, line in lines:
        is_fence = line.lstrip().startswith(_FENCE)
        is_code ^= is_fence
        parts = [line]
        if not (is_code or is_fence):
            indent = line[: len(line) - len(line.lstrip())]
            broken = hanging if _ENTRY.match(line) else wrapped
            parts = [f"{indent}{part}" for part in broken(line.strip(), max(width - len(indent), 1))]
        style = _style(line, is_code or is_fence) if number else DIM
        parts = [styled(part, style) for part in parts]
        if number in notes:
            parts[-1] += f"{_GAP}{styled(notes[number], WARNING)}"
        yield from parts


def _style(line: str, is_code: bool) -> str:
    if is_code or line.startswith(("<!--", "---")):
        return DIM
    if line.startswith("#"):
        return BOLD + CYAN
    if line.startswith(("| **Severity** |", "| **Status** |")):
        return _WORDS.get(line.split("|")[2].strip(" `*"), "")
    return ""
