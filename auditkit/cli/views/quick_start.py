"""Plain command lines of `ticket` commands that read, without Typer: loading it takes longer than they do.

Whatever is not plain (help, an abbreviation, a mistake) is left to Typer, which says what is wrong. A test
holds the tables below against Typer's own.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

TEXT, TEXTS, WHOLE, YES, NO = "text", "texts", "whole", "yes", "no"

_COMMON = {"--tickets": ("tickets", TEXT), "--json": ("as_json", YES)}
_FILTERS = _COMMON | {
    "--status": ("status", TEXTS),
    "--severity": ("severity", TEXTS),
    "--batch": ("batch", TEXTS),
    "--agent": ("agent", TEXTS),
    "--domain": ("domain", TEXTS),
    "--category": ("category", TEXTS),
    "--assignee": ("assignee", TEXTS),
    "--file": ("file", TEXTS),
    "--text": ("text", TEXTS),
    "--reviewer": ("reviewer", TEXTS),
    "--verdict": ("verdict", TEXTS),
    "--consensus": ("consensus", TEXTS),
    "--blocked": ("blocked", YES),
    "--unblocked": ("blocked", NO),
    "--stale": ("stale", YES),
    "--where": ("where", TEXTS),
}
OPTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "list": _FILTERS
    | {
        "--open": ("unfinished", YES),
        "--closed": ("closed", YES),
        "--all": ("every", YES),
        "--sort": ("sort", TEXT),
        "--reverse": ("reverse", YES),
        "--limit": ("limit", WHOLE),
        "--columns": ("columns", TEXTS),
        "--format": ("form", TEXT),
    },
    "search": _FILTERS | {"--open": ("unfinished", YES), "--closed": ("closed", YES), "--limit": ("limit", WHOLE)},
    "board": _FILTERS | {"--all": ("every", YES), "--limit": ("limit", WHOLE)},
    "show": _COMMON | {"--raw": ("raw", YES)},
    "next": _COMMON | {"--limit": ("limit", WHOLE), "--agent": ("agent", TEXTS), "--assignee": ("assignee", TEXTS)},
}
"""By command and option: the parameter it fills, and how."""


_ARGUMENTS = {"show": "ticket_id", "search": "words"}
"""By command: the words that it cannot do without."""


def run_at_once(words: Sequence[str]) -> int | None:
    """The exit code of a plain reading command; None for any other command line, which is then not begun."""
    values = parsed(words)
    if values is None:
        return None
    import gc

    # Nothing that these commands make is ever garbage before they end.
    gc.disable()
    try:
        return _run(words[1], values)
    except KeyboardInterrupt:
        from auditkit.cli.output import INTERRUPTED, complain

        complain("interrupted")
        return INTERRUPTED
    except Exception as error:
        # Loading the errors takes 5 ms, which only a command that failed has to pay.
        from auditkit.cli.output import complain_of
        from auditkit.errors import AuditkitError

        if not isinstance(error, AuditkitError):
            raise
        return complain_of(error, "as_json" in values or values.get("form") == "json")


def parsed(words: Sequence[str]) -> dict[str, Any] | None:
    """The parameters that a plain command line gives, None where it is not one."""
    if len(words) < 2 or words[0] != "ticket" or words[1] not in OPTIONS:
        return None
    options = OPTIONS[words[1]]
    values: dict[str, Any] = {}
    rest = iter(words[2:])
    for word in rest:
        if not word.startswith("-") and _is_argument(values, words[1], word):
            continue
        if word not in options:
            return None
        name, kind = options[word]
        if not _take(values, name, kind, rest):
            return None
    return values if _ARGUMENTS.get(words[1]) in (None, *values) else None


def _is_argument(values: dict[str, Any], command: str, word: str) -> bool:
    """Whether the command takes a further word that is no option, which it then has."""
    if command == "search":
        values.setdefault("words", []).append(word)
    elif command == "show" and "ticket_id" not in values:
        values["ticket_id"] = word
    else:
        return False
    return True


def _take(values: dict[str, Any], name: str, kind: str, rest: Any) -> bool:
    if kind in (YES, NO):
        values[name] = kind == YES
        return True
    word = next(rest, None)
    if word is None or word.startswith("-") or (name == "tickets" and not word):
        return False
    if kind == WHOLE and not (word.isascii() and word.isdigit() and len(word) < 10):
        return False
    if name == "limit" and int(word) < 1:
        return False
    if kind == TEXTS:
        values.setdefault(name, []).append(word)
    else:
        values[name] = int(word) if kind == WHOLE else word
    return True


def _run(command: str, values: dict[str, Any]) -> int:
    if command == "list":
        from auditkit.cli.views.listing import list_tickets

        return list_tickets(**values)
    if command == "search":
        from auditkit.cli.views.search import search_tickets

        return search_tickets(**values)
    if command == "board":
        from auditkit.cli.views.board import show_board

        return show_board(**values)
    if command == "show":
        from auditkit.cli.views.showing import show_ticket

        return show_ticket(**values)
    from auditkit.cli.views.next_tickets import next_tickets

    return next_tickets(**values)
