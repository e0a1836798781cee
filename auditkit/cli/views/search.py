"""`auditkit ticket search`."""

from __future__ import annotations

from auditkit.cli.lookups import tickets_folder
from auditkit.cli.output import complain, is_terminal, say_json, say_styled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

    from auditkit.store.listing.index import Index

_MOST_LINES = 3
_PIPED_COLUMNS = 160


def search_tickets(
    words: Sequence[str],
    tickets: Path | str | None = None,
    *,
    unfinished: bool = False,
    closed: bool = False,
    blocked: bool | None = None,
    stale: bool = False,
    limit: int = 20,
    as_json: bool = False,
    **wanted: Sequence[Any] | None,
) -> int:
    """Print the tickets whose text holds every word, and the lines that do; the exit code.

    Those with all words in the title come first, then what is not finished, then by severity. Raises BadInputError.
    """
    from auditkit.cli.views.filters import in_state, named_filters, passing_all
    from auditkit.cli.views.listing import complain_of_broken, state_of
    from auditkit.store.folder.walk import walk
    from auditkit.store.listing.full_text import holding
    from auditkit.store.listing.index import read_index
    from auditkit.store.listing.rows import PATH

    _check(words)
    folder = tickets_folder(tickets)
    files = walk(folder)
    index = read_index(folder, files)
    state = state_of(unfinished, closed, every=False, is_free=True)
    passing, _ = in_state(index, passing_all(index, named_filters(folder, index, wanted, blocked, stale)), state)
    held = holding(folder, index.column(PATH), files, words)
    found = sorted(set(held).intersection(passing)) if len(passing) < index.count else held
    shown = _best_first(index, found, words, limit)
    matches = [_lines_with(f"{folder}/{index.column(PATH)[number]}", words) for number in shown]
    if as_json:
        rows = [_fields(index, number, lines) for number, lines in zip(shown, matches, strict=True)]
        say_json({"schema_version": 1, "words": list(words), "count": len(found), "tickets": rows})
    elif shown:
        _print(index, shown, matches, words)
    _tell(words, len(held), len(found), len(shown))
    return complain_of_broken(index.broken, folder)


def _check(words: Sequence[str]) -> None:
    if not all(word.strip() for word in words):
        from auditkit.errors import BadInputError

        raise BadInputError("a word to search for is empty", 'auditkit ticket search overflow "square root"')


def _tell(words: Sequence[str], held: int, count: int, shown: int) -> None:
    said = " and ".join(f"'{word}'" for word in words)
    if not held:
        complain(f"no ticket holds {said}")
    elif not count:
        complain(f"{held} {'ticket holds' if held == 1 else 'tickets hold'} {said}, which the filters leave out")
    elif shown < count:
        complain(f"{shown} of {count} tickets that hold {said}: --limit {count} shows all")


def _best_first(index: Index, numbers: Sequence[int], words: Sequence[str], limit: int) -> list[int]:
    import heapq

    from auditkit.store.listing import rows as at

    titles, finished, severities = map(index.column, (at.TITLE, at.IS_FINISHED, at.SEVERITY))
    needles = [word.casefold() for word in words]

    def key(number: int) -> tuple[bool, bool, str]:
        has_all = all(map(titles[number].casefold().__contains__, needles))
        return not has_all, finished[number], severities[number] or "~"

    # Sorting all of them takes 20 ms where 10,000 tickets hold the words.
    return heapq.nsmallest(limit, numbers, key)


def _lines_with(path: str, words: Sequence[str]) -> list[tuple[int, str]]:
    """The first line with each word, by number; of a phrase over two lines, or one in two places, the first word's."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return []
    folded = [" ".join(line.casefold().split()) for line in lines]
    found: dict[int, str] = {}
    for word in words:
        needle = " ".join(word.casefold().split())
        for part in (needle, needle.split()[0]):
            places = [number for number, line in enumerate(folded) if part in line]
            if places:
                # The title is shown anyway; a line that tells of it says more.
                number = next((one for one in places if not lines[one].startswith("# ")), places[0])
                found[number + 1] = lines[number]
                break
    return sorted(found.items())[:_MOST_LINES]


def _print(
    index: Index, numbers: Sequence[int], matches: Sequence[list[tuple[int, str]]], words: Sequence[str]
) -> None:
    from auditkit.cli.views.columns import table_of
    from auditkit.store.listing.rows import SHOWN, aligned, shown

    width = _PIPED_COLUMNS
    if is_terminal():
        from auditkit.cli.views import terminal

        names = ("id", "severity", "status", "title")
        _, *heads = terminal.table_lines(terminal.fitting(table_of(index, numbers, names)))
        width = terminal.screen_width()
    else:
        column = index.column(SHOWN)
        heads = aligned([column[number] for number in numbers]).split("\n")
    for head, lines in zip(heads, matches, strict=True):
        say_styled(head)
        for number, text in lines:
            place = f"  {number}: "
            say_styled(place + _marked(_around(shown(text)[0], words, width - len(place)), words))


def _around(text: str, words: Sequence[str], width: int) -> str:
    """At most `width` columns of a line, with the first of the words in it."""
    if len(text) <= width:
        return text
    folded = text.casefold()
    place = min((at for word in words if (at := folded.find(word.casefold())) >= 0), default=0)
    start = max(0, place - width // 3)
    while 0 < start < place and text[start - 1] != " ":
        start += 1
    lead, rest = "... " if start else "", " ..."
    end = start + width - len(lead) - len(rest)
    if end >= len(text):
        return lead + text[start:]
    blank = text.rfind(" ", place + 1, end + 1)
    return lead + text[start : blank if blank > 0 else end] + rest


def _marked(text: str, words: Sequence[str]) -> str:
    """Inert text with the words in it in colour, where somebody wants that."""
    if not is_terminal():
        return text
    import re

    from auditkit.cli.views.terminal import BOLD, WARNING, styled

    pattern = re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)), re.IGNORECASE)
    return pattern.sub(lambda match: styled(match[0], BOLD + WARNING), text)


def _fields(index: Index, number: int, lines: Sequence[tuple[int, str]]) -> dict[str, Any]:
    from auditkit.store.listing import rows as at

    columns = {"id": at.ID, "title": at.TITLE, "severity": at.SEVERITY, "status": at.STATUS, "path": at.PATH}
    fields = {name: index.column(column)[number] for name, column in columns.items()}
    fields |= {name: fields[name] or None for name in ("severity", "status")}
    return {**fields, "matches": [{"line": line, "text": text} for line, text in lines]}
