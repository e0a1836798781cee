"""What the reports of a run have in common: the run itself, saved or made now, and the tickets beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from auditkit.cli.common import TicketsOption
from auditkit.cli.comparison import read_saved_run
from auditkit.cli.options import AuditOptions, FilingOptions, MatrixOptions, ProbesOption, TargetOptions
from auditkit.cli.output import complain

if TYPE_CHECKING:
    from auditkit.model.runs.run import Run
    from auditkit.store.config.config import Config
    from auditkit.workflows.reports.audit_report import ReportRequest

DEFAULT_TICKETS = Path("tickets")


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """Which run a report is of: a saved one, or one that is made now; and which tickets are read beside it."""

    checkout: Annotated[
        str | None,
        typer.Argument(metavar="[CHECKOUT[@REV]]", help="What to audit; with --run: where to read the source."),
    ] = None
    run_file: Annotated[
        Path | None, typer.Option("--run", metavar="FILE", help="A finished run, as `audit --json` printed it.")
    ] = None
    probe: ProbesOption = None
    targets: TargetOptions
    runs: MatrixOptions
    tickets: TicketsOption = None

    def request(self) -> ReportRequest:
        """The saved run, or one that is made now. Raises BadInputError for options that do not fit together."""
        from auditkit.cli.runs.progress import progress
        from auditkit.errors import BadInputError
        from auditkit.workflows.configuration import read_configuration
        from auditkit.workflows.reports.audit_report import ReportRequest, new_run

        if self.checkout is None and self.run_file is None:
            raise BadInputError("neither a checkout nor a run is named", "name CHECKOUT, or --run FILE")
        configuration = read_configuration(self.runs.config, self.checkout)
        folder = _tickets_folder(self.tickets, configuration)
        if self.run_file is not None:
            if self.targets.are_given or any((self.probe, self.runs.python, self.runs.device)):
                raise BadInputError("--run is a finished run, and the other options ask anew", "leave one of them out")
            return ReportRequest(read_saved_run(self.run_file), self.checkout, folder, configuration)
        options = AuditOptions(self.targets, self.runs, FilingOptions())
        request = options.request(self.checkout, configuration, self.probe, tickets=None)
        with progress(findings=True) as told:
            run = new_run(request, told)
        return ReportRequest(run, self.checkout, folder, configuration)


def end(run: Run) -> NoReturn:
    """Say what could not be loaded or measured, and end: 0, or 3 or 5 where questions are left without an answer."""
    from auditkit.workflows.audit.audit import load_failures
    from auditkit.workflows.reports.audit_report import report_code

    for failure in load_failures(run):
        complain(f"error: {failure.message}")
    raise typer.Exit(int(report_code(run)))


def _tickets_folder(named: Path | None, configuration: Config) -> Path | None:
    """The named folder, the configuration's, or `tickets`; None where none is named and none is there.

    Raises BadInputError for a named one that is not there.
    """
    from auditkit.errors import BadInputError

    folder = named or configuration.tickets
    if folder is None:
        return DEFAULT_TICKETS if DEFAULT_TICKETS.is_dir() else None
    if named is not None and not folder.is_dir():
        raise BadInputError(f"no tickets folder: {folder}", "name the folder: --tickets DIR")
    return folder if folder.is_dir() else None
