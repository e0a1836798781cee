"""Where a document goes: to stdout, or whole into a file that nothing is lost by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from auditkit.cli.common import complain, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from auditkit.model.ticket import BrokenTicket

OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there.", show_default="stdout")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Let --output replace a file that exists.")]


def check_output(output: Path | None, force: bool, as_json: bool = False) -> None:
    """Refuse what could not be written before anything is measured or read.

    Raises BadInputError for a file that exists, StoreConflictError for a folder that cannot be written.
    """
    from auditkit.errors import BadInputError
    from auditkit.store.files import ensure_writable

    if output is None:
        return
    if as_json:
        raise BadInputError("--output and --json exclude each other", "--json prints its document on stdout")
    if output.is_dir():
        raise BadInputError(f"{output} is a folder", "name a file: --output FILE")
    if output.exists() and not force:
        raise BadInputError(f"{output} exists already; nothing was written", "--force replaces it")
    ensure_writable(output.parent)


def put_document(document: bytes, output: Path | None, force: bool = False) -> None:
    """The Markdown `document` on stdout, or in the file `output` at once, which is then named on stderr.

    Raises BadInputError where the file exists and may not be replaced, StoreConflictError where it cannot
    be written.
    """
    from auditkit.store.files import create_file, replace_file

    if output is None:
        say(document.decode("utf-8").removesuffix("\n"))
        return
    check_output(output, force)
    if output.exists():
        replace_file(output, document, output.read_bytes())
    else:
        create_file(output, document)
    complain(f"wrote {output}")


def end_if_broken(broken: Sequence[BrokenTicket], folder: Path) -> None:
    """Name every file whose ticket is in no count, and end with exit code 2 if there is one."""
    from auditkit.errors import ExitCode

    for entry in broken:
        complain(entry.describe(folder / entry.path))
    if broken:
        raise typer.Exit(int(ExitCode.BAD_INPUT))
