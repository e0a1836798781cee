"""Which two revisions `compare` means, how they are compared, and how a saved run is read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.options import ArmOptions, ProbesOption, TargetOption, with_cache

if TYPE_CHECKING:
    from auditkit.config.config import Config
    from auditkit.model.revisions.comparison import Comparison
    from auditkit.model.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """Which two revisions to compare, what to check at both, and how."""

    checkout: Annotated[
        str | None, typer.Argument(metavar="CHECKOUT", help="A git repository, or a folder in one.")
    ] = None
    base: Annotated[str | None, typer.Argument(metavar="BASE", help="The revision before.")] = None
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="The revision after.")] = None
    targets: TargetOption
    probe: ProbesOption = None
    runs: ArmOptions

    def compared(self, config: Config) -> Comparison:
        """The comparison, made now, with progress. Raises BadInputError."""
        from auditkit.cli.runs.progress import progress
        from auditkit.errors import BadInputError
        from auditkit.trials.compare import CompareRequest, compare

        targets = self.targets.targets(config, self.checkout)
        if self.checkout is None or self.base is None or self.head is None:
            raise BadInputError("name a checkout and two revisions of it", "auditkit compare CHECKOUT BASE HEAD")
        request = CompareRequest(
            checkout=self.checkout,
            base=self.base,
            head=self.head,
            options=with_cache(self.runs.with_config(config), fresh=False),
            targets=targets,
            probes=tuple(self.probe or ()),
        )
        with progress() as told:
            return compare(request, told)


def read_saved_run(path: Path) -> Run:
    """What `audit --json` or `probe run --json` printed into a file. Raises BadInputError where it is none."""
    from auditkit.errors import BadInputError
    from auditkit.model.runs.run import Run

    try:
        return Run.from_json(_read_document(path))
    except ValueError as error:
        hint = "auditkit audit CHECKOUT --json > FILE"
        raise BadInputError(f"{path} is not a saved run: {error}", hint) from None


def _read_document(path: Path) -> object:
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
