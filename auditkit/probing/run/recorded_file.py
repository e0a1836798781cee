"""`auditkit-recorded.json` of a checkout, and which functions changed since it was written."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable
from pathlib import Path

from auditkit.model.runs.recorded import MOST_BYTES, RECORDED_NAME, RecordedRun, read_recorded
from auditkit.model.text import listed
from auditkit.probing.find.blocks.blocks import function_or_block
from auditkit.probing.source.modules import Function
from auditkit.probing.source.python_files import PythonFiles

_ANEW = "auditkit run -- COMMAND writes a new one"
_MOST_NAMED = 3


def recorded_in(folder: Path) -> tuple[RecordedRun | None, str]:
    """Return the recorded run of a checkout, or None; and a sentence if its file cannot be used."""
    path = folder / RECORDED_NAME
    if not path.is_file() or path.is_symlink():
        return None, ""
    try:
        with path.open("rb") as file:
            return read_recorded(file.read(MOST_BYTES + 1)), ""
    except (OSError, ValueError) as error:
        return None, f"{RECORDED_NAME} is not used: {str(error)[:200]}; {_ANEW}"


def source_digest(function: Function) -> str:
    """Return a digest of a function's syntax tree, without lines and comments."""
    return hashlib.sha256(ast.dump(function.node).encode()).hexdigest()[:16]


def recorded_notes(folder: Path, read: Callable[[], PythonFiles]) -> list[str]:
    """Say in at most one line which functions changed since they were recorded, or why the file is not used."""
    run, why = recorded_in(folder)
    if run is None:
        return [why] if why else []
    files = read()
    own = {call: each.source for call, each in run.calls.items() if each.source}
    now = {call: source_digest(found) for call in own if (found := function_or_block(files, call)) is not None}
    if own and not now:
        return [f"{RECORDED_NAME} is of another checkout: none of the functions that it names is here; {_ANEW}"]
    changed = [call for call, digest in now.items() if digest != own[call]]
    if not changed:
        return []
    text = f"changed since their calls were recorded on {run.when}, which are used anyway"
    return [f"{text}: {listed(changed, _MOST_NAMED)}; {_ANEW}"]
