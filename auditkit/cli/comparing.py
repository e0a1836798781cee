"""What `compare` and `report review` have in common: which two sides are meant, and how they are compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from auditkit.model.comparison import Comparison
    from auditkit.model.run import Run
    from auditkit.model.target import Target
    from auditkit.store.config import Config

CheckoutArgument = Annotated[
    str | None, typer.Argument(metavar="CHECKOUT", help="A git repository, or a folder in one.")
]
BaseArgument = Annotated[str | None, typer.Argument(metavar="BASE", help="The revision before.")]
HeadArgument = Annotated[str | None, typer.Argument(metavar="HEAD", help="The revision after.")]
ProbesOption = Annotated[
    list[str] | None, typer.Option("--probe", metavar="ID", help="Only this probe (may be repeated).")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="auto|cuda|cpu|simulated", help="Where probes run.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Compare what other versions, devices or dtypes measured.")]


def compare_revisions(
    sides: tuple[str | None, str | None, str | None],
    configuration: Config,
    targets: tuple[Target, ...],
    probes: list[str] | None,
    python: str | None,
    device: str,
    time_limit_s: float,
    force: bool,
) -> Comparison:
    """The comparison of `sides`, which are checkout, base and head, with progress. Raises BadInputError."""
    from auditkit.cli.common import choose
    from auditkit.cli.report import progress_on_terminal
    from auditkit.errors import BadInputError
    from auditkit.model.enums import DeviceChoice
    from auditkit.workflows.compare import CompareRequest, compare
    from auditkit.workflows.run_options import RunOptions

    checkout, base, head = sides
    if checkout is None or base is None or head is None:
        raise BadInputError("name a checkout and two revisions of it", "auditkit compare CHECKOUT BASE HEAD")
    request = CompareRequest(
        checkout=checkout,
        base=base,
        head=head,
        options=RunOptions(
            configuration,
            python,
            choose(DeviceChoice, device, [known.value for known in DeviceChoice], "device"),
            time_limit_s,
        ),
        targets=targets,
        probes=tuple(probes or ()),
        force=force,
    )
    with progress_on_terminal() as progress:
        return compare(request, progress)


def compare_saved(base: str | None, head: str | None, force: bool) -> Comparison:
    """Two documents of `audit --json` or `probe run --json` set side by side. Raises BadInputError."""
    from auditkit.errors import BadInputError
    from auditkit.workflows.compare import compare_runs

    if base is None or head is None:
        raise BadInputError("--runs takes two files", "auditkit compare --runs base.json head.json")
    return compare_runs(_read_run(Path(base)), _read_run(Path(head)), force)


def _read_run(path: Path) -> Run:
    from auditkit.errors import BadInputError
    from auditkit.model.run import Run

    try:
        return Run.from_json(read_document(path))
    except ValueError as error:
        raise BadInputError(f"{path} is no saved run: {error}", "auditkit audit CHECKOUT --json > FILE") from None


def read_document(path: Path) -> object:
    """The JSON in a file. Raises BadInputError with the place where it is none."""
    import json

    from auditkit.errors import BadInputError

    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{path}:1: not UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadInputError(f"{path}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise BadInputError(f"{path}: nested too deeply") from None


def read_saved_comparison(path: Path) -> Comparison:
    """What `compare --json` printed into a file. Raises BadInputError where it is something else."""
    from auditkit.errors import BadInputError
    from auditkit.model.comparison import Comparison

    try:
        return Comparison.from_json(read_document(path))
    except ValueError as error:
        hint = "auditkit compare CHECKOUT BASE HEAD --json > FILE"
        raise BadInputError(f"{path} is no saved comparison: {error}", hint) from None
