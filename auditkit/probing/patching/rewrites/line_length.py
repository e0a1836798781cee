"""Lines that a change made longer than the file's own, broken inside their brackets."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator, Sequence

_OPENING, _CLOSING = "([{", ")]}"
_INDENT = "    "
_CLAUSE = re.compile(r" (?=(?:for|if|else) )")


def within_limit(before: Sequence[str], after: Sequence[str], limit: int) -> list[str]:
    """`after`, each line of it that is new and longer than `limit` broken where its brackets allow it."""
    kept: list[str] = []
    for tag, _, _, first, last in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for line in after[first:last]:
            kept += [line] if tag == "equal" else _broken(line, limit)
    return kept


def _broken(line: str, limit: int) -> list[str]:
    if len(line) <= limit:
        return [line]
    clauses = _clauses(line)
    if len(clauses) > 1:
        return [piece for clause in clauses for piece in _broken(clause, limit)]
    pairs = [pair for pair in _pairs(line) if pair[1] - pair[0] > 1]
    if not pairs or "#" in line:
        return [line]
    first, last = max(pairs, key=lambda pair: pair[1] - pair[0])
    indent = line[: len(line) - len(line.lstrip())]
    inside = indent + _INDENT
    content = line[first + 1 : last]
    if len(inside + content) <= limit:
        parts = [inside + content]
    else:
        parts = [piece for part in _parts(content) for piece in _broken(inside + part, limit)]
    return [line[: first + 1], *parts, indent + line[last:]]


def _clauses(line: str) -> list[str]:
    """A line inside brackets, such as `grad for p in parameters if grad`, one clause a line; else the line alone."""
    depth, cuts = 0, [0]
    for place, character in _code(line):
        depth += (character in _OPENING) - (character in _CLOSING)
        begins = ("for ",) if len(cuts) == 1 else ("for ", "if ")
        if not depth and character == " " and line[:place].strip() and line[place + 1 :].startswith(begins):
            cuts.append(place)
    blanks = line[: len(line) - len(line.lstrip())]
    return [blanks + line[first:last].strip() for first, last in itertools.pairwise([*cuts, len(line)])]


def _pairs(line: str) -> Iterator[tuple[int, int]]:
    """The outermost bracket pairs of a line, as positions of both brackets."""
    depth, first = 0, 0
    for place, character in _code(line):
        if character in _OPENING:
            first = place if not depth else first
            depth += 1
        elif character in _CLOSING and depth:
            depth -= 1
            if not depth:
                yield first, place


def _code(line: str) -> Iterator[tuple[int, str]]:
    """The characters of a line that are in no text."""
    quote = ""
    for place, character in enumerate(line):
        if quote:
            quote = "" if character == quote and line[place - 1] != "\\" else quote
        elif character in "'\"":
            quote = character
        else:
            yield place, character


def _parts(content: str) -> list[str]:
    """What stands between a pair of brackets as lines: its arguments, or the clauses of a comprehension."""
    depth, start = 0, 0
    cuts: list[int] = []
    clauses: list[int] = []
    starts = {match.start() for match in _CLAUSE.finditer(content)}
    for place, character in _code(content):
        depth += (character in _OPENING) - (character in _CLOSING)
        if not depth and character == ",":
            cuts.append(place + 1)
        if not depth and place in starts:
            clauses.append(place)
    if any(content.startswith(" for ", place) for place in clauses):
        return [content]  # a comma is in what its turns are called: `for name, p in named`
    has_arguments = bool(cuts)
    parts = []
    for cut in [*(cuts or clauses), len(content)]:
        parts.append(content[start:cut].strip())
        start = cut
    parts = [part for part in parts if part]
    if has_arguments and not parts[-1].endswith(",") and not parts[-1].startswith("*"):
        parts[-1] += ","
    return parts
