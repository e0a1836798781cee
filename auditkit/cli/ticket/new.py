"""Commands that make tickets: new, import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import JsonOption, TicketsOption, end_if_broken, write_or_exit
from auditkit.cli.completion import probe_ids, severities
from auditkit.cli.lookups import choose
from auditkit.cli.options import AuditOptions, Words
from auditkit.cli.output import complain, say, say_json
from auditkit.cli.ticket.common import app, text_of

if TYPE_CHECKING:
    from auditkit.model.runs.run import Run
    from auditkit.store.folder.repository import Entry
    from auditkit.workflows.audit.audit import AuditRequest


@app.command(
    epilog='Example: auditkit ticket new --title "norm overflows" --severity P1 --file src/a.py --agent pytorch'
)
@write_or_exit
def new(
    title: Annotated[str | None, typer.Option(help="What is wrong, on one line.")] = None,
    severity: Annotated[str, typer.Option(metavar="P0..P4", help="How bad it is.", autocompletion=severities)] = "P2",
    file: Annotated[Words, typer.Option(help="Where it is (may be repeated).")] = None,
    lines: Annotated[str, typer.Option(metavar="A-B,...", help="The lines there.", show_default=False)] = "",
    function: Annotated[str, typer.Option(help="The function or class there.", show_default=False)] = "",
    domain: Annotated[Words, typer.Option(help="The part of the code base.")] = None,
    category: Annotated[Words, typer.Option(help="A box to tick, such as 'Correctness bug'.")] = None,
    summary: Annotated[str, typer.Option(help="One line; default: the title.", show_default=False)] = "",
    description: Annotated[str, typer.Option(help="What is wrong and why; - reads stdin.", show_default=False)] = "",
    fix: Annotated[str, typer.Option(help="What to change.", show_default=False)] = "",
    verify: Annotated[Words, typer.Option(help="How to see that it is fixed (may be repeated).")] = None,
    report: Annotated[str, typer.Option(help="The report that it comes from.", show_default=False)] = "",
    probe: Annotated[
        str | None,
        typer.Option(
            "--probe", metavar="CLAIM", help="File what this probe reproduces instead.", autocompletion=probe_ids
        ),
    ] = None,
    checkout: Annotated[str | None, typer.Option("--checkout", metavar="DIR[@REV]", help="For --probe.")] = None,
    *,
    options: AuditOptions,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a new ticket, by hand or from a probe's run.

    On a terminal without --title your editor opens. With --probe it takes the target options of `probe run`; where
    nothing is reproduced, nothing is filed.
    """
    from auditkit.errors import BadInputError
    from auditkit.model.enums import Severity
    from auditkit.model.tickets.ticket import parse_severity
    from auditkit.workflows.tickets import new_ticket

    repository, filing = new_ticket.repository_of(tickets), options.filing
    if probe is not None:
        from auditkit.workflows.configuration import read_configuration

        configuration = read_configuration(options.runs.config, checkout, repository)
        request = options.request(checkout, configuration, [probe], repository.folder, whole_source=True)
        _file_from_probe(request, as_json)
        return
    if title is None:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise BadInputError("what is wrong?", 'auditkit ticket new --title "..." --severity P1 --agent pytorch')
        made = new_ticket.new_ticket_in_editor(repository, filing.batch, filing.agent)
        say("nothing was written: the text is as it was") if made is None else _say_made(made, as_json)
        return
    draft = new_ticket.make_draft(
        title,
        choose(parse_severity, severity, list(Severity)),
        lines,
        category or (),
        files=file or (),
        function=function,
        domains=domain or (),
        summary=summary,
        description=text_of(description),
        fix=fix,
        verification=verify or (),
        report=report,
    )
    _say_made(new_ticket.new_ticket(repository, draft, filing.batch, filing.agent), as_json)


def _say_made(entry: Entry, as_json: bool) -> None:
    if as_json:
        ticket = entry.ticket
        say_json({"schema_version": 1, "id": ticket.id, "path": str(entry.file), "ticket": ticket.to_json()})
    else:
        say(f"{entry.ticket.id}: {entry.file}")


def _file_from_probe(request: AuditRequest, as_json: bool) -> None:
    """Run the probe, and say which ticket has what it reproduced; exit 0 also where that is nothing."""
    from auditkit.cli.runs.progress import progress
    from auditkit.errors import ExitCode
    from auditkit.workflows.audit.audit import audit, exit_code, load_failures

    with progress(findings=True) as told:
        run = audit(request, told)
    filed = _filed(run)
    if as_json:
        first = filed[0]["id"] if filed else None
        say_json({"schema_version": 1, "id": first, "filed": filed, "run": run.to_json()})
    for one in [] if as_json else filed:
        say(f"{one['id']}: {one['action']}, {one['message']}")
    for note in run.notes:
        complain(f"note: {note}")
    failures = load_failures(run)
    for failure in failures:
        complain(f"error: {failure.message}")
    code = exit_code(run)
    if code is ExitCode.OK and not as_json:
        say(f"{request.probes[0]} is not reproduced, so nothing is filed")
    # A finding that has its ticket is what was asked for.
    raise typer.Exit(0 if code is ExitCode.FINDINGS and filed else int(code))


def _filed(run: Run) -> list[dict[str, str]]:
    return [
        {
            "id": result.ticket,
            "action": result.ticket_action,
            "target": result.target,
            "fingerprint": result.fingerprint,
            "message": result.message,
        }
        for result in run.results
        if result.ticket and result.ticket_action
    ]


@app.command("import", epilog="Example: auditkit ticket import ../old/bugs --copy --tickets tickets")
@write_or_exit
def import_tickets(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the tickets lie.")],
    copy: Annotated[bool, typer.Option("--copy/--in-place", help="Copy them, or only check what is read.")] = False,
    skip_existing: Annotated[bool, typer.Option("--skip-existing", help="Leave out ids that are there.")] = False,
    skip_broken: Annotated[bool, typer.Option("--skip-broken", help="Leave out files that cannot be read.")] = False,
    tickets: TicketsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check tickets from elsewhere, or copy them into the folder.

    They are copied byte by byte. Nothing is rewritten: aliases and odd layouts are read as they are. A copy that was
    cut off goes on. Broken files are named with line and column, and exit 2; --copy then copies nothing, unless
    --skip-broken leaves them out.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.tickets.new_ticket import repository_of
    from auditkit.workflows.tickets.ticket_import import check_folder, copy_folder

    if (skip_existing or skip_broken) and not copy:
        raise BadInputError(f"--skip-{'existing' if skip_existing else 'broken'} goes with --copy")
    repository = repository_of(tickets)
    done = copy_folder(folder, repository, skip_existing, skip_broken) if copy else check_folder(folder)
    if as_json:
        say_json({"schema_version": 1, **done.to_json()})
    else:
        for _, target in done.copied:
            say(f"copied {target}")
        counts = [f"{len(done.tickets)} tickets", f"{len(done.broken)} broken", f"{len(done.pages)} other pages"]
        if copy:
            counts += [f"{len(done.copied)} copied", f"{len(done.skipped)} there already"]
        say(f"{folder}: {', '.join(counts)}")
        if done.tickets and not copy:
            complain("nothing was copied; --copy does that")
    if skip_broken:
        for broken in done.broken:
            complain(f"left out: {broken.describe(folder / broken.path)}")
        return
    end_if_broken(done.broken, folder)
