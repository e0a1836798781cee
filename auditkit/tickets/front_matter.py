"""The front matter of a ticket: the lines between the two `---`, as values and as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from auditkit.errors import meant, nearest_names
from auditkit.model.enums import Severity
from auditkit.model.ticket import CATEGORIES, FIELDS, LINK_KINDS, LISTS, Status, Ticket

LONGEST_LINE = 100
"""Characters of a line that auditkit writes; only a single longer word makes a longer line."""

_DEEPEST = 8
_SEVERITIES = {severity.value: severity for severity in Severity}
_STATUSES = {status.value: status for status in Status}
_NULLS = frozenset(("~", "null", "Null", "NULL"))
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ID = re.compile(r"B\d{1,4}-[A-Z][A-Z0-9]{0,15}-\d{2,6}", re.ASCII)
_FIRST = r"[\w./(<=+$^]"
_PLAIN = rf"{_FIRST}[^\n:#]*(?:(?::(?=\S)|(?<=\S)#)[^\n:#]*)*(?<![ :])"
_PLAIN_ITEM = rf"{_FIRST}[^\n,\[\]{{}}\"':#]*(?:(?::(?=[^\s,\]])|(?<=\S)#)[^\n,\[\]{{}}\"':#]*)*(?<![ :])"
_IS_PLAIN = re.compile(_PLAIN)
_IS_PLAIN_ITEM = re.compile(_PLAIN_ITEM)
_FORMS = {
    "id": _ID.pattern,
    "severity": "P[0-4]",
    "status": "|".join(_STATUSES),
    "findings": r"[a-z_]++/\d++/[\w./:#-]++",
    "batch": "[0-9]{1,4}",
    "created": rf'{_DATE.pattern}|""',
    "categories": "|".join(map(re.escape, CATEGORIES)),
    "links": rf"(?:{'|'.join(LINK_KINDS)}) {_ID.pattern}",
}


def _pattern(key: str) -> str:
    if key in LISTS:
        item = rf"(?:{_FORMS.get(key, _PLAIN_ITEM)})"
        return rf"{key}:(?: \[((?:{item}(?:, {item})*)?)\]|((?:\n  - (?:{_FORMS.get(key, _PLAIN)}))+))\n"
    text = rf'"[^"\\\n]*"|(?!(?:null|Null|NULL)\n){_PLAIN}'
    return rf"{key}: ({_FORMS.get(key, text)})\n"


_WRITTEN = re.compile("---\n" + "".join(map(_pattern, FIELDS)) + "---\n", re.ASCII)
"""The front matter as auditkit writes it. Other YAML needs the parser, which takes a hundred times as long."""


class Problem(NamedTuple):
    """A defect of a ticket's file: its line (from 1), what is wrong, and what would be correct."""

    line: int
    message: str
    hint: str = ""


def read_front_matter(text: str) -> tuple[Ticket | None, list[Problem], int]:
    """Return the ticket that the head of `text` describes, or every problem, and where the body starts."""
    match = _WRITTEN.match(text)
    if match is None:
        return _from_yaml(text)
    values: dict[str, Any] = {}
    groups = iter(match.groups(""))
    for key in FIELDS:
        values[key] = _items(next(groups), next(groups)) if key in LISTS else _READ.get(key, _text)(next(groups))
    ticket = Ticket(**values)
    return (ticket, [], match.end()) if ticket.title else _from_yaml(text)


def _text(written: str) -> str:
    return written[1:-1] if written[0] == '"' else written


_READ: dict[str, Callable[[str], Any]] = {
    "severity": _SEVERITIES.__getitem__, "status": _STATUSES.__getitem__, "batch": int,
}  # fmt: skip


def _items(flow: str, block: str) -> tuple[str, ...]:
    if flow:
        return tuple(flow.split(", "))
    return tuple(block[5:].split("\n  - ")) if block else ()


