"""`auditkit export`: a saved run in the formats that other programs read; and the options that `audit` shares."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import option, run_or_exit
from auditkit.cli.options import WRITTEN
from auditkit.cli.output import complain
from auditkit.errors import BadInputError

if TYPE_CHECKING:
    from auditkit.model.runs.run import Run

EXAMPLE = "Example: auditkit export run.json --sarif audit.sarif --csv audit.csv"


@dataclass(frozen=True)
class OutputFiles:
    """Into which files a run is written, each replaced as a whole."""

    sarif: Annotated[Path | None, option("--sarif", "Findings as SARIF 2.1.0.", "FILE", WRITTEN)] = None
    junit: Annotated[Path | None, option("--junit", "Every check as a test of JUnit.", "FILE", WRITTEN)] = None
    gitlab: Annotated[Path | None, option("--gitlab", "GitLab's code quality report.", "FILE", WRITTEN)] = None
    csv: Annotated[Path | None, option("--csv", "Every result as a row of a table.", "FILE", WRITTEN)] = None

    def checked(self, source: Path | None = None) -> dict[str, Path]:
        """The files that were named, by format, all of which can be written; `source` is not one of them.

        Raises BadInputError or StoreConflictError.
        """
        from auditkit.reports.export import check_outputs

        files = {field.name: file for field in fields(self) if (file := getattr(self, field.name)) is not None}
        check_outputs(files, source)
        return files


@dataclass(frozen=True)
class PageFiles(OutputFiles):
    """Into which files an audit is written, pages among them."""

    html: Annotated[Path | None, option("--html", "A page for a browser, with pictures.", "FILE", WRITTEN)] = None
    summary: Annotated[Path | None, option("--summary", "Markdown for a job's summary.", "FILE", WRITTEN)] = None


@run_or_exit
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN.json", help="A finished run, as `audit --json` printed it.")],
    *,
    outputs: OutputFiles,
) -> None:
    """Write a saved run as SARIF, JUnit, GitLab or CSV.

    The formats are those of `auditkit audit`, and every finding has the fingerprint of its ticket in all of them. Exits
    0 when they are written, whatever the run has found.
    """
    from auditkit.probing.engine.catalog import load_catalog
    from auditkit.reports.export import write_outputs

    files = outputs.checked(run)
    if not files:
        raise BadInputError(
            "no format is named", "one or several of --sarif, --junit, --gitlab, --csv FILE; a page: auditkit report"
        )
    write_outputs(read_saved_run(run), files, load_catalog())
    complain(f"wrote {', '.join(map(str, files.values()))}")


def read_saved_run(path: Path) -> Run:
    """What `audit --json` or `probe run --json` printed into a file. Raises BadInputError where it is none."""
    import json

    from auditkit.model.runs.run import Run

    try:
        return Run.from_json(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        hint = "auditkit audit CHECKOUT --json > FILE"
        raise BadInputError(f"{path} is not a saved run: {error}", hint) from None
