"""`auditkit run`: watch a real training run and judge it by the laws."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import JsonOption, option, run_or_exit
from auditkit.cli.options import WRITTEN, Words, parse_severity
from auditkit.cli.output import complain, say_json
from auditkit.errors import BadInputError, ExitCode

EXAMPLE = "Example: auditkit run --steps 20 --html run.html -- torchrun --nproc-per-node 2 train.py"
_HOW = "How auditkit inspects"


@run_or_exit
def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program, as you start it.")
    ] = None,
    steps: Annotated[int | None, option("--steps", "End the program after N optimizer steps.", "N", min=1)] = None,
    fail_on: Annotated[str | None, option("--fail-on", "Exit 1 from this severity on.", "P0..P4")] = None,
    accept: Annotated[Words, option("--accept", "Accept a finding; it is counted.", "LAW:PLACE=REASON")] = None,
    every: Annotated[int, option("--every", "Inspect every N-th step after the first 5.", "N", panel=_HOW, min=1)] = 50,
    budget: Annotated[str | None, option("--budget", "Choose --every for this cost: 0.3%.", "PERCENT", _HOW)] = None,
    folder: Annotated[Path | None, option("--folder", "Shared by the nodes of a run.", "DIR", _HOW)] = None,
    as_json: JsonOption = False,
    save: Annotated[Path | None, option("--save", "The whole run as JSON, as of an audit.", "FILE", WRITTEN)] = None,
    html: Annotated[Path | None, option("--html", "A page of the findings.", "FILE", WRITTEN)] = None,
    sarif: Annotated[Path | None, option("--sarif", "Findings as SARIF 2.1.0.", "FILE", WRITTEN)] = None,
    tickets: Annotated[Path | None, option("--tickets", "For findings of P3 or worse.", "DIR", WRITTEN)] = None,
) -> None:
    """Watch a training run and report what breaks it.

    Your program runs as it is: its output passes through and its exit code is kept. auditkit inspects the first 5
    optimizer steps and every 50th, and reports to stderr when the program has ended. Exit code 3 means that nothing
    was watched.
    """
    from auditkit.files import ensure_writable, write_file
    from auditkit.live.report import document, report
    from auditkit.live.watch import read_accepted, watch
    from auditkit.probing.run.configuration import read_configuration
    from auditkit.reports.export import check_outputs

    if not command:
        raise BadInputError("no command is named", "auditkit run -- python train.py")
    lowest = parse_severity(fail_on) if fail_on is not None else None
    files = {name: path for name, path in (("save", save), ("html", html), ("sarif", sarif)) if path is not None}
    check_outputs(files)
    config = read_configuration(None, ".")  # of this folder, or an empty one
    accepted = [*map(read_accepted, accept or ()), *(read_accepted(each, "auditkit.yaml") for each in config.accept)]
    if tickets is not None:
        ensure_writable(tickets)
    settings = {"every": every, "steps": steps, "budget": _share(budget)}
    watched = watch(command, settings, folder, accepted)
    if watched.recording.trained:
        if tickets is not None:
            from auditkit.live.tickets import file_tickets
            from auditkit.tickets.filing import FilingOptions
            from auditkit.tickets.store import TicketFolder

            options = FilingOptions(config.batch if config.batch is not None else 1, config.agent, config.agents)
            watched = file_tickets(watched, TicketFolder(tickets), command, options)
        for name, path in files.items():
            write_file(path, document(watched, name))
    for line in report(watched):
        complain(line)
    if as_json:
        say_json(watched.run.to_json())
    elif files and watched.recording.trained:
        complain(f"wrote {', '.join(map(str, files.values()))}")
    code = 0 if watched.ended.limit else watched.ended.code
    if not code and not watched.recording.trained:
        code = int(ExitCode.NOTHING_MEASURED)
    if not code and lowest and any(each.severity and each.severity.at_least(lowest) for each in watched.findings):
        code = int(ExitCode.FINDINGS)
    raise typer.Exit(code)


def _share(text: str | None) -> float | None:
    """`0.3%` as 0.003. Raises BadInputError for other texts."""
    if text is None:
        return None
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise BadInputError(f"--budget {text}: not a percentage", "for example: --budget 0.3%")
    return value
