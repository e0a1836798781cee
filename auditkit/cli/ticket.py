"""`auditkit ticket`: the tickets of a folder, on the terminal and for programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from auditkit.cli.common import (
    JsonOption,
    TicketsOption,
    command,
    end_if_broken,
    option,
    ticket_folder,
)
from auditkit.cli.output import complain, say, say_json
from auditkit.errors import BadInputError, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from auditkit.tickets.document import Document
    from auditkit.tickets.lifecycle import Place
    from auditkit.tickets.store import TicketFolder

app = typer.Typer(
    help="Read, review, verify and resolve tickets.",
    epilog="Example: auditkit ticket list --severity P1",
    no_args_is_help=True,
)
Words = list[str] | None
IdsArgument = Annotated[Words, typer.Argument(metavar="[ID]...", help="Ticket ids, such as B7-PT-01.")]
WhereOption = Annotated[Words, option("--where", "Every ticket that matches (may be repeated).", "FIELD=VALUE")]
CheckoutOption = Annotated[
    str | None, option("--checkout", "Default: that of auditkit.yaml, else the tickets' repository.", "DIR[@REV]")
]


@dataclass(frozen=True)
class Chosen:
    """Which tickets a verb is about beside the ids, and how it prints."""

    where: WhereOption = None
    tickets: TicketsOption = None
    as_json: JsonOption = False

    def ids(self, folder: TicketFolder, ids: Iterable[str] | None) -> list[str]:
        """Return the named ids, and those of the tickets for which every condition holds. Raises BadInputError."""
        from auditkit.tickets.queue import selected

        found = [_id_of(folder, text) for text in ids or ()]
        if self.where:
            found += [ticket.id for ticket in selected(folder.listing().tickets, self.where)]
        if not found:
            problem = "no ticket matches" if self.where else "no ticket is named"
            raise BadInputError(problem, "name ids, or --where FIELD=VALUE; auditkit ticket list shows them")
        return list(dict.fromkeys(found))


_AsOption = Annotated[str | None, option("--as", "Write this name next to the one of git.", "NAME")]
_NoteOption = Annotated[str, option("--note", "What you found, or why.", "TEXT")]
_COLUMNS = ("id", "severity", "status", "assignee", "location", "title")
_FORMATS = ("table", "markdown", "csv", "json")


@command(app, "ticket list --severity P1 --count-by agent", name="list")
def list_(
    every: Annotated[bool, option("--all", "Show finished tickets, too.")] = False,
    severity: Annotated[str | None, option("--severity", "This severity and worse.", "P")] = None,
    where: WhereOption = None,
    count_by: Annotated[
        str | None, option("--count-by", "Print numbers: status, severity, agent, ...", "FIELD")
    ] = None,
    form: Annotated[str, option("--format", "table, markdown, csv or json.", "FORM")] = "table",
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the open tickets, worst first."""
    from auditkit.tickets import queue

    if form not in _FORMATS:
        raise BadInputError(f"{form!r} is not a format", f"one of {', '.join(_FORMATS)}")
    listing = ticket_folder(tickets).listing()
    conditions = [*(where or ()), *([f"severity<={severity}"] if severity else [])]
    names_status = any(one.startswith("status=") for one in conditions)
    found = queue.selected(listing.tickets, conditions, every or names_status)
    form = "json" if as_json else form
    if count_by is not None:
        counts = queue.counts(found, count_by)
        _print_rows([("count", count_by), *((str(count), value) for value, count in counts.items())], form, counts)
    else:
        rows = [_COLUMNS, *(tuple(str(getattr(ticket, name)) for name in _COLUMNS) for ticket in found)]
        _print_rows(rows, form, [ticket.to_json() for ticket in found] if form == "json" else [])
        if form == "table":
            finished = sum(ticket.status.is_finished for ticket in listing.tickets)
            complain(f"{len(found)} of {len(listing.tickets)} tickets, {finished} finished")
    end_if_broken(listing.broken)


