"""What the reports of a run have in common: the run itself, saved or made now, and the tickets beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.options import make_targets, parse_choices

if TYPE_CHECKING:
    from auditkit.store.config import Config
    from auditkit.workflows.report_audit import ReportRequest

CheckoutArgument = Annotated[
    str | None,
    typer.Argument(metavar="[CHECKOUT[@REV]]", help="What to audit; with --run: where to read the source."),
]
RunOption = Annotated[
    Path | None, typer.Option("--run", metavar="FILE", help="A finished run, as `audit --json` printed it.")
]
ProbesOption = Annotated[
    list[str] | None, typer.Option("--probe", metavar="ID", help="Only this probe (may be repeated).")
]
DEFAULT_TICKETS = Path("tickets")


@dataclass(frozen=True)
class Asked:
    """The options of a report of a run, as they were typed; `details` are those that describe a target."""

    checkout: str | None
    run_file: Path | None
    targets: list[str] | None
    details: tuple[object, ...]
    probes: list[str] | None
    pythons: list[str] | None
    devices: list[str] | None
    config: Path | None
    tickets: Path | None
    time_limit_s: float


def request_of(asked: Asked) -> ReportRequest:
    """The saved run, or the one that is made now. Raises BadInputError for options that do not fit together."""
    from auditkit.cli.report import progress_on_terminal
    from auditkit.errors import BadInputError
    from auditkit.workflows.audit import AuditRequest
    from auditkit.workflows.configuration import read_configuration
    from auditkit.workflows.report_audit import ReportRequest, new_run, read_saved_run

    if asked.checkout is None and asked.run_file is None:
        raise BadInputError("neither a checkout nor a run is named", "name CHECKOUT, or --run FILE")
    configuration = read_configuration(asked.config, asked.checkout)
    folder = tickets_folder(asked.tickets, configuration)
    if asked.run_file is not None:
        if any((asked.targets, *asked.details, asked.probes, asked.pythons, asked.devices)):
            raise BadInputError("--run is a finished run, and the other options ask anew", "leave one of them out")
        return ReportRequest(read_saved_run(asked.run_file), asked.checkout, folder, configuration)
    arms, _ = parse_choices(configuration, asked.time_limit_s, asked.pythons, asked.devices, "P4", None, None)
    request = AuditRequest(
        checkout=str(asked.checkout),
        targets=make_targets(asked.targets, configuration, *asked.details),  # type: ignore[arg-type]
        probes=tuple(asked.probes or ()),
        arms=arms,
    )
    with progress_on_terminal() as progress:
        run = new_run(request, progress)
    return ReportRequest(run, asked.checkout, folder, configuration)


def tickets_folder(named: Path | None, configuration: Config) -> Path | None:
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
