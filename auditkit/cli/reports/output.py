"""Where a document goes: to stdout, or whole into a file that nothing is lost by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from auditkit.cli.common import JsonOption
from auditkit.cli.output import complain, say, say_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from auditkit.model.codec import Record

    _Report = TypeVar("_Report", bound=Record)


@dataclass(frozen=True)
class FileOptions:
    """Where a document goes."""

    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there.", show_default="stdout")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Let --output replace a file that exists.")] = False

    def check(self) -> None:
        """Refuse what could not be written before anything is measured or read.

        Raises BadInputError for a file that exists, StoreConflictError for a folder that cannot be written.
        """
        from auditkit.errors import BadInputError
        from auditkit.files import ensure_writable

        if self.output is None:
            return
        if self.output.is_dir():
            raise BadInputError(f"{self.output} is a folder", "name a file: --output FILE")
        if self.output.exists() and not self.force:
            raise BadInputError(f"{self.output} exists already; nothing was written", "--force replaces it")
        ensure_writable(self.output.parent)

    def write(self, document: bytes) -> None:
        """The document in the file, which is then named on stderr, else on stdout. Raises what `check` raises."""
        from auditkit.files import write_file

        if self.output is None:
            say(document.decode("utf-8").removesuffix("\n"))
            return
        self.check()
        write_file(self.output, document)
        complain(f"wrote {self.output}")


@dataclass(frozen=True)
class OutputOptions(FileOptions):
    """Where a document goes, or that it is to be JSON instead."""

    as_json: JsonOption = False

    def check(self) -> None:
        """Likewise; raises BadInputError where both are asked for, too."""
        from auditkit.errors import BadInputError

        if self.output is not None and self.as_json:
            raise BadInputError("--output and --json exclude each other", "--json prints its document on stdout")
        super().check()

    def put(self, report: _Report, render: Callable[[_Report], bytes]) -> None:
        """The report as JSON on stdout, or as Markdown on stdout or in the file, which is then named on stderr.

        Raises BadInputError where the file exists and may not be replaced, StoreConflictError where it cannot
        be written.
        """
        if self.as_json:
            say_json(report.to_json())
        else:
            self.write(render(report))