def _from_yaml(text: str) -> tuple[Ticket | None, list[Problem], int]:
    if not text.startswith("---\n"):
        first = text.partition("\n")[0][:60]
        hint = "a ticket starts with --- and its front matter; `auditkit ticket import` reads other forms"
        return None, [Problem(1, f"the first line is {first!r}, not ---", hint)], 0
    end = text.find("\n---\n", 3)
    if end < 0:
        return None, [Problem(1, "the front matter has no end", "close it with a line ---")], 0
    import yaml

    source = text[4 : end + 1]
    try:
        problem = _forbidden(source)
        if problem is not None:
            return None, [problem], 0
        root = yaml.compose(source, _loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 2 if mark is not None else 1
        told, lines = f"the front matter is not YAML: {getattr(error, 'problem', None) or error}", text.split("\n")
        return None, [Problem(line, told, f"line {line} is {lines[min(line, len(lines)) - 1][:80]!r}")], 0
    if not isinstance(root, yaml.MappingNode):
        return None, [Problem(2, "the front matter is not a mapping", "write one `key: value` on each line")], 0
    values, problems = _values(root)
    ticket = None if problems else Ticket(**values)
    return ticket, problems, end + 5


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _forbidden(source: str) -> Problem | None:
    """Return the first alias, or the first value that is nested deeper than a list of texts."""
    import yaml

    depth = 0
    for event in yaml.parse(source, _loader()):
        line = event.start_mark.line + 2 if event.start_mark else 1
        if isinstance(event, yaml.events.AliasEvent):
            return Problem(line, f"*{event.anchor} is a YAML alias", "a ticket has no aliases: write the value itself")
        depth += isinstance(event, yaml.events.CollectionStartEvent) - isinstance(event, yaml.events.CollectionEndEvent)
        if depth > _DEEPEST:
            return Problem(line, "a value is nested too deeply", "each value is a text or a list of texts")
    return None


def _values(root: Any) -> tuple[dict[str, Any], list[Problem]]:
    values: dict[str, Any] = {}
    lines: dict[str, tuple[int, str]] = {}
    problems: list[Problem] = []
    for key_node, node in root.value:
        key, line, shown = str(key_node.value), key_node.start_mark.line + 2, _shown(node)
        if key in lines:
            first, value = lines[key]
            message = f"{key} is there twice: {value} in line {first} and {shown} in line {line}"
            problems.append(Problem(line, message, "keep one of the two lines"))
            continue
        lines[key] = line, shown
        if key not in FIELDS:
            hint = meant(key, FIELDS, f"the keys are {', '.join(FIELDS)}")
            problems.append(Problem(line, f"unknown key {key!r}", hint))
            continue
        value, problem = _value(key, node)
        values[key] = value
        if problem:
            problems.append(Problem(line, f"{key} is {shown}", problem))
    for key in ("id", "title", "severity", "batch"):
        if key not in lines:
            problems.append(Problem(1, f"the front matter has no {key}", f"add a line `{key}: ...`"))
    return values, problems


def _shown(node: Any) -> str:
    """Return the value of a node of YAML in one line for a message."""
    if node.id == "scalar":
        return repr(node.value)[:80]
    text = ", ".join(item.value if item.id == "scalar" else "..." for item in node.value[:4] if node.id == "sequence")
    return ("a mapping" if node.id == "mapping" else f"[{text}]")[:80]


def _value(key: str, node: Any) -> tuple[Any, str]:
    """Return the value of a field, and what would be correct if the node has another form."""
    if key in LISTS:
        if node.id != "sequence":
            return (), f"write a list: {key}: [...]"
        if not all(item.id == "scalar" for item in node.value):
            return (), f"each item of {key} is one text"
        items = tuple(str(item.value) for item in node.value)
        return items, check_items(key, items)
    if node.id != "scalar":
        return None, check_field(key, "")[1] or f"{key} is one text, not a list or a mapping"
    text = "" if node.tag.endswith(":null") else str(node.value)
    return check_field(key, text)


def check_field(key: str, text: str) -> tuple[Any, str]:
    """Return the value of a field that is not a list, and a correct example if `text` is not valid ("" if it is)."""
    if "\n" in text:
        return text, f"{key} is one line"
    if key in ("severity", "status"):
        known: dict[str, Any] = _SEVERITIES if key == "severity" else _STATUSES
        hint = f"{meant(text, known) if key == 'status' else ''} one of {', '.join(known)}".strip()
        return known.get(text), "" if text in known else hint
    if key == "batch":
        is_number = re.fullmatch(r"\d{1,4}", text, re.ASCII) is not None
        return int(text) if is_number else None, "" if is_number else "a whole number from 0 to 9999"
    if key == "created":
        return text, "" if not text or _DATE.fullmatch(text) else "a date such as 2026-11-24"
    if key == "id":
        return text, "" if _ID.fullmatch(text) else "an id such as B7-PT-01"
    return text, "" if text or key != "title" else "a title"


def check_items(key: str, items: Sequence[str]) -> str:
    """Return what would be correct if `items` are not valid for the list field `key`, "" if they are."""
    if any(not item.strip() or "\n" in item for item in items):
        return f"each item of {key} is one line of text"
    if key == "categories":
        for item in items:
            if item not in CATEGORIES:
                return meant(item, CATEGORIES, f"the categories are {', '.join(CATEGORIES)}")
    if key == "links":
        for item in items:
            kind, _, other = item.partition(" ")
            if kind not in LINK_KINDS or _ID.fullmatch(other) is None:
                near = nearest_names(kind, LINK_KINDS, 1) or ["related"]
                return f"a link is one of {', '.join(LINK_KINDS)} and an id: {near[0]} B1-PT-01"
    return ""


def write_front_matter(ticket: Ticket) -> str:
    """Return the front matter with both `---` lines, every key in the order of `FIELDS`."""
    return "---\n" + "".join(field_lines(key, getattr(ticket, key)) for key in FIELDS) + "---\n"


def field_lines(key: str, value: Any) -> str:
    """Return the line of a field; a list that needs more than one line has one line for each item."""
    if key not in LISTS:
        return f"{key}: {_scalar(str(value), _IS_PLAIN)}\n"
    line = f"{key}: [{', '.join(_scalar(item, _IS_PLAIN_ITEM) for item in value)}]\n"
    if len(line) <= LONGEST_LINE + 1:
        return line
    return f"{key}:\n" + "".join(f"  - {_scalar(item, _IS_PLAIN)}\n" for item in value)


def _scalar(text: str, plain: re.Pattern[str]) -> str:
    if plain.fullmatch(text) and text not in _NULLS and text.isprintable():
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def with_fields(text: str, ticket: Ticket, keys: Sequence[str]) -> str:
    """Return `text` with the fields `keys` of its front matter as `ticket` has them; other bytes stay."""
    head, body = text.split("\n---\n", 1)
    lines = head.split("\n")[1:]
    parts: dict[str, str] = {}
    for line in lines:
        name = re.match(r"(\w+):", line)
        key = name[1] if name else next(reversed(parts), "")
        parts[key] = parts.get(key, "") + f"{line}\n"
    parts |= {key: field_lines(key, getattr(ticket, key)) for key in keys}
    return "\n".join(["---", "".join(parts.values()) + "---", body])
