"""`auditkit report review`: an implementation review, measured at two revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from auditkit.cli.common import TicketsOption, complain, run_or_exit
from auditkit.cli.comparison import CompareOptions, read_saved_comparison
from auditkit.cli.option_groups import with_groups
from auditkit.cli.options import Words
from auditkit.cli.reports.app import app
from auditkit.cli.reports.output import OutputOptions


@app.command(
    epilog="Example: auditkit report review ../trainer v1.1 v1.2 --require 'syncs_grow_with_tensors: fixed' "
    "--output review.md"
)
@run_or_exit
@with_groups
def review(
    *,
    options: CompareOptions,
    comparison: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A comparison, as `compare --json` printed it.")
    ] = None,
    ticket: Annotated[
        str | None, typer.Option("--ticket", metavar="ID", help="Its boxes and claims are requirements.")
    ] = None,
    tickets: TicketsOption = None,
    require: Annotated[
        Words,
        typer.Option(
            "--require",
            metavar="TEXT",
            help="PROBE: fixed, PROBE: not_reproduced, PROBE law = O(1), answers: same (may be repeated).",
        ),
    ] = None,
    reviewer: Annotated[str, typer.Option("--reviewer", metavar="NAME", help="Who reviews.")] = "",
    plan: Annotated[str, typer.Option("--plan", metavar="TEXT", help="What the change was planned in.")] = "",
    out: OutputOptions,
) -> None:
    """Write an implementation review: requirements against what was measured, equivalence, before and after, verdict.

    What the commits' messages claim of syncs, launches, memory, overflow and answers is held against the
    measurements, too. Exit 0 when approved, 1 when it needs work or is rejected.
    """
    from auditkit.errors import BadInputError
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.reports.implementation_review import Assessment, ReviewRequest, render_review
    from auditkit.workflows.reports.implementation_review import review as write

    out.check()
    configuration = read_configuration(options.runs.config, options.checkout)
    if comparison is None:
        compared = options.compared(configuration)
    elif options.ask:
        raise BadInputError("--from is a finished comparison, and the other options ask anew")
    else:
        compared = read_saved_comparison(comparison)
    folder = tickets or configuration.tickets
    request = ReviewRequest(compared, tuple(require or ()), ticket, folder, reviewer, plan, configuration)
    written = write(request)
    out.put(written, render_review)
    for note in compared.notes:
        complain(f"note: {note}")
    raise typer.Exit(0 if written.assessment is Assessment.APPROVED else 1)
