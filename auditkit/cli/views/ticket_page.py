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
    width_of,
    wrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from auditkit.store.listing.index import Index

    Numbered = tuple[int, str]

_WORDS = {**SEVERITIES, **STATUSES}
_FENCE = ("```", "~~~")
_OPEN_BOX = re.compile(r"\s*[-*+] \[ \]")
_ENTRY = re.compile(r"\s*(?:[-*+|>]|\d+[.)]) ")
_RULE = re.compile(r"\s*-{3,}\s*")
_MARKED = re.compile(r"(\*\*|`)([^*`]*)\1")
_NOTHING = frozenset({"", "-", "–", "—"})
_GAP = "  "


def print_page(text: str, notes: Mapping[int, str], head: Sequence[str]) -> None:
    """Print a ticket's text, inert, below its head, with a note behind some lines; long ones through a pager."""
    from auditkit.model.text import inert

    numbered = folded(inert(text.removesuffix("\n")).split("\n"))
    # The head begins with the title.
    body = [one for one in numbered if not (head and one[0] == 1 and one[1].startswith("# "))]
    between = [""] if head and body and body[0][1].strip() else []
    page("\n".join([*head, *between, *_styled_lines(body, notes)]))


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
        "labels",
        "due",
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
        "due": cell["due"],
        "labels": cell["labels"],
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
    """The lines with their numbers, without rows of tables that say nothing, categories that nobody ticked, rules, and
    second blank lines.
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
        is_rule = was_blank and bool(_RULE.fullmatch(line))
        if not is_code and (number in empty or is_rule or (was_blank and not line.strip())):
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


def _styled_lines(lines: Iterable[Numbered], notes: Mapping[int, str]) -> Iterator[str]:
    width, is_code = screen_width(), False
    table: list[Numbered] = []
    for number, line in [*lines, (0, "")]:
        if line.startswith("|") and not is_code:
            table.append((number, line))
            continue
        yield from _table_lines(table, notes, width)
        table = []
        is_fence = line.lstrip().startswith(_FENCE)
        is_code ^= is_fence
        parts = [line]
        if not (is_code or is_fence):
            indent = line[: len(line) - len(line.lstrip())]
            broken = hanging if _ENTRY.match(line) else wrapped
            parts = [f"{indent}{part}" for part in broken(line.strip(), max(width - len(indent), 1))]
        style = _style(line, is_code or is_fence) if number else DIM
        yield from _noted([styled(part, style) for part in parts], notes.get(number, ""))


def _table_lines(table: Sequence[Numbered], notes: Mapping[int, str], width: int) -> Iterator[str]:
    """The rows of a table below each other without its bars; the last column is broken where the terminal ends."""
    rows = [(number, _cells(line)) for number, line in table if set(line) - set("|:- ")]
    count = max((len(cells) for _, cells in rows), default=0)
    widths = [max(width_of(cells[column]) for _, cells in rows if column < len(cells)) for column in range(count - 1)]
    taken = sum(widths) + len(_GAP) * len(widths)
    for row, (number, cells) in enumerate(rows):
        if row == 0 and [cell.casefold() for cell in cells] == ["field", "value"]:
            continue
        style = BOLD if row == 0 else _WORDS.get(cells[-1], "") if cells[0] in ("Severity", "Status") else ""
        padded = [cell + " " * (wide - width_of(cell)) for cell, wide in zip(cells[: count - 1], widths, strict=False)]
        head = _GAP.join([*padded, ""])
        if len(cells) < count or taken > width // 2:
            parts = hanging(head.rstrip() if len(cells) < count else f"{head}{cells[-1]}", width)
        else:
            first, *others = wrapped(cells[-1], width - taken)
            parts = [head + first, *(" " * taken + other for other in others)]
        yield from _noted([styled(part, style) for part in parts], notes.get(number, ""))


def _cells(row: str) -> list[str]:
    """What the cells say, without the marks of bold text and code."""
    from auditkit.store.markdown.scan import Span
    from auditkit.store.markdown.tables import split_row, unescape

    data = row.encode("utf-8", "backslashreplace")
    spans = split_row(data, Span(0, len(data))) or (Span(0, len(data)),)
    return [_MARKED.sub(r"\2", unescape(data[span.start : span.end]).strip()) for span in spans]


def _noted(parts: list[str], note: str) -> list[str]:
    return [*parts[:-1], f"{parts[-1]}{_GAP}{styled(note, WARNING)}"] if note else parts


def _style(line: str, is_code: bool) -> str:
    if is_code or line.startswith("<!--"):
        return DIM
    return BOLD + CYAN if line.startswith("#") else ""
