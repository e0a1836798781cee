"""The files of a watched run: JSON as an audit's, SARIF, and a page for a browser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from auditkit import __version__
from auditkit.errors import BadInputError
from auditkit.files import write_below
from auditkit.live.page import page
from auditkit.live.watch import Watched, catalog
from auditkit.reports.sarif import run_sarif


def check_files(files: Iterable[Path]) -> None:
    """Refuse a file that cannot be written before the program starts. Raises BadInputError."""
    for path in files:
        folder = path.absolute().parent
        if path.is_dir():
            raise BadInputError(f"{path} is a folder", "name a file")
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise BadInputError(
                f"{path} cannot be written: {folder} is not a folder that you may write to", "mkdir it first"
            )


def write_files(watched: Watched, files: Mapping[str, Path]) -> None:
    """Write each file as a whole."""
    for name, path in files.items():
        whole = path.absolute()
        write_below(whole.parent, whole.name, document(watched, name).encode())


def document(watched: Watched, form: str) -> str:
    """The run in one of the forms `save`, `sarif` and `html`."""
    if form == "save":
        return json.dumps(watched.run.to_json(), indent=2, allow_nan=False) + "\n"
    if form == "sarif":
        return json.dumps(run_sarif(watched.run, catalog(), __version__), indent=2) + "\n"
    return page(watched)