def _print_rows(rows: Sequence[tuple[str, ...]], form: str, document: Any) -> None:
    """Print rows whose first one is the head, in one of the formats."""
    if form == "json":
        say_json({"schema_version": 1, "tickets" if isinstance(document, list) else "counts": document})
    elif form == "csv":
        import csv

        csv.writer(sys.stdout, lineterminator="\n").writerows(rows)
    elif form == "markdown":
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        say("\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]))
    else:
        widths = [max(len(row[number]) for row in rows) for number in range(len(rows[0]) - 1)]
        say("\n".join("  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows))


@command(app, "ticket show B7-PT-01")
def show(
    ids: IdsArgument = None,
    *,
    chosen: Chosen,
    checkout: CheckoutOption = None,
) -> None:
    """Show a ticket, with the consensus of its reviews."""
    folder = ticket_folder(chosen.tickets)
    shown = []
    for ticket_id in chosen.ids(folder, ids):
        document = folder.read(ticket_id)
        agreement = _consensus(document, folder, checkout)
        shown.append(document.ticket.to_json() | {"consensus": agreement, "text": document.text})
        if not chosen.as_json:
            say(f"{document.text.rstrip()}\n\nConsensus: {agreement}")
    if chosen.as_json:
        say_json({"schema_version": 1, "tickets": shown})


def _consensus(document: Document, folder: TicketFolder, checkout: str | None) -> str:
    from auditkit.tickets.lifecycle import consensus, stale_reviews

    if not document.ticket.reviews:
        return "none: no review"
    rules = configuration_near(folder).reviews
    stale = stale_reviews(document.ticket, place_of(folder, checkout))
    found = consensus(document.ticket, rules.roles, rules.required, stale)
    return f"{found.kind}: {found.text}" + (f"; stale: {', '.join(one.reviewer for one in stale)}" if stale else "")


@command(app, "ticket next", name="next")
def next_(chosen: Chosen) -> None:
    """Show which ticket to take next, and why."""
    from auditkit.tickets import queue
    from auditkit.tickets.lifecycle import person

    folder = ticket_folder(chosen.tickets)
    listing = folder.listing()
    try:
        me = person(folder.folder)
    except BadInputError:
        me = ""
    found = queue.take_next(queue.selected(listing.tickets, chosen.where or ()), me)
    if chosen.as_json:
        document = None
        if found is not None:
            document = {**found.ticket.to_json(), "reason": found.reason, "waiting": found.waiting}
        blocked = {held: list(by) for held, by in found.blocked.items()} if found else {}
        say_json({"schema_version": 1, "next": document, "blocked": blocked})
    elif found is None:
        say("no ticket is free")
    else:
        ticket = found.ticket
        say(f"{ticket.id}  {ticket.severity.value}  {ticket.title}\n  {ticket.location}\n  {found.reason}")
        say(f"  {found.waiting} more wait, {len(found.blocked)} are blocked: auditkit ticket show {ticket.id}")
    end_if_broken(listing.broken)


@command(app, "ticket status B7-PT-01 investigating", writes=True)
def status(
    words: Annotated[list[str], typer.Argument(metavar="[ID]... STATUS", help="Ids, and an unfinished status.")],
    chosen: Chosen,
) -> None:
    """Change the status of tickets; `resolve` finishes them."""
    from auditkit.tickets.lifecycle import with_status

    *ids, wanted = words
    _change(chosen, ids, lambda document: with_status(document, wanted))


@command(app, 'ticket edit B7-PT-01 severity=P1 labels+=slow "links+=blocked-by B7-PT-02"', writes=True)
def edit(
    words: Annotated[
        list[str], typer.Argument(metavar="[ID]... FIELD=VALUE...", help="FIELD=VALUE, FIELD+=VALUE or FIELD-=VALUE.")
    ],
    chosen: Chosen,
) -> None:
    """Set, add to or clear fields."""
    from auditkit.tickets.lifecycle import with_edits

    ids, edits = [word for word in words if "=" not in word], [word for word in words if "=" in word]
    if not edits:
        raise BadInputError("no field is named", "name FIELD=VALUE; a ticket's text is a file for your editor")
    _change(chosen, ids, lambda document: with_edits(document, edits))


@command(app, "ticket review B7-PT-01 REFINE --severity P2 --note 'only with float16'", writes=True)
def review(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[ID]... VERDICT", help="Ids, and ENDORSE, REFINE, NEUTRAL or OBJECT."),
    ],
    severity: Annotated[str | None, option("--severity", "Default: the ticket's.", "P")] = None,
    note: _NoteOption = "",
    role: Annotated[str, option("--role", "One of auditkit.yaml's reviews: roles.", "NAME")] = "",
    as_name: _AsOption = None,
    checkout: CheckoutOption = None,
    *,
    chosen: Chosen,
) -> None:
    """Add one line of cross-review, about the checkout's HEAD."""
    from auditkit.tickets.lifecycle import new_review, person

    *ids, verdict = words
    folder = ticket_folder(chosen.tickets)
    roles = configuration_near(folder).reviews.roles
    if role and role not in roles:
        hint = meant(role, roles, "auditkit.yaml names them: reviews: {roles: [...]}")
        raise BadInputError(f"{role!r} is not a role of reviews", hint)
    who, place = person(folder.folder, as_name), place_of(folder, checkout)
    _change(
        chosen,
        ids,
        lambda document: document.with_review(new_review(document, verdict, who, place, role, severity, note)),
    )


@command(app, "ticket resolve B7-PT-01 fixed --commit 77ab310", writes=True)
def resolve(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[ID]... STATUS", help="fixed, closed, wont-fix, already-fixed, not-a-bug, duplicate."),
    ],
    commit: Annotated[str, option("--commit", "The commit with the fix.", "C")] = "",
    note: _NoteOption = "",
    force: Annotated[bool, option("--force", "Resolve it, and write down what is missing.")] = False,
    as_name: _AsOption = None,
    checkout: CheckoutOption = None,
    *,
    chosen: Chosen,
) -> None:
    """Finish tickets.

    `fixed` needs a red-then-green verification at the commit or later, and a review by someone who did not write the
    commit. auditkit names the command for what is missing.
    """
    from auditkit.tickets.lifecycle import parse_status, person, resolved

    *ids, wanted = words
    folder = ticket_folder(chosen.tickets)
    who, place, finished = person(folder.folder, as_name), place_of(folder, checkout), parse_status(wanted)
    _change(
        chosen,
        ids,
        lambda document: resolved(
            document, finished, who, place, folder.evidence(document.ticket.id), commit, note, force
        ),
    )


@command(app, "ticket lint --checkout ../trainer")
def lint(
    paths: Annotated[Words, typer.Argument(metavar="[ID or PATH]...", help="Default: all tickets.")] = None,
    rule: Annotated[str | None, option("--rule", "Show what a rule, or `all`, checks.", "NAME")] = None,
    checkout: CheckoutOption = None,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check tickets by fifteen rules. Exit 1 with findings."""
    from auditkit.tickets.lint import lint as check
    from auditkit.tickets.lint import rule_pages

    if rule is not None:
        pages = rule_pages()
        if rule != "all" and rule not in pages:
            raise BadInputError(f"{rule!r} is not a rule", meant(rule, pages, ", ".join(pages)))
        say("\n\n".join(f"{name}\n{page}" for name, page in pages.items() if rule in ("all", name)))
        return
    folder = ticket_folder(tickets)
    ids = [Path(text).stem if text.endswith(".md") else text for text in paths or ()]
    found = check(folder, place_of(folder, checkout), [_id_of(folder, text) for text in ids])
    if as_json:
        keys = ("line", "rule", "message", "hint")
        findings = [{"path": str(one.path)} | {key: getattr(one, key) for key in keys} for one in found]
        say_json({"schema_version": 1, "findings": findings, "tickets": len(ids or folder.ids())})
    else:
        for one in found:
            say(f"{one.path}:{one.line}: {one.rule}: {one.message}" + (f" ({one.hint})" if one.hint else ""))
        if not found:
            complain(f"{len(ids or folder.ids())} tickets, no finding")
    if found:
        raise typer.Exit(1)


@command(app, "ticket import old_tickets --to tickets", name="import", writes=True)
def import_(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders of old tickets.")],
    to: Annotated[Path | None, option("--to", "Default: the tickets folder.", "DIR")] = None,
    as_json: JsonOption = False,
) -> None:
    """Import tickets that people wrote as free Markdown.

    auditkit reads their fields and reviews, copies all other text, and names each file that is not a ticket. Exit 2 if
    a ticket cannot be read; its file is named, and nothing is written for it.
    """
    from auditkit.tickets.importer import import_tickets

    folder = ticket_folder(to, must_exist=False)
    with folder.writing():
        found = import_tickets(paths, folder.folder)
    if as_json:
        say_json({"schema_version": 1, "files": [one.to_json() for one in found]})
    for one in found:
        if one.problem:
            complain(f"error: {one.problem}")
        elif one.document is not None and not as_json:
            counts = f"{len(one.fields)} fields, {len(one.document.ticket.reviews)} reviews, {len(one.text)} other"
            say(f"{one.source}: {one.document.path}, {counts} sections")
        elif one.skipped and not as_json:
            say(f"{one.source}: not a ticket: {one.skipped}")
    if any(one.problem for one in found):
        raise typer.Exit(2)


# What the verbs share.


def configuration_near(folder: TicketFolder) -> Any:
    from auditkit.config.config import Config, read_config
    from auditkit.config.config_file import config_near

    path = config_near(folder.folder)
    return read_config(path) if path else Config()


def place_of(folder: TicketFolder, checkout: str | None) -> Place:
    """Return the checkout that was named, that of auditkit.yaml, or the folder in which the tickets' folder lies."""
    from auditkit.config.config_file import config_near
    from auditkit.tickets.lifecycle import Place

    named = checkout.partition("@")[0] if checkout and not Path(checkout).is_dir() else checkout
    if not named and config_near(folder.folder) is not None:
        named = configuration_near(folder).checkout
    return Place.of(Path(named) if named else folder.folder.absolute().parent)


def _id_of(folder: TicketFolder, text: str) -> str:
    """Return the id of a ticket that is there. Raises BadInputError with the nearest ids."""
    from auditkit.model.ticket import parse_id

    try:
        ticket_id = parse_id(text)
    except ValueError:
        ticket_id = text
    if not folder.path(ticket_id).exists():
        folder.read(text)
    return ticket_id


def _change(chosen: Chosen, ids: Sequence[str], edit: Callable[[Document], Document]) -> None:
    """Edit the chosen tickets under one lock: all of them, or none if one edit is not valid."""
    folder = ticket_folder(chosen.tickets)
    with folder.writing():
        before = [folder.read(ticket_id) for ticket_id in chosen.ids(folder, ids)]
        pairs = [(document, edit(document)) for document in before]
        for old, new in pairs:
            folder.save(new, old)
    say_written(pairs, chosen.as_json)


def say_written(pairs: Sequence[tuple[Document | None, Document]], as_json: bool) -> None:
    """Print each ticket, with what it was before (None: it is new)."""
    rows = []
    for old, new in pairs:
        ticket, is_changed = new.ticket, old is None or new.text != old.text
        rows.append(ticket.to_json() | {"path": str(new.path), "changed": is_changed})
        told = f"{ticket.severity.value} {ticket.status.value}, {new.path}" if is_changed else "nothing to change"
        if not as_json:
            say(f"{ticket.id}: {told}")
    if as_json:
        say_json({"schema_version": 1, "tickets": rows})
